#pragma once

// Depthwise convolutions of images of a few channels, such as colours: a vector has those of
// several pixels.

#include "core/kernels/conv/depthwise_loops.h"
#include "core/ops/conv.h"

namespace formwork {

/// Whether the channels are fewer than a vector has, and neighbouring outputs read neighbours.
bool IsOfFewChannels(const ConvShape& shape);

/// As DepthwiseForward.
template <typename T>
void DepthwiseFewChannels(const ConvShape& shape, const T* input, const T* filter,
                          const DepthwiseEpilogue<T>& epilogue, T* output);

}  // namespace formwork
