#pragma once

#include "core/kernels/conv/depthwise_loops.h"
#include "core/kernels/conv/epilogue.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// The loops' part of an epilogue, whose scale is the filter's. It points into the operands.
DepthwiseEpilogue<float> DepthwiseEpilogueOf(const EpilogueOperands& operands);

/// DepthwiseConv2dNative and its gradients; part of the family conv.
void AddDepthwiseCpuKernels(KernelRegistry& registry);

}  // namespace formwork
