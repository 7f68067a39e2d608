#include "core/graph/lower_control_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/lower_branches.h"
#include "core/graph/lower_loops.h"

namespace formwork {
namespace {

bool HasEffect(const tf::NodeDef& def, const ImportScope& scope) {
  return FlowEffect(def, scope) >= Effect::kWrite;
}

// By node: whether the roots reach it.
std::vector<bool> Reached(const FlowBody& body, const LoweredControlFlow::Roots& roots,
                          const ImportScope& scope) {
  std::vector<bool> reached(body.size());
  std::vector<int> pending;
  const auto reach = [&](int node) {
    if (node < 0 || reached[node]) return;
    reached[node] = true;
    pending.push_back(node);
  };
  for (const std::string& tensor : roots.tensors) reach(body.Resolve(tensor).node);
  for (const std::string& node : roots.nodes) reach(body.Resolve(absl::StrCat("^", node)).node);
  for (int node = 0; roots.effects && node < body.size(); ++node) {
    if (HasEffect(body.def(node), scope)) reach(node);
  }
  for (int64_t i = 0; !pending.empty() && !WorkIsCutAt(i, kDearItems); ++i) {
    const int node = pending.back();
    pending.pop_back();
    for (const FlowInput& input : body.inputs(node)) reach(input.node);
  }
  return reached;
}

}  // namespace

LoweredControlFlow::LoweredControlFlow(NodeList nodes, const FlowParameters& parameters,
                                       const Roots& roots, absl::string_view where,
                                       ImportScope& scope)
    : nodes_(std::move(nodes)) {
  if (std::all_of(nodes_.begin(), nodes_.end(), [](const tf::NodeDef* def) {
        return FlowKindOf(def->op()) == FlowKind::kOther;
      })) {
    return;
  }
  const absl::Status status = Lower(parameters, roots, scope);
  ok_ = status.ok();
  if (ok_ || WorkIsCut()) return;
  scope.problems.Wrong(absl::StrCat(where, status.message()), status.code());
}

absl::Status LoweredControlFlow::Lower(const FlowParameters& parameters, const Roots& roots,
                                       ImportScope& scope) {
  NodeList reached, others;
  {
    const FlowBody all(nodes_, parameters);
    const std::vector<bool> is_reached = Reached(all, roots, scope);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      (is_reached[i] ? reached : others).push_back(nodes_[i]);
    }
  }
  using Step = decltype(&LowerLoops);
  for (const Step step : {Step{&LowerLoops}, Step{&LowerBranches}}) {
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const FlowBody body(std::move(reached), parameters);
    std::vector<bool> must_run(body.size());
    for (int node = 0; node < body.size(); ++node) {
      must_run[node] = HasEffect(body.def(node), scope);
    }
    for (const std::string& root : roots.nodes) {
      const int node = body.Resolve(absl::StrCat("^", NodeOf(root))).node;
      if (node >= 0) must_run[node] = true;
    }
    FlowChanges changes;
    FORMWORK_RETURN_IF_ERROR(step(body, must_run, scope, changes, made_));
    reached = changes.Apply(body);
    // What runs in a loop that is in a branch runs in that one's If.
    for (auto& [node, runs_in] : runs_in_) {
      const auto found = changes.runs_in.find(runs_in);
      if (found != changes.runs_in.end()) runs_in = found->second;
    }
    runs_in_.merge(changes.runs_in);
  }
  nodes_ = std::move(others);
  nodes_.insert(nodes_.end(), reached.begin(), reached.end());
  return absl::OkStatus();
}

const std::string& LoweredControlFlow::NodeOf(const std::string& name) const {
  const auto found = runs_in_.find(name);
  return found == runs_in_.end() ? name : found->second;
}

}  // namespace formwork
