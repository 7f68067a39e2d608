#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family ragged.
void AddRaggedToTensorCpuKernel(KernelRegistry& registry);
void AddRaggedVariantCpuKernels(KernelRegistry& registry);

}  // namespace formwork
