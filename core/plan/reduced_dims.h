#pragma once

// What is known, when a plan is made, of the dimensions that a reduction reduces: whether it may be
// part of the group that makes what it reduces.

#include "core/graph/graph.h"

namespace formwork {

/// The reduction_indices of a Sum, Prod, Mean, Max, Min, All or Any, where they are a constant that
/// fits the input's shape as far as that is known; else null, as of any other node. In the graph.
const Tensor* ConstantAxes(const Graph& graph, const Node& node);

/// Of a plan for the CPU: how many trailing dimensions the node reduces its first input along,
/// where it may be the last step of a group. 0 where it may not, or where that is not faster.
int TrailingDimsReduced(const Graph& graph, const Node& node);

}  // namespace formwork
