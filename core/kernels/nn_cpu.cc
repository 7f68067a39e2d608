#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterNnCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
