#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family io.
void AddDecodeCsvCpuKernels(KernelRegistry& registry);
void AddDecodeJsonCpuKernel(KernelRegistry& registry);
void AddFileCpuKernels(KernelRegistry& registry);
void AddMatchingFilesCpuKernels(KernelRegistry& registry);
void AddParseExampleCpuKernels(KernelRegistry& registry);
void AddParseSequenceCpuKernel(KernelRegistry& registry);
void AddSerializedTensorCpuKernels(KernelRegistry& registry);

}  // namespace formwork
