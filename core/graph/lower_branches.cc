#include "core/graph/lower_branches.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kMissing = absl::StatusCode::kUnimplemented;

// Between two looks at the StopFlag: nodes, which take about a microsecond each.
constexpr int64_t kNodesBetweenLooks = 64;

// A side of a predicate: twice the predicate's number, and one more where it is true.
using Side = int;
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
        sides_(body.size(), -1),
        merges_(body.size(), Merge{-1, -1, -1}),
        done_(body.size()) {}

  absl::Status Lower();

 private:
  struct Predicate {
    std::string text;
    bool outermost;  // It is known whatever branches run.
    // Of no If yet:
    std::array<std::vector<int>, 2> waiting;  // By side: what must run.
    std::vector<int> merges;                  // Those that can run.
  };
  // Of a Merge by a predicate that is outermost: which input is of which side.
  struct Merge {
    int predicate;
    int if_false;
    int if_true;
  };

  absl::Status FindGuards(const std::vector<int>& order);
  absl::Status FindMerge(int node);
  absl::StatusOr<int> PredicateOf(int own_switch);
  Guard GuardOf(const FlowInput& input);
  absl::Status TakeSide(int node);
  bool IsEntry(int node) const {
    return body_.kind(node) == FlowKind::kSwitch && guards_[node].empty();
  }
  absl::StatusOr<FlowFunctions::Taken> Take(const FlowInput& input, const std::string& text,
                                            Side side, FlowFunctions& functions) const;
  // An If of the Merges, and of what waits for one of the predicate.
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
  std::vector<Side> sides_;  // By node: the outermost of its guard; -1: it runs in every case.
  std::vector<Merge> merges_;
  std::vector<bool> done_;  // By node that has an effect: it is in an If.
};

absl::StatusOr<int> Branches::PredicateOf(int own_switch) {
  const std::vector<int> data = body_.DataInputs(own_switch);
  if (data.size() != 2) {
    return FlowProblem(kInvalid, body_.def(own_switch), "wrong number of inputs");
  }
  // The Switches of a branch have it from Identities of it.
  const std::string* text = &body_.def(own_switch).input(data[1]);
  FlowInput source = body_.inputs(own_switch)[data[1]];
  while (source.node >= 0 && body_.def(source.node).op() == "Identity") {
    const std::vector<int> behind = body_.DataInputs(source.node);
    if (behind.size() != 1) break;
    const FlowInput& next = body_.inputs(source.node)[behind[0]];
    if (GuardOf(next) != guards_[source.node]) break;
    text = &body_.def(source.node).input(behind[0]);
    source = next;
  }
  const auto [found, added] = predicate_of_.try_emplace(std::string(absl::StripSuffix(*text, ":0")),
                                                        static_cast<int>(predicates_.size()));
  if (added) predicates_.push_back({*text, GuardOf(source).empty(), {}, {}});
  return found->second;
}

// Of a tensor, or of what is waited for.
Guard Branches::GuardOf(const FlowInput& input) {
  if (input.node < 0) return {};
  Guard guard = guards_[input.node];
  if (body_.kind(input.node) == FlowKind::kSwitch && !input.control) {
    const Side side = 2 * predicates_of_switches_[input.node] + (input.output == 1 ? 1 : 0);
    guard.insert(std::upper_bound(guard.begin(), guard.end(), side), side);
    guard.erase(std::unique(guard.begin(), guard.end()), guard.end());
  }
  return guard;
}

absl::Status Branches::FindMerge(int node) {
  const tf::NodeDef& def = body_.def(node);
  const std::vector<int> data = body_.DataInputs(node);
  if (data.size() != 2) {
    return FlowProblem(kMissing, def, absl::StrCat("a Merge of ", data.size(), " inputs"));
  }
  std::array<Guard, 2> of;
  for (int i = 0; i < 2; ++i) of[i] = GuardOf(body_.inputs(node)[data[i]]);
  Guard own, only[2];
  std::set_intersection(of[0].begin(), of[0].end(), of[1].begin(), of[1].end(),
                        std::back_inserter(own));
  for (int i = 0; i < 2; ++i) {
    std::set_difference(of[i].begin(), of[i].end(), own.begin(), own.end(),
                        std::back_inserter(only[i]));
  }
  if (only[0].size() != 1 || only[1].size() != 1 || (only[0][0] ^ only[1][0]) != 1) {
    return FlowProblem(kMissing, def, "its inputs are not those of a predicate's two branches");
  }
  const bool second_is_true = only[1][0] % 2 == 1;
  merges_[node] = {only[0][0] / 2, data[second_is_true ? 0 : 1], data[second_is_true ? 1 : 0]};
  guards_[node] = std::move(own);
  return absl::OkStatus();
}

absl::Status Branches::TakeSide(int node) {
  for (const Side side : guards_[node]) {
    if (!predicates_[side / 2].outermost) continue;
    if (sides_[node] >= 0) {
      return FlowProblem(kMissing, body_.def(node),
                         absl::StrCat("it is in branches of two predicates, neither of which is "
                                      "in a branch of the other: '",
                                      Shown(predicates_[sides_[node] / 2].text), "' and '",
                                      Shown(predicates_[side / 2].text), "'"));
    }
    sides_[node] = side;
  }
  return absl::OkStatus();
}

absl::Status Branches::FindGuards(const std::vector<int>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i), kNodesBetweenLooks)) return WorkStatus();
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
        return FlowProblem(kMissing, body_.def(node),
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
  if (node >= 0 && sides_[node] >= 0) {
    if (sides_[node] != side) {
      return FlowProblem(kMissing, body_.def(node), "what needs it does not run where it does");
    }
    if (!done_[node]) return FlowFunctions::Taken{true, ""};
    if (input.control) return FlowFunctions::Taken{};
    return FlowProblem(kMissing, body_.def(node),
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
  FlowFunctions functions(body_, scope_, {});
  std::array<tf::FunctionDef, 2> branches;
  std::vector<DType> results;
  for (const int merge : merges) {
    FORMWORK_ASSIGN_OR_RETURN(const DType dtype, FlowType(body_.def(merge)));
    results.push_back(dtype);
  }
  std::vector<int> must_run[2] = {std::move(decides.waiting[0]), std::move(decides.waiting[1])};
  for (auto& waiting : decides.waiting) waiting.clear();
  bool stateful = false;
  const int first = !merges.empty()       ? merges.front()
                    : must_run[0].empty() ? must_run[1].front()
                                          : must_run[0].front();
  const std::string name = absl::StrCat(body_.def(first).name(), "#branch");
  for (const int which : {0, 1}) {
    const Side side = 2 * predicate + which;
    const FlowFunctions::Boundary boundary = [&](const FlowInput& input, const std::string& text) {
      return Take(input, text, side, functions);
    };
    std::vector<int> roots = must_run[which];
    for (const int merge : merges) {
      const int place = which == 1 ? merges_[merge].if_true : merges_[merge].if_false;
      for (size_t k = 0; k < body_.inputs(merge).size(); ++k) {
        const FlowInput& input = body_.inputs(merge)[k];
        const bool needs = input.control
                               ? input.node >= 0 && sides_[input.node] == side && !done_[input.node]
                               : static_cast<int>(k) == place;
        if (!needs) continue;
        FORMWORK_ASSIGN_OR_RETURN(const FlowFunctions::Taken taken,
                                  boundary(input, body_.def(merge).input(k)));
        if (taken.inside) roots.push_back(input.node);
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<int> taken,
                              functions.Fill(std::move(roots), boundary, branches[which]));
    for (size_t i = 0; i < merges.size(); ++i) {
      const int place = which == 1 ? merges_[merges[i]].if_true : merges_[merges[i]].if_false;
      FORMWORK_RETURN_IF_ERROR(functions.AddResult(body_.inputs(merges[i])[place],
                                                   body_.def(merges[i]).input(place), results[i],
                                                   boundary, branches[which]));
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
  made.set_op(stateful ? "If" : "StatelessIf");
  made.add_input(decides.text);
  for (const std::string& text : functions.captured()) made.add_input(text);
  for (const std::string& node : functions.waited_for()) made.add_input(absl::StrCat("^", node));
  SetType(DType::kBool, "Tcond", made);
  SetTypes(functions.dtypes(), "Tin", made);
  SetTypes(results, "Tout", made);
  auto& attrs = *made.mutable_attr();
  attrs["then_branch"].mutable_func()->set_name(
      functions.Finish(std::move(branches[1]), absl::StrCat(name, "#then")));
  attrs["else_branch"].mutable_func()->set_name(
      functions.Finish(std::move(branches[0]), absl::StrCat(name, "#else")));
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
      if (input.control && (input.node < 0 || (sides_[input.node] < 0 && !IsEntry(input.node)))) {
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
          return FlowProblem(kMissing, body_.def(input.node), "its output value_index");
        }
      }
    }
  }
  // All that can run without Merges, then the Merges of one predicate that can, and so on.
  std::priority_queue<int, std::vector<int>, std::greater<int>> free;
  std::priority_queue<int, std::vector<int>, std::greater<int>> joins;  // A predicate's first.
  const auto free_of = [&](int node) {
    if (body_.kind(node) != FlowKind::kMerge || sides_[node] >= 0) return free.push(node);
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
    if (WorkIsCutAt(i, kNodesBetweenLooks)) return WorkStatus();
    if (!free.empty()) {
      const int node = free.top();
      free.pop();
      const Side side = sides_[node];
      if (side >= 0 && must_run_[node]) predicates_[side / 2].waiting[side % 2].push_back(node);
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
    if (waiting[0].empty() && waiting[1].empty()) continue;
    FORMWORK_RETURN_IF_ERROR(MakeIf(static_cast<int>(i), {}));
  }
  for (int node = 0; node < body_.size(); ++node) {
    if (sides_[node] < 0 && !IsEntry(node)) continue;
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
