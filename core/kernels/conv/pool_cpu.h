#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

/// MaxPool, AvgPool and their gradients; part of the family conv.
void AddPoolCpuKernels(KernelRegistry& registry);

}  // namespace formwork
