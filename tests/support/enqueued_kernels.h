#pragma once

// Kernels as a GPU has them, of a SimDevice that enqueues: the CPU's, enqueued.

#include "core/kernels/kernel.h"

namespace formwork::testing {

/// All of them. What fails by what its inputs' elements are says so as a GPU's kernel does
/// (core/device/failure_word.h), and by the CPU's error.
void RegisterEnqueuedKernels(KernelRegistry& registry);

}  // namespace formwork::testing
