#pragma once

// Convolution as matrix products over patches of the input (im2col): for the element types that
// oneDNN does not take, and for work too small to be worth compiling a primitive.

#include <cstdint>

#include "core/ops/conv.h"

namespace formwork {

/// Elements of scratch that each of the functions below needs. Bounded: large images go in pieces.
int64_t ConvGemmScratch(const ConvShape& shape);

// T: float, double, uint32_t (wraps around; int32 may be passed as it). Activations have channels
// last. The result is overwritten.

/// output = input * filter.
template <typename T>
void ConvGemmForward(const ConvShape& shape, const T* input, const T* filter, T* output,
                     T* scratch);
/// Gradient of the input from that of the output.
template <typename T>
void ConvGemmInputGradient(const ConvShape& shape, const T* filter, const T* out_backprop,
                           T* in_backprop, T* scratch);
/// Gradient of the filter.
template <typename T>
void ConvGemmFilterGradient(const ConvShape& shape, const T* input, const T* out_backprop,
                            T* filter_backprop, T* scratch);

}  // namespace formwork
