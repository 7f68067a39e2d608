#pragma once

// Which elementwise nodes run as one step.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Nodes that are emitted together, in order: one node, or a group to be fused.
struct FusionUnit {
  std::vector<int32_t> nodes;
  std::vector<bool> read_outside;  ///< By node: whether another unit, or a result, needs it.
};

/// All nodes of the graph, grouped, in an order in which they may run. Pure elementwise nodes wait
/// until somebody outside their group needs them, and join the groups of what they read, where
/// their shapes are known to be equal.
std::vector<FusionUnit> PlanFusion(const Graph& graph);

/// One step for a whole unit.
struct FusedStep {
  std::vector<Edge> inputs;
  std::vector<Edge> outputs;  ///< What is read outside the unit.
  KernelFn kernel;
};

/// `one_by_one`: the kernels of the unit's nodes, for calls whose shapes the program cannot take.
/// Nullopt where the unit's nodes are better run one by one.
absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph& graph, const FusionUnit& unit,
                                                       std::vector<KernelFn> one_by_one);

}  // namespace formwork
