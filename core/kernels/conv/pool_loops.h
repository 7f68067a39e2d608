#pragma once

// Pooling over rows and columns, channels last.

#include <cstdint>

#include "core/ops/conv.h"

namespace formwork {

// shape.in_channels == shape.out_channels; taps are the window's size, dilation is 1. Results are
// overwritten. Split over the compute threads.

/// The largest of each window, at least `lowest`; NaN is passed over, as TensorFlow does.
template <typename T>
void MaxPoolForward(const ConvShape& shape, const T* input, T lowest, T* output);
/// Each gradient goes to the first largest element of its window (a NaN that comes first stays);
/// `relu`: only where that is above 0.
template <typename T>
void MaxPoolInputGradient(const ConvShape& shape, bool relu, const T* input, const T* out_backprop,
                          T* in_backprop);

// T: float, double. The mean of those elements of a window that lie within the image.
template <typename T>
void AvgPoolForward(const ConvShape& shape, const T* input, T* output);
template <typename T>
void AvgPoolInputGradient(const ConvShape& shape, const T* out_backprop, T* in_backprop);

}  // namespace formwork
