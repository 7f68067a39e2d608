#pragma once

#include <optional>
#include <vector>

#include "core/graph/graph.h"

namespace formwork {

/// Whether it gives its first input's elements in their order, under another shape, as Reshape
/// does.
bool Reshapes(const Node& node);

/// The input that a Reshape, or an op like it, of a shape that is known gives on as it is; nothing
/// where it does not. The node reads `nodes`.
std::optional<Edge> SameAsInput(const Node& node, const std::vector<Node>& nodes);

/// Lets a Reshape reshape what the one before it does, where that is known to work.
void ReadUnshaped(Node& node, const std::vector<Node>& nodes);

}  // namespace formwork
