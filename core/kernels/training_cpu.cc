#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterTrainingCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
