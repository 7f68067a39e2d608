#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family conv.

/// MaxPool, AvgPool and their gradients.
void AddPoolCpuKernels(KernelRegistry& registry);
void AddPool3dCpuKernels(KernelRegistry& registry);          ///< Of volumes.
void AddFractionalPoolCpuKernels(KernelRegistry& registry);  ///< Of regions that are drawn.
void AddPoolArgmaxCpuKernels(KernelRegistry& registry);  ///< MaxPoolWithArgmax and its gradient.
void AddConv3dCpuKernels(KernelRegistry& registry);      ///< Conv3D and its gradients.
void AddDilationCpuKernels(KernelRegistry& registry);    ///< Dilation2D and its gradients.

}  // namespace formwork
