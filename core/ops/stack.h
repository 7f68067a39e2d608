#pragma once

// Stacks (TensorFlow 1's while loops keep there what their gradients take again): what their ops,
// on any device, have in common.

#include "core/tensor/resource_type.h"

namespace formwork {

/// Tensors of one dtype, which is not resource, and any shape, of which the last comes first. A
/// call's own, so that it has no form on disk. Its part is an element.
inline constexpr ResourceKind kStackKind{"stack"};

}  // namespace formwork
