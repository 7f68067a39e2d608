#pragma once

// Depthwise convolution with channels last: each channel has a filter of its own, so that the loops
// go over channels, which lie side by side. A multiplier above 1 is the caller's to deal with: here
// inputs and outputs have as many channels.

#include "core/ops/conv.h"

namespace formwork {

// T: float, double. shape.in_channels == shape.out_channels == C; filters are [taps, taps, C]. The
// result is overwritten. Split over the compute threads.

/// What is done to each output before it is written.
template <typename T>
struct DepthwiseEpilogue {
  const T* bias = nullptr;  ///< By channel; null: none.
  bool clamp = false;       ///< Into [0, high], NaN to 0.
  T high = T(0);
};

template <typename T>
void DepthwiseForward(const ConvShape& shape, const T* input, const T* filter,
                      const DepthwiseEpilogue<T>& epilogue, T* output);
/// `flipped`: scratch of the filter's size.
template <typename T>
void DepthwiseInputGradient(const ConvShape& shape, const T* filter, const T* out_backprop,
                            T* in_backprop, T* flipped);

/// How many parts of sums DepthwiseFilterGradient wants: `sums` has that many times the filter's
/// elements.
int64_t DepthwiseFilterSums(const ConvShape& shape);
template <typename T>
void DepthwiseFilterGradient(const ConvShape& shape, const T* input, const T* out_backprop,
                             T* filter_backprop, T* sums);

}  // namespace formwork
