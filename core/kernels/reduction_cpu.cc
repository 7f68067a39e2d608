#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterReductionCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
