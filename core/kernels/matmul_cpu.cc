#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterMatmulCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
