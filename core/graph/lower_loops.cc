#include "core/graph/lower_loops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/loop_frames.h"

namespace formwork {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kMissing = absl::StatusCode::kUnimplemented;

// One loop, on its way to a While.
class Loop {
 public:
  // `nodes`: those of the frame and of frames in it. `enters`: those that lead into it.
  Loop(const FlowBody& body, const LoopFrames& frames, int frame, std::vector<int> nodes,
       std::vector<int> enters, ImportScope& scope)
      : body_(body),
        frames_(frames),
        frame_(frame),
        nodes_(std::move(nodes)),
        enters_(std::move(enters)),
        scope_(scope) {}

  absl::Status Lower(const std::vector<bool>& must_run, FlowChanges& changes,
                     std::deque<tf::NodeDef>& made);

 private:
  struct Variable {
    int merge;
    int enter;  // The place of the Merge's input with the first value.
    int next;   // That of the NextIteration.
  };

  absl::Status FindParts();
  bool IsOwnSwitch(int node) const {
    return body_.kind(node) == FlowKind::kSwitch && frames_.of(node) == frame_ &&
           body_.inputs(node).size() > 1 && body_.inputs(node)[1].node == condition_;
  }
  // Whether it is part of the loop itself, and in neither of its functions.
  bool IsPart(int node) const {
    const FlowKind kind = body_.kind(node);
    return frames_.of(node) == frame_ &&
           (node == condition_ || kind == FlowKind::kExit || kind == FlowKind::kNextIteration ||
            variable_of_.contains(node) || IsOwnSwitch(node));
  }
  // The variable whose value a Switch of the loop has.
  absl::StatusOr<size_t> VariableOf(int own_switch) const;
  absl::StatusOr<FlowFunctions::Taken> Take(const FlowInput& input, const std::string& text,
                                            FlowFunctions& functions, bool in_body) const;
  // Those of `must_run` that run in the body, and in the condition.
  void FindEffects(const std::vector<bool>& must_run, std::vector<int>& body_roots,
                   std::vector<int>& condition_roots) const;

  const FlowBody& body_;
  const LoopFrames& frames_;
  const int frame_;
  const std::vector<int> nodes_;
  const std::vector<int> enters_;
  ImportScope& scope_;
  int condition_ = -1;  // The LoopCond.
  std::vector<Variable> variables_;
  HashMap<int, size_t> variable_of_;  // By Merge.
  std::vector<int> exits_;
};

absl::Status Loop::FindParts() {
  for (const int node : nodes_) {
    if (frames_.of(node) != frame_) continue;
    const tf::NodeDef& def = body_.def(node);
    const std::vector<int> data = body_.DataInputs(node);
    if (body_.kind(node) == FlowKind::kLoopCond) {
      if (condition_ >= 0) return FlowProblem(kInvalid, def, "the loop has two LoopConds");
      if (data.size() != 1) return FlowProblem(kInvalid, def, "wrong number of inputs");
      condition_ = node;
    } else if (body_.kind(node) == FlowKind::kExit) {
      exits_.push_back(node);
    } else if (body_.kind(node) == FlowKind::kMerge) {
      Variable variable{node, -1, -1};
      for (const int k : data) {
        const int source = body_.inputs(node)[k].node;
        if (source < 0) continue;
        if (body_.kind(source) == FlowKind::kNextIteration) variable.next = k;
        if (body_.kind(source) == FlowKind::kEnter && frames_.out_of(source) == frame_) {
          variable.enter = k;
        }
      }
      if (variable.next < 0) continue;  // It joins branches.
      if (variable.enter < 0 || data.size() != 2) {
        return FlowProblem(kInvalid, def, "its inputs are not an Enter and a NextIteration");
      }
      const int next = body_.inputs(node)[variable.next].node;
      if (body_.DataInputs(next).size() != 1 || frames_.of(next) != frame_) {
        return FlowProblem(kInvalid, body_.def(next), "wrong inputs");
      }
      variable_of_.try_emplace(node, variables_.size());
      variables_.push_back(variable);
    }
  }
  for (const int enter : enters_) {
    if (body_.DataInputs(enter).size() != 1) {
      return FlowProblem(kInvalid, body_.def(enter), "wrong number of inputs");
    }
  }
  if (condition_ >= 0) return absl::OkStatus();
  return FlowProblem(kInvalid, body_.def(enters_.front()), "it leads into a loop without LoopCond");
}

absl::StatusOr<size_t> Loop::VariableOf(int own_switch) const {
  const auto variable = variable_of_.find(body_.inputs(own_switch)[0].node);
  if (variable != variable_of_.end()) return variable->second;
  return FlowProblem(kMissing, body_.def(own_switch), "its value is not that of the loop's Merges");
}

absl::StatusOr<FlowFunctions::Taken> Loop::Take(const FlowInput& input, const std::string& text,
                                                FlowFunctions& functions, bool in_body) const {
  const int node = input.node;
  if (node < 0) {
    if (input.control) return FlowFunctions::Taken{};
    return functions.Capture(text);
  }
  if (frames_.top_of(node) != frame_) {
    if (body_.kind(node) == FlowKind::kEnter && frames_.out_of(node) == frame_) {
      if (input.control) return FlowFunctions::Taken{};
      FORMWORK_ASSIGN_OR_RETURN(const DType dtype, FlowType(body_.def(node)));
      return functions.Capture(body_.def(node).input(body_.DataInputs(node)[0]), dtype);
    }
    if (!input.control) return functions.Capture(text);
    functions.WaitFor(body_.def(node).name());
    return FlowFunctions::Taken{};
  }
  const auto variable = variable_of_.find(node);
  const bool own_switch = IsOwnSwitch(node);
  if (input.control && (variable != variable_of_.end() || own_switch || node == condition_)) {
    return FlowFunctions::Taken{};
  }
  if (variable != variable_of_.end() && input.output == 0) {
    return FlowFunctions::Taken{false, FlowFunctions::ParameterName(variable->second)};
  }
  if (own_switch && in_body && input.output == 1) {
    FORMWORK_ASSIGN_OR_RETURN(const size_t value, VariableOf(node));
    return FlowFunctions::Taken{false, FlowFunctions::ParameterName(value)};
  }
  if (IsPart(node)) {
    return FlowProblem(kMissing, body_.def(node), "an output of it is used in an unusual way");
  }
  return FlowFunctions::Taken{true, ""};
}

void Loop::FindEffects(const std::vector<bool>& must_run, std::vector<int>& body_roots,
                       std::vector<int>& condition_roots) const {
  std::vector<int> pending;
  HashMap<int, std::vector<int>> users;
  HashSet<int> behind;  // What has a value of the body.
  for (const int node : nodes_) {
    if (body_.kind(node) == FlowKind::kMerge && variable_of_.contains(node)) continue;
    for (const FlowInput& input : body_.inputs(node)) {
      if (input.node < 0) continue;
      if (!IsOwnSwitch(input.node)) {
        users[input.node].push_back(node);
      } else if (input.output == 1 && behind.insert(node).second) {
        pending.push_back(node);
      }
    }
  }
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    for (const int user : users[node]) {
      if (behind.insert(user).second) pending.push_back(user);
    }
  }
  for (const int node : nodes_) {
    if (!must_run[node] || IsPart(node)) continue;
    (behind.contains(node) ? body_roots : condition_roots).push_back(node);
  }
}

absl::Status Loop::Lower(const std::vector<bool>& must_run, FlowChanges& changes,
                         std::deque<tf::NodeDef>& made) {
  FORMWORK_RETURN_IF_ERROR(FindParts());
  std::vector<DType> dtypes;
  for (const Variable& variable : variables_) {
    FORMWORK_ASSIGN_OR_RETURN(const DType dtype, FlowType(body_.def(variable.merge)));
    dtypes.push_back(dtype);
  }
  FlowFunctions functions(body_, scope_, dtypes);
  const auto in_condition = [&](const FlowInput& input, const std::string& text) {
    return Take(input, text, functions, false);
  };
  const auto in_body = [&](const FlowInput& input, const std::string& text) {
    return Take(input, text, functions, true);
  };
  // What an input, which stands behind the function's results, needs of it.
  const auto reach = [&](int node, int k, const FlowFunctions::Boundary& boundary,
                         std::vector<int>& roots) -> absl::Status {
    const FlowInput& input = body_.inputs(node)[k];
    FORMWORK_ASSIGN_OR_RETURN(const FlowFunctions::Taken taken,
                              boundary(input, body_.def(node).input(k)));
    if (taken.inside) roots.push_back(input.node);
    return absl::OkStatus();
  };
  std::vector<int> body_roots, condition_roots;
  FindEffects(must_run, body_roots, condition_roots);
  for (size_t k = 0; k < body_.inputs(condition_).size(); ++k) {
    FORMWORK_RETURN_IF_ERROR(reach(condition_, static_cast<int>(k), in_condition, condition_roots));
  }
  for (const Variable& variable : variables_) {
    const int next = body_.inputs(variable.merge)[variable.next].node;
    for (size_t k = 0; k < body_.inputs(next).size(); ++k) {
      FORMWORK_RETURN_IF_ERROR(reach(next, static_cast<int>(k), in_body, body_roots));
    }
  }

  tf::FunctionDef condition, step;
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<int> of_condition,
                            functions.Fill(std::move(condition_roots), in_condition, condition));
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<int> of_body,
                            functions.Fill(std::move(body_roots), in_body, step));
  const int decides = body_.DataInputs(condition_)[0];
  FORMWORK_RETURN_IF_ERROR(functions.AddResult(body_.inputs(condition_)[decides],
                                               body_.def(condition_).input(decides), DType::kBool,
                                               in_condition, condition));
  for (size_t i = 0; i < variables_.size(); ++i) {
    const int next = body_.inputs(variables_[i].merge)[variables_[i].next].node;
    const int k = body_.DataInputs(next)[0];
    FORMWORK_RETURN_IF_ERROR(functions.AddResult(body_.inputs(next)[k], body_.def(next).input(k),
                                                 dtypes[i], in_body, step));
  }
  for (size_t i = dtypes.size(); i < functions.dtypes().size(); ++i) {
    FlowFunctions::AddResult(FlowFunctions::ParameterName(i), functions.dtypes()[i], step);
  }

  tf::NodeDef& loop = made.emplace_back();
  loop.set_name(absl::StrCat(body_.def(condition_).name(), "#loop"));
  bool stateful = false;
  for (const std::vector<int>* const of : {&of_condition, &of_body}) {
    for (const int node : *of) {
      const Effect effect = FlowEffect(body_.def(node), scope_);
      stateful = stateful || effect != Effect::kNone;
      const bool in_both =
          of == &of_body && std::binary_search(of_condition.begin(), of_condition.end(), node);
      if (in_both && effect >= Effect::kWrite) {
        return FlowProblem(kMissing, body_.def(node),
                           "it has an effect, and both the loop's condition and its body need it");
      }
    }
  }
  loop.set_op(stateful ? "While" : "StatelessWhile");
  for (const Variable& variable : variables_) {
    const int enter = body_.inputs(variable.merge)[variable.enter].node;
    loop.add_input(body_.def(enter).input(body_.DataInputs(enter)[0]));
  }
  for (const std::string& text : functions.captured()) loop.add_input(text);
  for (const int enter : enters_) {
    for (size_t k = 0; k < body_.inputs(enter).size(); ++k) {
      const FlowInput& input = body_.inputs(enter)[k];
      if (input.control && input.node >= 0) functions.WaitFor(body_.def(input.node).name());
    }
    changes.gone[enter] = true;
    changes.runs_in.try_emplace(body_.def(enter).name(), loop.name());
  }
  for (const std::string& node : functions.waited_for()) loop.add_input(absl::StrCat("^", node));
  SetTypes(functions.dtypes(), "T", loop);
  auto& attrs = *loop.mutable_attr();
  const std::string& name = body_.def(condition_).name();
  attrs["cond"].mutable_func()->set_name(
      functions.Finish(std::move(condition), absl::StrCat(name, "#cond")));
  attrs["body"].mutable_func()->set_name(
      functions.Finish(std::move(step), absl::StrCat(name, "#body")));

  for (const int node : nodes_) {
    changes.gone[node] = true;
    changes.runs_in.try_emplace(body_.def(node).name(), loop.name());
  }
  for (const int exit : exits_) {
    const std::vector<int> data = body_.DataInputs(exit);
    const FlowInput from = data.size() == 1 ? body_.inputs(exit)[data[0]] : FlowInput{};
    if (from.node < 0 || !IsOwnSwitch(from.node) || from.output != 0) {
      return FlowProblem(kMissing, body_.def(exit), "its input is not what ends the loop");
    }
    FORMWORK_ASSIGN_OR_RETURN(const size_t value, VariableOf(from.node));
    tf::NodeDef& identity = made.emplace_back();
    identity.set_name(body_.def(exit).name());
    identity.set_op("Identity");
    identity.set_device(body_.def(exit).device());
    identity.add_input(absl::StrCat(loop.name(), ":", value));
    SetType(dtypes[value], "T", identity);
    changes.instead[exit] = &identity;
    changes.runs_in.erase(identity.name());
  }
  changes.ahead[condition_].push_back(&loop);
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerLoops(const FlowBody& body, const std::vector<bool>& must_run, ImportScope& scope,
                        FlowChanges& changes, std::deque<tf::NodeDef>& made) {
  changes.gone.resize(body.size());
  LoopFrames frames(body);
  FORMWORK_RETURN_IF_ERROR(frames.Find());
  const size_t num_frames = frames.all().size();
  std::vector<std::vector<int>> nodes(num_frames), enters(num_frames);
  for (int node = 0; node < body.size(); ++node) {
    if (frames.of(node) != 0) nodes[frames.top_of(node)].push_back(node);
    if (frames.of(node) != 0 || frames.out_of(node) == 0) continue;
    enters[frames.out_of(node)].push_back(node);
  }
  for (size_t i = 1; i < num_frames; ++i) {
    if (frames.all()[i].parent != 0) continue;
    Loop loop(body, frames, static_cast<int>(i), std::move(nodes[i]), std::move(enters[i]), scope);
    FORMWORK_RETURN_IF_ERROR(loop.Lower(must_run, changes, made));
  }
  return absl::OkStatus();
}

}  // namespace formwork
