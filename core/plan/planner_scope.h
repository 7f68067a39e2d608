#pragma once

// What the plans of one request share while they are made.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_map.h"
#include "core/graph/passes/pipeline.h"
#include "core/plan/plan.h"
#include "core/plan/planner.h"
#include "core/plan/releases.h"

namespace formwork {

/// What a function that is not part of its caller is called with: it has a plan for each.
struct FunctionCall {
  static FunctionCall Of(const Graph& graph, const Node& node);
  /// The same function, given anything.
  FunctionCall OfAnyShapes() const { return {name, std::vector<PartialShape>(shapes.size())}; }
  std::string Key() const;

  std::string name;
  std::vector<PartialShape> shapes;  ///< As far as they are known.
};

struct PlannerScope {
  PlannerScope(const GraphLibrary& library, const PlannerContext& context)
      : library(library), context(context), budget(context.budget) {}

  const GraphLibrary& library;
  const PlannerContext& context;
  std::shared_ptr<const std::string> definitions;  ///< ImportedGraph::definitions.
  std::vector<NamedResource> named_resources;
  HashMap<std::string, size_t> named_index;  ///< Their places, by name.
  /// The plan for a call, by its place: for its shapes, else for any. None if there is none yet.
  std::optional<uint32_t> FindFunction(const FunctionCall& call) const;

  /// Functions that are called and not part of their callers, and lanes.
  std::vector<std::shared_ptr<const Plan>> functions;
  HashMap<std::string, uint32_t> function_index;  ///< Their places, by FunctionCall::Key().
  HashMap<std::string, int> plans_of;             ///< How many a function has, by name.
  Releases releases;                              ///< Of the root plan.
  bool open_ended = false;
  bool sized_by_value = false;
  bool late_handles = false;
  bool quiet_kernels = true;
  size_t bytes = 0;
  PassBudget budget;
  /// Those that kernels run, by name; shared with the scopes in which they are planned.
  using KernelPlans = HashMap<std::string, std::shared_ptr<const Plan>>;
  std::shared_ptr<KernelPlans> kernel_plans = std::make_shared<KernelPlans>();
  int depth = 0;                     ///< How many functions of kernels this one is in.
  std::vector<std::string> missing;  ///< "Op (node 'x')"
  std::vector<Plan::Fallback> fallbacks;
  RelaxedRegions regions;  ///< Of the root plan, where it is for relaxed calls.
  /// Where resources are made for the call, or named in functions that are not inlined.
  bool hides_resources = false;
};

/// Flattens a graph, whose nodes of control flow own their bodies, into a program. `root`: the
/// request's own graph, not a function that it calls. The plans of those that it calls are in the
/// scope. Errors: as MakePlan; ops without a kernel are
/// noted in the scope.
absl::StatusOr<std::shared_ptr<Plan>> Emit(const Graph& graph, PlannerScope& scope, bool root);

/// The plan of a function that a kernel of a plan in `scope` runs: complete by itself, for any
/// shapes and for the host. Errors: as MakePlan, but that ops without a kernel are noted in the
/// scope; kInvalidArgument where such functions nest too deep.
absl::StatusOr<std::shared_ptr<const Plan>> PlanKernelFunction(const std::string& name,
                                                               PlannerScope& scope);

}  // namespace formwork
