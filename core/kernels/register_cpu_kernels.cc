#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterCpuKernels(KernelRegistry& registry) {
  RegisterFunctionCpuKernels(registry);
  RegisterClientFunctionCpuKernels(registry);
  RegisterVariableCpuKernels(registry);
  RegisterElementwiseCpuKernels(registry);
  RegisterGroupCpuKernels(registry);
  RegisterReductionCpuKernels(registry);
  RegisterMatmulCpuKernels(registry);
  RegisterSegmentCpuKernels(registry);
  RegisterNnCpuKernels(registry);
  RegisterConvCpuKernels(registry);
  RegisterBatchNormCpuKernels(registry);
  RegisterArrayCpuKernels(registry);
  RegisterGatherCpuKernels(registry);
  RegisterListCpuKernels(registry);
  RegisterOptionalCpuKernels(registry);
  RegisterRandomCpuKernels(registry);
  RegisterDebugCpuKernels(registry);
  RegisterTrainingCpuKernels(registry);
  RegisterStringCpuKernels(registry);
  RegisterImageCpuKernels(registry);
  RegisterAudioCpuKernels(registry);
  RegisterIoCpuKernels(registry);
  RegisterFftCpuKernels(registry);
  RegisterLinalgCpuKernels(registry);
  RegisterTableCpuKernels(registry);
  RegisterMutexCpuKernels(registry);
  RegisterQueueCpuKernels(registry);
  RegisterStackCpuKernels(registry);
  RegisterBarrierCpuKernels(registry);
  RegisterStagingCpuKernels(registry);
  RegisterTensorsMapCpuKernels(registry);
  RegisterAccumulatorCpuKernels(registry);
  RegisterRaggedCpuKernels(registry);
  RegisterSparseCpuKernels(registry);
  RegisterSparseMatrixCpuKernels(registry);
  RegisterCompositeCpuKernels(registry);
  RegisterDataCpuKernels(registry);
  RegisterTensorMapCpuKernels(registry);
}

}  // namespace formwork
