#pragma once

// The explicit list of the CPU's kernel families.

#include "core/kernels/kernel.h"

namespace formwork {

/// Adds the CPU's kernels of every family.
void RegisterCpuKernels(KernelRegistry& registry);

// One per family file, core/kernels/<family>_cpu.cc.
void RegisterFunctionCpuKernels(KernelRegistry& registry);
void RegisterClientFunctionCpuKernels(KernelRegistry& registry);
void RegisterVariableCpuKernels(KernelRegistry& registry);
void RegisterElementwiseCpuKernels(KernelRegistry& registry);
void RegisterGroupCpuKernels(KernelRegistry& registry);
void RegisterReductionCpuKernels(KernelRegistry& registry);
void RegisterMatmulCpuKernels(KernelRegistry& registry);
void RegisterSegmentCpuKernels(KernelRegistry& registry);
void RegisterNnCpuKernels(KernelRegistry& registry);
void RegisterConvCpuKernels(KernelRegistry& registry);
void RegisterBatchNormCpuKernels(KernelRegistry& registry);
void RegisterArrayCpuKernels(KernelRegistry& registry);
void RegisterGatherCpuKernels(KernelRegistry& registry);
void RegisterListCpuKernels(KernelRegistry& registry);
void RegisterOptionalCpuKernels(KernelRegistry& registry);
void RegisterRandomCpuKernels(KernelRegistry& registry);
void RegisterDebugCpuKernels(KernelRegistry& registry);
void RegisterTrainingCpuKernels(KernelRegistry& registry);
void RegisterStringCpuKernels(KernelRegistry& registry);
void RegisterImageCpuKernels(KernelRegistry& registry);
void RegisterAudioCpuKernels(KernelRegistry& registry);
void RegisterIoCpuKernels(KernelRegistry& registry);
void RegisterFftCpuKernels(KernelRegistry& registry);
void RegisterLinalgCpuKernels(KernelRegistry& registry);
void RegisterTableCpuKernels(KernelRegistry& registry);
void RegisterMutexCpuKernels(KernelRegistry& registry);
void RegisterQueueCpuKernels(KernelRegistry& registry);
void RegisterStackCpuKernels(KernelRegistry& registry);
void RegisterBarrierCpuKernels(KernelRegistry& registry);
void RegisterStagingCpuKernels(KernelRegistry& registry);
void RegisterTensorsMapCpuKernels(KernelRegistry& registry);
void RegisterAccumulatorCpuKernels(KernelRegistry& registry);
void RegisterRaggedCpuKernels(KernelRegistry& registry);
void RegisterSparseCpuKernels(KernelRegistry& registry);
void RegisterSparseMatrixCpuKernels(KernelRegistry& registry);
void RegisterCompositeCpuKernels(KernelRegistry& registry);
void RegisterDataCpuKernels(KernelRegistry& registry);
void RegisterTensorMapCpuKernels(KernelRegistry& registry);

}  // namespace formwork
