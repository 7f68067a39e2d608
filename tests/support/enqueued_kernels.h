#pragma once

// Kernels as a GPU has them, of a SimDevice that enqueues: the CPU's, enqueued.

#include "core/kernels/kernel.h"

namespace formwork::testing {

/// Those of ops that cannot fail by what their inputs' elements are (CannotFailByValue), and of
/// those that change variables element by element: nothing tells a call yet what fails on such a
/// device.
void RegisterEnqueuedKernels(KernelRegistry& registry);

}  // namespace formwork::testing
