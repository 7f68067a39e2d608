#pragma once

// Barriers (TensorFlow 1's): what their ops, on any device, have in common.

#include "core/tensor/resource_type.h"

namespace formwork {

/// Elements, by key, whose components come one by one; those that have all can be taken. Its parts
/// are the components.
inline constexpr ResourceKind kBarrierKind{"barrier"};

}  // namespace formwork
