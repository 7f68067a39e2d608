#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterImageCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
