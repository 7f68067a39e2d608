#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterRandomCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
