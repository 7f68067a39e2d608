#pragma once

// Which nodes run as one step.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Whether a device's groups may have the node, by its op, its dtypes and what is known of shapes.
bool MayBeInGroup(const Graph& graph, const Node& node, const GroupKernels& groups);

/// Nodes that are emitted together, in order: one node, or a group to be fused.
struct FusionUnit {
  std::vector<int32_t> nodes;
  bool scalars = false;  ///< A group of nodes that compute scalars alone (scalars.h).
  /// A convolution, the depthwise one that alone reads it, and perhaps a convolution that alone
  /// reads that.
  bool bands = false;
  /// What another unit, or a result, needs: what reductions give comes last.
  std::vector<Edge> outputs = {};
  /// Of a group without reductions: what stores values of it, in order, behind all of its nodes.
  std::vector<int32_t> stores = {};
  /// Of a device: the last node is a reduction of what the others make, which nobody else needs.
  bool reduces = false;
};

/// All nodes of the graph, grouped, in an order in which they may run. What computes scalars alone
/// waits until somebody else needs it, and so do pure elementwise nodes, which join the groups of
/// what they read where the same is known of their shapes. Whether those are equal is for the step
/// to find out. A reduction along trailing dimensions of what a group makes is a part of the group,
/// and nobody in it reads what that gives. A store of what a group makes waits with it, where the
/// variable is known to be another than those of what comes between, so that the values that a step
/// of training gives a parameter and its moments are one group. `kernels`: the CPU's. `device`: of
/// a plan for that, which has groups. There a reduction along any constant axes ends what it
/// alone needs of the group that makes what it reduces, where that writes no other value for it.
std::vector<FusionUnit> PlanFusion(const Graph& graph, const KernelRegistry& kernels,
                                   const KernelRegistry* device = nullptr);

/// One step for a whole unit of elementwise nodes and reductions, or of convolutions; its
/// outputs are the unit's, and its errors name the node that they are of. The handles of the unit's
/// stores are more inputs, behind these. A variable that nobody else holds is changed in place.
struct FusedStep {
  std::vector<Edge> inputs;
  KernelFn kernel;
};

/// `one_by_one`: the kernels of the unit's nodes, for calls whose shapes the program cannot take.
/// Nullopt where the unit's nodes are better run one by one.
absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph& graph, const FusionUnit& unit,
                                                       std::vector<KernelFn> one_by_one);

}  // namespace formwork
