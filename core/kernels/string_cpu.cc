#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterStringCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
