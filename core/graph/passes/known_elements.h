#pragma once

// What is known of integers that are computed from shapes of which some dimensions are unknown:
// the sizes that a Reshape is given are seldom constant, but often all but one of them are known.

#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/tensor/shape.h"

namespace formwork {

/// The elements of output `index` of `node`, a scalar or a vector of int32 or int64; -1 where an
/// element is unknown or negative. Nothing where it is not known how many there are, or these are
/// more than dimensions can be. `nodes` has the inputs, with what is known of their shapes. Looks
/// at few nodes, however many are before this one.
std::optional<Dims> KnownElements(const std::vector<Node>& nodes, const Node& node, int32_t index);

/// The value of output 0, where all of its elements are known.
std::optional<Tensor> KnownValue(const std::vector<Node>& nodes, const Node& node,
                                 Allocator& allocator);

}  // namespace formwork
