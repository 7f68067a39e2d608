#pragma once

// What the plans of one request share while they are made.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_map.h"
#include "core/graph/passes/pipeline.h"
#include "core/plan/plan.h"
#include "core/plan/planner.h"
#include "core/plan/releases.h"

namespace formwork {

struct PlannerScope {
  PlannerScope(const GraphLibrary& library, const PlannerContext& context)
      : library(library), context(context), budget(context.budget) {}

  const GraphLibrary& library;
  const PlannerContext& context;
  std::vector<NamedResource> named_resources;
  HashMap<std::string, size_t> named_index;  ///< Their places, by name.
  /// Functions that are called and not part of their callers, and their places by name.
  std::vector<std::shared_ptr<const Plan>> functions;
  HashMap<std::string, uint32_t> function_index;
  Releases releases;  ///< Of the root plan.
  bool has_loop = false;
  bool sized_by_value = false;
  size_t bytes = 0;
  PassBudget budget;
  std::vector<std::string> missing;  ///< "Op (node 'x')"
};

/// Flattens a graph, whose nodes of control flow own their bodies, into a program. `root`: the
/// request's own graph, not a function that it calls. The plans of those that it calls are in the
/// scope. Errors: as MakePlan; ops without a kernel are
/// noted in the scope.
absl::StatusOr<std::shared_ptr<Plan>> Emit(const Graph& graph, PlannerScope& scope, bool root);

}  // namespace formwork
