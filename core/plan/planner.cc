#include "core/plan/planner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/plan/element_groups.h"
#include "core/plan/lanes.h"
#include "core/plan/planner_scope.h"

namespace formwork {
namespace {

// A function has at most so many for shapes of their own; further shapes share one for any shapes.
// In a nest whose functions each call with two shapes, plans would double with every level.
constexpr int kMostPlans = 4;
// Functions of kernels in functions of kernels are planned, and run, on the stack.
constexpr int kMostKernelDepth = 16;

// What a graph, or a body in it, calls.
std::vector<FunctionCall> CallsOf(const Graph& graph) {
  std::vector<FunctionCall> calls;
  HashSet<std::string> seen;
  std::vector<const Graph*> bodies = {&graph};
  while (!bodies.empty()) {
    const Graph& body = *bodies.back();
    bodies.pop_back();
    for (const Node& node : body.nodes) {
      for (const Graph& inner : node.bodies) bodies.push_back(&inner);
      if (node.kind != NodeKind::kOp || node.op->control_flow != ControlFlow::kCall) continue;
      FunctionCall call = FunctionCall::Of(body, node);
      if (seen.insert(call.Key()).second) calls.push_back(std::move(call));
    }
  }
  return calls;
}

// A graph after its passes, which waits for the plans of what it calls.
struct Unplanned {
  std::string key;  // Of the call that it is for; none of the root.
  Graph graph;
  std::vector<FunctionCall> calls;
  size_t looked_at = 0;
};

absl::StatusOr<Unplanned> Prepare(std::string key, Graph graph,
                                  const std::vector<PartialShape>& arg_shapes, PlannerScope& scope,
                                  const std::vector<DType>* variables = nullptr,
                                  RelaxedRegions* regions = nullptr) {
  const KernelRegistry* const of_device =
      scope.context.device ? &scope.context.device->kernels : nullptr;
  const PassContext passes{scope.library,
                           scope.context.ops,
                           scope.context.kernels,
                           scope.context.allocator,
                           scope.budget,
                           of_device,
                           regions,
                           variables};
  FORMWORK_RETURN_IF_ERROR(RunPasses(graph, arg_shapes, passes));
  if (regions != nullptr && !regions->why_none.empty()) {
    return absl::FailedPreconditionError(regions->why_none);
  }
  if (of_device != nullptr) {
    GroupElements(graph, scope.context.kernels, *of_device);
  } else if (scope.context.lanes) {
    ForkLanes(graph);
  }
  std::vector<FunctionCall> calls = CallsOf(graph);
  return Unplanned{std::move(key), std::move(graph), std::move(calls)};
}

// Functions are planned before those that call them: by a list, because nests may be deep.
// `is_request`: the outermost one is the request's own graph.
absl::StatusOr<std::shared_ptr<Plan>> PlanAll(const Graph& root,
                                              const std::vector<PartialShape>& arg_shapes,
                                              PlannerScope& scope, bool is_request) {
  std::vector<Unplanned> nest;
  FORMWORK_ASSIGN_OR_RETURN(
      Unplanned whole,
      Prepare("", root, arg_shapes, scope, is_request ? &scope.context.variables : nullptr,
              is_request && scope.context.relaxed ? &scope.regions : nullptr));
  nest.push_back(std::move(whole));
  while (true) {
    Unplanned& last = nest.back();
    if (last.looked_at < last.calls.size()) {
      FunctionCall call = last.calls[last.looked_at++];
      if (scope.function_index.contains(call.Key())) continue;
      int& plans = scope.plans_of[call.name];
      if (plans >= kMostPlans) {
        call = call.OfAnyShapes();
        if (scope.function_index.contains(call.Key())) continue;
      }
      ++plans;
      const Graph& function = *scope.library.at(call.name);
      FORMWORK_ASSIGN_OR_RETURN(Unplanned next, Prepare(call.Key(), function, call.shapes, scope));
      nest.push_back(std::move(next));
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan,
                              Emit(last.graph, scope, /*root=*/is_request && nest.size() == 1));
    if (nest.size() == 1) return plan;
    scope.function_index[last.key] = static_cast<uint32_t>(scope.functions.size());
    scope.functions.push_back(std::move(plan));
    nest.pop_back();
  }
}

// Why the plan's regions do not keep what they promise, whatever the passes have made of it; or
// nothing. What small writes read besides is of the snapshot from here on.
std::string CheckRegions(Plan& plan, const PlannerScope& scope) {
  if (scope.hides_resources) {
    return "it makes resources of its own, or functions that are not inlined name some";
  }
  Plan::Region& snapshot = plan.regions[0];
  for (Plan::Region& region : plan.regions) {
    if (region.kind != RegionKind::kSmallWrite) continue;
    for (const auto& [origin, access] : region.access) {
      if (access == Access::kRead) snapshot.access.try_emplace(origin, Access::kRead);
    }
    std::erase_if(region.access, [](const auto& touch) { return touch.second != Access::kWrite; });
  }
  for (const auto& [origin, access] : snapshot.access) {
    if (access == Access::kWrite) return "it writes what is not known beforehand";
    for (const Plan::Region& region : plan.regions) {
      if (region.kind == RegionKind::kSmallWrite && region.access.contains(origin)) {
        return absl::StrCat("it reads what it writes elsewhere: ", region.name);
      }
    }
  }
  return "";
}

// Gives the outermost plan what its scope has gathered.
void Complete(Plan& plan, PlannerScope& scope) {
  plan.functions = std::move(scope.functions);
  plan.named_resources = std::move(scope.named_resources);
  plan.fallbacks = std::move(scope.fallbacks);
  plan.open_ended = scope.open_ended;
  plan.sized_by_value = scope.sized_by_value;
  plan.late_handles = scope.late_handles;
  plan.quiet_kernels = scope.quiet_kernels;
  plan.bytes = scope.bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> PlanKernelFunction(const std::string& name,
                                                               PlannerScope& scope) {
  auto found = scope.kernel_plans->find(name);
  if (found != scope.kernel_plans->end()) return found->second;
  if (scope.depth == kMostKernelDepth) {
    return InvalidArgument("functions that kernels run are nested too deep: limit=",
                           kMostKernelDepth);
  }
  PlannerContext context = scope.context;
  context.device.reset();
  context.lanes = context.relaxed = false;
  context.budget = scope.budget;
  PlannerScope inner(scope.library, context);
  inner.kernel_plans = scope.kernel_plans;
  inner.definitions = scope.definitions;
  inner.depth = scope.depth + 1;
  const Graph& function = *scope.library.at(name);
  absl::StatusOr<std::shared_ptr<Plan>> plan =
      PlanAll(function, std::vector<PartialShape>(function.args.size()), inner,
              /*is_request=*/false);
  scope.budget = inner.budget;
  scope.missing.insert(scope.missing.end(), inner.missing.begin(), inner.missing.end());
  if (!plan.ok()) return plan.status();
  scope.bytes += inner.bytes;
  Complete(**plan, inner);
  (*scope.kernel_plans)[name] = *plan;
  return std::shared_ptr<const Plan>(*std::move(plan));
}

FunctionCall FunctionCall::Of(const Graph& graph, const Node& node) {
  FunctionCall call{FunctionsOf(*node.op, *node.attrs)[0]->name, {}};
  for (const Edge& input : node.inputs) call.shapes.push_back(graph.shape(input));
  return call;
}

std::string FunctionCall::Key() const {
  std::string key = absl::StrCat(name.size(), ":", name);
  for (const PartialShape& shape : shapes) absl::StrAppend(&key, " ", shape.ToString());
  return key;
}

std::optional<uint32_t> PlannerScope::FindFunction(const FunctionCall& call) const {
  auto found = function_index.find(call.Key());
  if (found == function_index.end()) found = function_index.find(call.OfAnyShapes().Key());
  if (found == function_index.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const ImportedGraph& imported,
                                                     const std::vector<PartialShape>& arg_shapes,
                                                     const PlannerContext& context) {
  PlannerScope scope(imported.library, context);
  scope.definitions = imported.definitions;
  absl::StatusOr<std::shared_ptr<Plan>> plan =
      PlanAll(*imported.graph, arg_shapes, scope, /*is_request=*/true);
  absl::Status copied;  // The constants; of a plan that has failed, too: none is on its way then.
  if (context.device) copied = context.device->stream.Record()->Await(absl::InfiniteFuture());
  if (!scope.missing.empty()) {
    // A function that is planned more than once names its own again.
    HashSet<std::string> seen;
    scope.missing.erase(std::remove_if(scope.missing.begin(), scope.missing.end(),
                                       [&](const auto& op) { return !seen.insert(op).second; }),
                        scope.missing.end());
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
  FORMWORK_RETURN_IF_ERROR(copied);
  if (context.relaxed) {
    const std::string why_none = CheckRegions(**plan, scope);
    if (!why_none.empty()) return absl::FailedPreconditionError(why_none);
  }
  Complete(**plan, scope);
  return std::shared_ptr<const Plan>(*std::move(plan));
}

}  // namespace formwork
