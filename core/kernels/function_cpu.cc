#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterFunctionCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
