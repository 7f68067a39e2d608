#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterVariableCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
