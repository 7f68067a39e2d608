#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family string.
void AddStringHashCpuKernels(KernelRegistry& registry);
void AddStringJoinCpuKernels(KernelRegistry& registry);
void AddStringRegexCpuKernels(KernelRegistry& registry);
void AddStringSplitCpuKernels(KernelRegistry& registry);
void AddStringCaseCpuKernels(KernelRegistry& registry);
void AddUnicodeCpuKernels(KernelRegistry& registry);
void AddRawBytesCpuKernels(KernelRegistry& registry);
void AddDecompressCpuKernels(KernelRegistry& registry);

}  // namespace formwork
