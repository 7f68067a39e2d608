#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterListCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
