#include "core/kernels/nn/nn_cpu.h"

#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterNnCpuKernels(KernelRegistry& registry) {
  RegisterAttentionKernel(registry);
  RegisterBiasKernels(registry);
  RegisterCtcKernels(registry);
  RegisterFakeQuantKernels(registry);
  RegisterNearestKernel(registry);
  RegisterGlobalNormKernels(registry);
  RegisterIsotonicKernel(registry);
  RegisterLayerNormKernel(registry);
  RegisterSoftmaxKernels(registry);
  RegisterLrnKernels(registry);
  RegisterQuantizeKernels(registry);
  RegisterQuantizedKernels(registry);
  RegisterQuantizedPoolKernels(registry);
  RegisterUniformKernels(registry);
  RegisterTopKKernels(registry);
}

}  // namespace formwork
