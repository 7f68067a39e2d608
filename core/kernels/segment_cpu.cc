#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterSegmentCpuKernels(KernelRegistry& registry) { (void)registry; }

}  // namespace formwork
