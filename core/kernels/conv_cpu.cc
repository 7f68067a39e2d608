#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterConvCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
