#include "gpu/register_kernels.h"

#include "gpu/gpu.h"

namespace formwork {

void RegisterCudaKernels(KernelRegistry& registry) {
  RegisterArrangeKernels(registry);
  RegisterArrayKernels(registry);
  RegisterGpuAttentionKernels(registry);
  RegisterColorKernels(registry);
  RegisterConv3dKernels(registry);
  RegisterConvKernels(registry);
  RegisterCropKernels(registry);
  RegisterEinsumKernels(registry);
  RegisterElementKernels(registry);
  RegisterIndexKernels(registry);
  RegisterLossKernels(registry);
  RegisterGpuLrnKernels(registry);
  RegisterMoveKernels(registry);
  RegisterNormKernels(registry);
  RegisterPool3dKernels(registry);
  RegisterPoolKernels(registry);
  RegisterProductKernels(registry);
  RegisterRandomKernels(registry);
  RegisterReductionKernels(registry);
  RegisterResizeKernels(registry);
  RegisterGpuScanKernels(registry);
  RegisterSearchKernels(registry);
  RegisterSegmentKernels(registry);
  RegisterSparseSegmentKernels(registry);
  RegisterStitchKernels(registry);
  RegisterTopKernels(registry);
  RegisterTransformKernels(registry);
  RegisterUpdateKernels(registry);
}

}  // namespace formwork
