#include "core/plan/planner.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/plan/lanes.h"
#include "core/plan/planner_scope.h"

namespace formwork {
namespace {

// The functions that a graph, or a body in it, calls.
std::vector<std::string> CalledBy(const Graph& graph) {
  std::vector<std::string> called;
  HashSet<std::string> seen;
  std::vector<const Graph*> bodies = {&graph};
  while (!bodies.empty()) {
    const Graph& body = *bodies.back();
    bodies.pop_back();
    for (const Node& node : body.nodes) {
      for (const Graph& inner : node.bodies) bodies.push_back(&inner);
      if (node.kind != NodeKind::kOp || node.op->control_flow != ControlFlow::kCall) continue;
      const std::string& name = FunctionsOf(*node.op, *node.attrs)[0]->name;
      if (seen.insert(name).second) called.push_back(name);
    }
  }
  return called;
}

// A graph after its passes, which waits for the plans of what it calls.
struct Unplanned {
  std::string name;  // Of the function; none of the root.
  Graph graph;
  std::vector<std::string> called;
  size_t looked_at = 0;
};

absl::StatusOr<Unplanned> Prepare(const std::string& name, Graph graph,
                                  const std::vector<PartialShape>& arg_shapes,
                                  PlannerScope& scope) {
  const PassContext passes{scope.library, scope.context.ops, scope.context.kernels,
                           scope.context.allocator, scope.budget};
  FORMWORK_RETURN_IF_ERROR(RunPasses(graph, arg_shapes, passes));
  if (scope.context.lanes && !scope.context.device) ForkLanes(graph);
  std::vector<std::string> called = CalledBy(graph);
  return Unplanned{name, std::move(graph), std::move(called)};
}

// Functions are planned before those that call them: by a list, because nests may be deep.
absl::StatusOr<std::shared_ptr<Plan>> PlanAll(const Graph& root,
                                              const std::vector<PartialShape>& arg_shapes,
                                              PlannerScope& scope) {
  std::vector<Unplanned> nest;
  FORMWORK_ASSIGN_OR_RETURN(Unplanned whole, Prepare("", root, arg_shapes, scope));
  nest.push_back(std::move(whole));
  while (true) {
    Unplanned& last = nest.back();
    if (last.looked_at < last.called.size()) {
      const std::string& name = last.called[last.looked_at++];
      if (scope.function_index.contains(name)) continue;
      const Graph& function = *scope.library.at(name);
      const std::vector<PartialShape> unknown(function.args.size());
      FORMWORK_ASSIGN_OR_RETURN(Unplanned next, Prepare(name, function, unknown, scope));
      nest.push_back(std::move(next));
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan,
                              Emit(last.graph, scope, /*root=*/nest.size() == 1));
    if (nest.size() == 1) return plan;
    scope.function_index[last.name] = static_cast<uint32_t>(scope.functions.size());
    scope.functions.push_back(std::move(plan));
    nest.pop_back();
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const ImportedGraph& imported,
                                                     const std::vector<PartialShape>& arg_shapes,
                                                     const PlannerContext& context) {
  PlannerScope scope(imported.library, context);
  absl::StatusOr<std::shared_ptr<Plan>> plan = PlanAll(*imported.graph, arg_shapes, scope);
  if (!scope.missing.empty()) {
    const size_t named = std::min<size_t>(scope.missing.size(), 20);
    return WithReason(
        Unimplemented("ops that are not supported: ",
                      absl::StrJoin(scope.missing.begin(), scope.missing.begin() + named, "; "),
                      scope.missing.size() > named
                          ? absl::StrCat("; and ", scope.missing.size() - named, " more")
                          : ""),
        Reason::kOpNotSupported);
  }
  if (!plan.ok()) return plan.status();
  if (context.device) {
    FORMWORK_RETURN_IF_ERROR(context.device->stream.Record()->Await(absl::InfiniteFuture()));
  }
  (*plan)->functions = std::move(scope.functions);
  (*plan)->named_resources = std::move(scope.named_resources);
  (*plan)->has_loop = scope.has_loop;
  (*plan)->sized_by_value = scope.sized_by_value;
  (*plan)->bytes = scope.bytes;
  return std::shared_ptr<const Plan>(*std::move(plan));
}

}  // namespace formwork
