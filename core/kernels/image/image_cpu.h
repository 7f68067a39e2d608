#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

// Parts of the family image.
void AddResampleCpuKernels(KernelRegistry& registry);
void AddImageTransformCpuKernels(KernelRegistry& registry);
void AddImageFileCpuKernels(KernelRegistry& registry);
void AddImageColorCpuKernels(KernelRegistry& registry);
void AddCropCpuKernels(KernelRegistry& registry);
void AddPatchCpuKernels(KernelRegistry& registry);
void AddImageSummaryCpuKernel(KernelRegistry& registry);
void AddGlimpseCpuKernels(KernelRegistry& registry);
void AddHistogramCpuKernels(KernelRegistry& registry);
void AddNmsCpuKernels(KernelRegistry& registry);
void AddDrawBoxesCpuKernels(KernelRegistry& registry);

}  // namespace formwork
