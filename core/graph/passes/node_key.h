#pragma once

// Which nodes of a list compute the same.

#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace formwork {

/// Equal for two nodes of a list where both are pure and compute the same of the same inputs.
std::string NodeKey(const Node& node);

/// Equal for constants of one value, and for no node's key; none of what is large.
std::optional<std::string> ConstantKey(const Tensor& value);

}  // namespace formwork
