#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family image.
void AddResampleCpuKernels(KernelRegistry& registry);
void AddImageTransformCpuKernels(KernelRegistry& registry);

}  // namespace formwork
