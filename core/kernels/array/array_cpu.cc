#include "core/kernels/array/array_cpu.h"

#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterArrayCpuKernels(KernelRegistry& registry) {
  RegisterArrayShapeKernels(registry);
  RegisterArrayJoinKernels(registry);
  RegisterArrayFillKernels(registry);
  RegisterArraySliceKernels(registry);
  RegisterArrayPermuteKernels(registry);
  RegisterArrayPadKernels(registry);
  RegisterArrayFormatKernels(registry);
  RegisterArrayBlockKernels(registry);
  RegisterArrayDiagKernels(registry);
}

}  // namespace formwork
