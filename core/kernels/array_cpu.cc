#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterArrayCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
