#include "core/plan/planner.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/plan/planner_scope.h"

namespace formwork {
namespace {

absl::StatusOr<std::shared_ptr<Plan>> BuildPlan(Graph graph,
                                                const std::vector<PartialShape>& arg_shapes,
                                                PlannerScope& scope, bool root) {
  const PassContext passes{scope.library, scope.context.ops, scope.context.kernels,
                           scope.context.allocator, scope.budget};
  FORMWORK_RETURN_IF_ERROR(RunPasses(graph, arg_shapes, passes));
  return Emit(graph, scope, root);
}

}  // namespace

absl::StatusOr<uint32_t> PlanFunction(const std::string& name, PlannerScope& scope) {
  auto found = scope.function_index.find(name);
  if (found != scope.function_index.end()) return found->second;
  auto graph = scope.library.find(name);
  if (graph == scope.library.end()) {
    return InvalidArgument("function '", name, "' is not in the library");
  }
  const std::vector<PartialShape> unknown(graph->second->args.size());
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                            BuildPlan(*graph->second, unknown, scope, false));
  scope.functions.push_back(std::move(plan));
  const uint32_t index = static_cast<uint32_t>(scope.functions.size()) - 1;
  scope.function_index[name] = index;
  return index;
}

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const ImportedGraph& imported,
                                                     const std::vector<PartialShape>& arg_shapes,
                                                     const PlannerContext& context) {
  PlannerScope scope(imported.library, context);
  absl::StatusOr<std::shared_ptr<Plan>> plan = BuildPlan(*imported.graph, arg_shapes, scope, true);
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
  (*plan)->functions = std::move(scope.functions);
  (*plan)->named_variables = std::move(scope.named_variables);
  (*plan)->num_counters = scope.num_counters;
  (*plan)->has_loop = scope.has_loop;
  (*plan)->sized_by_value = scope.sized_by_value;
  (*plan)->bytes = scope.bytes;
  return std::shared_ptr<const Plan>(*std::move(plan));
}

}  // namespace formwork
