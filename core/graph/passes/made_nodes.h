#pragma once

// Nodes that passes make.

#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace formwork {

/// A node of one output, or of none where `op` has none. Of its attrs `dtype_attr` is `dtype`; the
/// others are what the op's line says.
Node MadeNode(const std::string& name, const OpDef* op, const char* dtype_attr, DType dtype,
              std::vector<Edge> inputs, const PartialShape& shape);

Node MadeConstant(const std::string& name, Tensor value, const OpRegistry& ops);

/// The node becomes the last one of `nodes`. Its output 0.
Edge Append(Node node, std::vector<Node>& nodes);

}  // namespace formwork
