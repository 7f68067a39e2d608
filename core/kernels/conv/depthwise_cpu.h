#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

/// DepthwiseConv2dNative and its gradients; part of the family conv.
void AddDepthwiseCpuKernels(KernelRegistry& registry);

}  // namespace formwork
