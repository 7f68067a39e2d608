#include "core/graph/lower_branches.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <queue>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// The branch of a predicate: of a truth value, 0 where it is false and 1 where it is true.
struct Side {
  int predicate = -1;
  int branch = 0;
  bool operator==(const Side&) const = default;
  auto operator<=>(const Side&) const = default;
};
// What must hold where a node runs, sorted.
using Guard = std::vector<Side>;

class Branches {
 public:
  Branches(const FlowBody& body, const std::vector<bool>& must_run, ImportScope& scope,
           FlowChanges& changes, std::deque<tf::NodeDef>& made)
      : body_(body),
        must_run_(must_run),
        scope_(scope),
        changes_(changes),
        made_(made),
        predicates_of_switches_(body.size()),
        guards_(body.size()),
        sides_(body.size()),
        merges_(body.size()),
        done_(body.size()) {}

  absl::Status Lower();

 private:
  struct Predicate {
    std::string text;
    bool outermost;  // It is known whatever branches run.
    bool is_index;   // Of a Case.
    // Of no If yet:
    std::vector<std::vector<int>> waiting;  // By branch: what must run.
    std::vector<int> merges;                // Those that can run.
  };
  struct Merge {
    int predicate = -1;
    std::vector<int> inputs;  // By branch: the place of the input that is of it.
  };

  absl::Status FindGuards(const std::vector<int>& order);
  absl::Status FindMerge(int node);
  absl::StatusOr<int> PredicateOf(int own_switch);
  Guard GuardOf(const FlowInput& input);
  absl::Status TakeSide(int node);
  absl::Status AddWaiting(int node);
  bool IsInBranch(int node) const { return sides_[node].predicate >= 0; }
  bool IsEntry(int node) const {
    return body_.kind(node) == FlowKind::kSwitch && guards_[node].empty();
  }
  absl::StatusOr<FlowFunctions::Taken> Take(const FlowInput& input, const std::string& text,
                                            Side side, FlowFunctions& functions) const;
  // An If, or a Case, of the Merges, and of what waits for one of the predicate.
  absl::Status MakeIf(int predicate, const std::vector<int>& merges);

  const FlowBody& body_;
  const std::vector<bool>& must_run_;
  ImportScope& scope_;
  FlowChanges& changes_;
  std::deque<tf::NodeDef>& made_;
  std::vector<Predicate> predicates_;
  HashMap<std::string, int> predicate_of_;   // By text.
  std::vector<int> predicates_of_switches_;  // By node.
  std::vector<Guard> guards_;
  std::vector<Side> sides_;  // By node: the outermost of its guard, if any.
  std::vector<Merge> merges_;
  std::vector<bool> done_;  // By node that has an effect: it is in an If.
};

absl::StatusOr<int> Branches::PredicateOf(int own_switch) {
  const std::vector<int> data = body_.DataInputs(own_switch);
  if (data.size() != 2) {
    return FlowProblem(absl::StatusCode::kInvalidArgument, body_.def(own_switch),
                       "wrong number of inputs");
  }
  // The Switches of a branch have it from Identities of it.
  const std::string* text = &body_.def(own_switch).input(data[1]);
  FlowInput source = body_.inputs(own_switch)[data[1]];
  for (int i = 0; i < kMostNested && source.node >= 0; ++i) {
    const std::vector<int> behind = body_.DataInputs(source.node);
    if (body_.def(source.node).op() != "Identity" || behind.size() != 1) break;
    const FlowInput& next = body_.inputs(source.node)[behind[0]];
    if (GuardOf(next) != guards_[source.node]) break;
    text = &body_.def(source.node).input(behind[0]);
    source = next;
  }
  const tf::NodeDef& def = body_.def(own_switch);
  const int branches = FlowOutputs(def);
  const auto [found, added] =
      predicate_of_.try_emplace(absl::StrCat(branches, " ", absl::StripSuffix(*text, ":0")),
                                static_cast<int>(predicates_.size()));
  if (added) {
    Predicate& predicate = predicates_.emplace_back();
    predicate.text = *text;
    predicate.outermost = GuardOf(source).empty();
    predicate.is_index = def.op() != "Switch";
    predicate.waiting.resize(branches);
  }
  return found->second;
}

// Of a tensor, or of what is waited for.
Guard Branches::GuardOf(const FlowInput& input) {
  if (input.node < 0) return {};
  Guard guard = guards_[input.node];
  if (body_.kind(input.node) == FlowKind::kSwitch && !input.control) {
    const Side side = {predicates_of_switches_[input.node], input.output};
    guard.insert(std::upper_bound(guard.begin(), guard.end(), side), side);
    guard.erase(std::unique(guard.begin(), guard.end()), guard.end());
  }
  return guard;
}

absl::Status Branches::FindMerge(int node) {
  const tf::NodeDef& def = body_.def(node);
  const absl::Status problem = FlowProblem(absl::StatusCode::kUnimplemented, def,
                                           "its inputs are not those of a predicate's branches");
  const std::vector<int> data = body_.DataInputs(node);
  if (data.empty()) return problem;
  std::vector<Guard> of;
  for (const int k : data) of.push_back(GuardOf(body_.inputs(node)[k]));
  Guard own = of[0];  // What all have.
  for (const Guard& other : of) {
    Guard both;
    std::set_intersection(own.begin(), own.end(), other.begin(), other.end(),
                          std::back_inserter(both));
    own = std::move(both);
  }
  Merge& merge = merges_[node];
  for (size_t i = 0; i < data.size(); ++i) {
    Guard only;
    std::set_difference(of[i].begin(), of[i].end(), own.begin(), own.end(),
                        std::back_inserter(only));
    if (only.size() != 1 || (i > 0 && only[0].predicate != merge.predicate)) return problem;
    merge.predicate = only[0].predicate;
    const size_t branches = predicates_[merge.predicate].waiting.size();
    const auto branch = static_cast<size_t>(only[0].branch);
    merge.inputs.resize(branches, -1);
    if (branches != data.size() || branch >= branches || merge.inputs[branch] >= 0) return problem;
    merge.inputs[branch] = data[i];
  }
  guards_[node] = std::move(own);
  return absl::OkStatus();
}

absl::Status Branches::TakeSide(int node) {
  for (const Side side : guards_[node]) {
    if (!predicates_[side.predicate].outermost) continue;
    if (IsInBranch(node)) {
      return FlowProblem(absl::StatusCode::kUnimplemented, body_.def(node),
                         absl::StrCat("it is in branches of two predicates, neither of which is "
                                      "in a branch of the other: '",
                                      Shown(predicates_[sides_[node].predicate].text), "' and '",
                                      Shown(predicates_[side.predicate].text), "'"));
    }
    sides_[node] = side;
  }
  return absl::OkStatus();
}

absl::Status Branches::AddWaiting(int node) {
  const Side side = sides_[node];
  auto& waiting = predicates_[side.predicate].waiting;
  if (side.branch >= static_cast<int>(waiting.size())) {
    return FlowProblem(absl::StatusCode::kInvalidArgument, body_.def(node),
                       "it has an input of a branch that is not there");
  }
  waiting[side.branch].push_back(node);
  return absl::OkStatus();
}

absl::Status Branches::FindGuards(const std::vector<int>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return WorkStatus();
    const int node = order[i];
    if (body_.kind(node) == FlowKind::kMerge) {
      FORMWORK_RETURN_IF_ERROR(FindMerge(node));
    } else {
      Guard& guard = guards_[node];
      for (const FlowInput& input : body_.inputs(node)) {
        if (input.node < 0) continue;
        const Guard other = GuardOf(input);
        if (other.empty() || other == guard) continue;
        Guard both;
        std::set_union(guard.begin(), guard.end(), other.begin(), other.end(),
                       std::back_inserter(both));
        guard = std::move(both);
      }
      if (guard.size() > kMostNested) {
        return FlowProblem(absl::StatusCode::kUnimplemented, body_.def(node),
                           absl::StrCat("branches in more than ", kMostNested, " others"));
      }
      if (body_.kind(node) == FlowKind::kSwitch) {
        FORMWORK_ASSIGN_OR_RETURN(predicates_of_switches_[node], PredicateOf(node));
      }
    }
    FORMWORK_RETURN_IF_ERROR(TakeSide(node));
  }
  return absl::OkStatus();
}

absl::StatusOr<FlowFunctions::Taken> Branches::Take(const FlowInput& input, const std::string& text,
                                                    Side side, FlowFunctions& functions) const {
  const int node = input.node;
  if (node >= 0 && IsInBranch(node)) {
    if (sides_[node] != side) {
      return FlowProblem(absl::StatusCode::kUnimplemented, body_.def(node),
                         "what needs it does not run where it does");
    }
    if (!done_[node]) return FlowFunctions::Taken{true, ""};
    if (input.control) return FlowFunctions::Taken{};
    return FlowProblem(absl::StatusCode::kUnimplemented, body_.def(node),
                       "it has an effect, and branches that run one after the other need it");
  }
  if (node >= 0 && IsEntry(node)) {
    if (input.control) return FlowFunctions::Taken{};
    FORMWORK_ASSIGN_OR_RETURN(const DType dtype, FlowType(body_.def(node)));
    return functions.Capture(body_.def(node).input(body_.DataInputs(node)[0]), dtype);
  }
  if (node >= 0 && input.control) {
    functions.WaitFor(body_.def(node).name());
    return FlowFunctions::Taken{};
  }
  if (input.control) return FlowFunctions::Taken{};
  return functions.Capture(text);
}

absl::Status Branches::MakeIf(int predicate, const std::vector<int>& merges) {
  Predicate& decides = predicates_[predicate];
  const int num_branches = static_cast<int>(decides.waiting.size());
  FlowFunctions functions(body_, scope_, {});
  std::vector<tf::FunctionDef> branches(num_branches);
  std::vector<DType> results;
  for (const int merge : merges) {
    FORMWORK_ASSIGN_OR_RETURN(const DType dtype, FlowType(body_.def(merge)));
    results.push_back(dtype);
  }
  int first = merges.empty() ? -1 : merges.front();
  for (const std::vector<int>& waiting : decides.waiting) {
    if (first < 0 && !waiting.empty()) first = waiting.front();
  }
  const std::string name = absl::StrCat(body_.def(first).name(), "#branch");
  bool stateful = false;
  for (int branch = 0; branch < num_branches; ++branch) {
    const Side side = {predicate, branch};
    const FlowFunctions::Boundary boundary = [&](const FlowInput& input, const std::string& text) {
      return Take(input, text, side, functions);
    };
    std::vector<int> roots = std::move(decides.waiting[branch]);
    decides.waiting[branch].clear();
    for (const int merge : merges) {
      for (size_t k = 0; k < body_.inputs(merge).size(); ++k) {
        const FlowInput& input = body_.inputs(merge)[k];
        const bool needs = input.control
                               ? input.node >= 0 && sides_[input.node] == side && !done_[input.node]
                               : static_cast<int>(k) == merges_[merge].inputs[branch];
        if (!needs) continue;
        FORMWORK_ASSIGN_OR_RETURN(const FlowFunctions::Taken taken,
                                  boundary(input, body_.def(merge).input(k)));
        if (taken.inside) roots.push_back(input.node);
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<int> taken,
                              functions.Fill(std::move(roots), boundary, branches[branch]));
    for (size_t i = 0; i < merges.size(); ++i) {
      const int k = merges_[merges[i]].inputs[branch];
      FORMWORK_RETURN_IF_ERROR(functions.AddResult(body_.inputs(merges[i])[k],
                                                   body_.def(merges[i]).input(k), results[i],
                                                   boundary, branches[branch]));
    }
    for (const int node : taken) {
      const Effect effect = FlowEffect(body_.def(node), scope_);
      stateful = stateful || effect != Effect::kNone;
      done_[node] = effect >= Effect::kWrite;
      changes_.runs_in.try_emplace(body_.def(node).name(), name);
    }
  }

  tf::NodeDef& made = made_.emplace_back();
  made.set_name(name);
  made.set_op(absl::StrCat(stateful ? "" : "Stateless", decides.is_index ? "Case" : "If"));
  made.add_input(decides.text);
  for (const std::string& text : functions.captured()) made.add_input(text);
  for (const std::string& node : functions.waited_for()) made.add_input(absl::StrCat("^", node));
  SetTypes(functions.dtypes(), "Tin", made);
  SetTypes(results, "Tout", made);
  auto& attrs = *made.mutable_attr();
  if (decides.is_index) {
    auto& list = *attrs["branches"].mutable_list();
    for (int branch = 0; branch < num_branches; ++branch) {
      list.add_func()->set_name(
          functions.Finish(std::move(branches[branch]), absl::StrCat(name, "#", branch)));
    }
  } else {
    SetType(DType::kBool, "Tcond", made);
    attrs["then_branch"].mutable_func()->set_name(
        functions.Finish(std::move(branches[1]), absl::StrCat(name, "#then")));
    attrs["else_branch"].mutable_func()->set_name(
        functions.Finish(std::move(branches[0]), absl::StrCat(name, "#else")));
  }
  changes_.ahead[first].push_back(&made);
  for (size_t i = 0; i < merges.size(); ++i) {
    const tf::NodeDef& merge = body_.def(merges[i]);
    tf::NodeDef& identity = made_.emplace_back();
    identity.set_name(merge.name());
    identity.set_op("Identity");
    identity.set_device(merge.device());
    identity.add_input(absl::StrCat(name, ":", i));
    SetType(results[i], "T", identity);
    for (int k = 0; k < merge.input_size(); ++k) {
      const FlowInput& input = body_.inputs(merges[i])[k];
      if (input.control && (input.node < 0 || (!IsInBranch(input.node) && !IsEntry(input.node)))) {
        identity.add_input(merge.input(k));
      }
    }
    changes_.instead[merges[i]] = &identity;
  }
  return absl::OkStatus();
}

absl::Status Branches::Lower() {
  const std::vector<int> order = body_.Order();
  FORMWORK_RETURN_IF_ERROR(FindGuards(order));
  std::vector<std::vector<int>> users(body_.size());
  std::vector<int> waits(body_.size());
  for (const int node : order) {
    for (const FlowInput& input : body_.inputs(node)) {
      if (input.node < 0) continue;
      users[input.node].push_back(node);
      ++waits[node];
    }
    if (body_.kind(node) == FlowKind::kMerge) {
      for (const FlowInput& input : body_.inputs(node)) {
        if (input.node >= 0 && input.output == 1 && !input.control &&
            body_.kind(input.node) == FlowKind::kMerge) {
          return FlowProblem(absl::StatusCode::kUnimplemented, body_.def(input.node),
                             "its output value_index");
        }
      }
    }
  }
  // All that can run without Merges, then the Merges of one predicate that can, and so on.
  std::priority_queue<int, std::vector<int>, std::greater<int>> free;
  std::priority_queue<int, std::vector<int>, std::greater<int>> joins;  // A predicate's first.
  const auto free_of = [&](int node) {
    if (body_.kind(node) != FlowKind::kMerge || IsInBranch(node)) return free.push(node);
    std::vector<int>& merges = predicates_[merges_[node].predicate].merges;
    if (merges.empty()) joins.push(node);
    merges.push_back(node);
  };
  const auto ran = [&](int node) {
    for (const int user : users[node]) {
      if (--waits[user] == 0) free_of(user);
    }
  };
  for (const int node : order) {
    if (waits[node] == 0) free_of(node);
  }
  for (int64_t i = 0; !free.empty() || !joins.empty(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    if (!free.empty()) {
      const int node = free.top();
      free.pop();
      if (IsInBranch(node) && must_run_[node]) {
        FORMWORK_RETURN_IF_ERROR(AddWaiting(node));
      }
      ran(node);
      continue;
    }
    const int predicate = merges_[joins.top()].predicate;
    joins.pop();
    std::vector<int> merges = std::move(predicates_[predicate].merges);
    predicates_[predicate].merges.clear();
    std::sort(merges.begin(), merges.end());
    FORMWORK_RETURN_IF_ERROR(MakeIf(predicate, merges));
    for (const int merge : merges) ran(merge);
  }
  for (size_t i = 0; i < predicates_.size(); ++i) {
    const auto& waiting = predicates_[i].waiting;
    if (std::all_of(waiting.begin(), waiting.end(), [](const auto& of) { return of.empty(); })) {
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(MakeIf(static_cast<int>(i), {}));
  }
  for (int node = 0; node < body_.size(); ++node) {
    if (!IsInBranch(node) && !IsEntry(node)) continue;
    changes_.gone[node] = true;
    if (!IsEntry(node) || !must_run_[node]) continue;
    tf::NodeDef& waits_for = made_.emplace_back();  // What the Switch did.
    waits_for.set_name(body_.def(node).name());
    waits_for.set_op("NoOp");
    for (const FlowInput& input : body_.inputs(node)) {
      if (input.node < 0 || IsEntry(input.node)) continue;
      waits_for.add_input(absl::StrCat("^", body_.def(input.node).name()));
    }
    changes_.instead[node] = &waits_for;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerBranches(const FlowBody& body, const std::vector<bool>& must_run,
                           ImportScope& scope, FlowChanges& changes,
                           std::deque<tf::NodeDef>& made) {
  changes.gone.resize(body.size());
  return Branches(body, must_run, scope, changes, made).Lower();
}

}  // namespace formwork
