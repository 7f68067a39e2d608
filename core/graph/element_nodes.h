#pragma once

// Which nodes compute their results element by element.

#include <vector>

#include "core/graph/graph.h"
#include "core/kernels/elementwise/elementwise_blocks.h"

namespace formwork {

/// The entry of the table of elementwise ops that computes what the node does, which reads `nodes`;
/// null where there is none. The step of its own may still refuse operands, or shapes.
const BlockOp* TableOp(const std::vector<Node>& nodes, const Node& node);

/// The same where a node may be part of an ElementwiseProgram.
const BlockOp* FusableOp(const std::vector<Node>& nodes, const Node& node);

}  // namespace formwork
