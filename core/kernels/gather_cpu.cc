#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterGatherCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
