#include "gpu/register_kernels.h"

#include "gpu/gpu.h"

namespace formwork {

void RegisterCudaKernels(KernelRegistry& registry) {
  RegisterElementKernels(registry);
  RegisterProductKernels(registry);
}

}  // namespace formwork
