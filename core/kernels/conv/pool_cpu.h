#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

/// MaxPool, AvgPool and their gradients; part of the family conv.
void AddPoolCpuKernels(KernelRegistry& registry);
void AddPool3dCpuKernels(KernelRegistry& registry);    ///< Of volumes.
void AddDilationCpuKernels(KernelRegistry& registry);  ///< Dilation2D and its gradients.

}  // namespace formwork
