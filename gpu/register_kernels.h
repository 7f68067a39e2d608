#pragma once

// The families of a GPU's kernels. Private to gpu/; gpu.h has RegisterCudaKernels.

#include "core/kernels/kernel.h"

namespace formwork {

void RegisterArrangeKernels(KernelRegistry& registry);
void RegisterArrayKernels(KernelRegistry& registry);
void RegisterGpuAttentionKernels(KernelRegistry& registry);
void RegisterColorKernels(KernelRegistry& registry);
void RegisterConv3dKernels(KernelRegistry& registry);
void RegisterConvKernels(KernelRegistry& registry);
void RegisterCropKernels(KernelRegistry& registry);
void RegisterEinsumKernels(KernelRegistry& registry);
void RegisterElementKernels(KernelRegistry& registry);
void RegisterIndexKernels(KernelRegistry& registry);
void RegisterLossKernels(KernelRegistry& registry);
void RegisterGpuLrnKernels(KernelRegistry& registry);
void RegisterMoveKernels(KernelRegistry& registry);
void RegisterNormKernels(KernelRegistry& registry);
void RegisterPool3dKernels(KernelRegistry& registry);
void RegisterPoolKernels(KernelRegistry& registry);
void RegisterProductKernels(KernelRegistry& registry);
void RegisterRandomKernels(KernelRegistry& registry);
void RegisterReductionKernels(KernelRegistry& registry);
void RegisterResizeKernels(KernelRegistry& registry);
void RegisterGpuScanKernels(KernelRegistry& registry);
void RegisterSearchKernels(KernelRegistry& registry);
void RegisterSegmentKernels(KernelRegistry& registry);
void RegisterSparseSegmentKernels(KernelRegistry& registry);
void RegisterStitchKernels(KernelRegistry& registry);
void RegisterTopKernels(KernelRegistry& registry);
void RegisterTransformKernels(KernelRegistry& registry);
void RegisterUpdateKernels(KernelRegistry& registry);

}  // namespace formwork
