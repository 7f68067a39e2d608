#pragma once

// The parts of the gather family, one per file gather_<part>_cpu.cc.

#include "core/kernels/kernel.h"

namespace formwork {

void RegisterGatherScatterKernels(KernelRegistry& registry);  ///< ScatterNd, TensorScatter* ...
void RegisterGatherSelectKernels(KernelRegistry& registry);   ///< Where, OneHot, DynamicStitch ...
void RegisterGatherSearchKernels(KernelRegistry& registry);   ///< Unique, ListDiff, Bucketize ...
void AddSparseSegmentCpuKernels(KernelRegistry& registry);    ///< Of the family segment.

}  // namespace formwork
