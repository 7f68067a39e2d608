#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family sparse.
void AddSparseArithmeticCpuKernels(KernelRegistry& registry);
void AddSparseSerialCpuKernels(KernelRegistry& registry);
void AddSparseCwiseCpuKernels(KernelRegistry& registry);
void AddSparseReductionCpuKernels(KernelRegistry& registry);
void AddSparsePartsCpuKernels(KernelRegistry& registry);
void AddCrossCpuKernels(KernelRegistry& registry);
void AddEditDistanceCpuKernel(KernelRegistry& registry);
void AddSetCpuKernels(KernelRegistry& registry);

}  // namespace formwork
