#pragma once

// The parts of the nn family, one per file nn_<part>_cpu.cc.

#include "core/kernels/kernel.h"

namespace formwork {

void RegisterAttentionKernel(KernelRegistry& registry);  ///< _Attention
void RegisterBiasKernels(KernelRegistry& registry);      ///< BiasAdd, BiasAddV1, BiasAddGrad
void RegisterCtcKernels(KernelRegistry& registry);       ///< CTCLoss and the decoders
void RegisterFakeQuantKernels(KernelRegistry& registry);
/// BatchNormWithGlobalNormalization and its gradient.
void RegisterGlobalNormKernels(KernelRegistry& registry);
void RegisterIsotonicKernel(KernelRegistry& registry);    ///< IsotonicRegression
void RegisterLayerNormKernel(KernelRegistry& registry);   ///< _MklLayerNorm
void RegisterLrnKernels(KernelRegistry& registry);        ///< LRN, LRNGrad
void RegisterNearestKernel(KernelRegistry& registry);     ///< NearestNeighbors
void RegisterQuantizeKernels(KernelRegistry& registry);   ///< QuantizeV2, Dequantize, and both
void RegisterQuantizedKernels(KernelRegistry& registry);  ///< QuantizedMatMul and its like
/// QuantizedConcat, QuantizedReshape, pooling and convolution.
void RegisterQuantizedPoolKernels(KernelRegistry& registry);
void RegisterUniformKernels(KernelRegistry& registry);  ///< UniformQuantize and its like
void RegisterSoftmaxKernels(KernelRegistry& registry);  ///< Softmax and its cross entropies
void RegisterTopKKernels(KernelRegistry& registry);  ///< TopKV2, ApproxTopK, NthElement, InTopKV2

}  // namespace formwork
