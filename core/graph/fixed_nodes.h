#pragma once

// What is the same in every call until a variable changes.

#include <vector>

#include "core/graph/graph.h"

namespace formwork {

/// By node: whether it is a constant, the value of a variable that the graph is given or names, or
/// a pure op on such alone. None is where the graph has an effect: then its variables may change
/// during a call, and what fails is to fail in its place.
std::vector<bool> FixedNodes(const Graph& graph);

/// Whether the node, which is an op, gives its input on without work: a load, a Reshape.
bool IsFree(const Node& node);

}  // namespace formwork
