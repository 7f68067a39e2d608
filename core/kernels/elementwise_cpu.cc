#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterElementwiseCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
