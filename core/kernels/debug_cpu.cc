#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterDebugCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
