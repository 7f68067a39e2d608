#pragma once

// Mutexes (tf.CriticalSection): what their ops, on any device, have in common.

#include "core/tensor/resource_type.h"

namespace formwork {

/// Its one part is whether it is locked. Calls that use a mutex take turns at it as at any
/// resource, so that who locks it need not wait.
inline constexpr ResourceKind kMutexKind{"mutex"};

}  // namespace formwork
