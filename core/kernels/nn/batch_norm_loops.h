#pragma once

// The passes over memory that batch normalisation is made of.

#include <cstdint>

namespace formwork {

/// Where the elements of a channel are: [outer, channels, inner]; inner is 1 where channels are
/// last.
struct ChannelLayout {
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 1;
  int64_t per_channel() const { return outer * inner; }
};

// T: float, half, bfloat16. Arrays named for channels have one element for each. Split over the
// compute threads; sums are the same in every run.

/// sum = sum of x.
template <typename T>
void ChannelSums(const ChannelLayout& layout, const T* x, double* sum);
/// sum = sum of (x - mean)^2.
template <typename T>
void ChannelSquares(const ChannelLayout& layout, const T* x, const float* mean, double* sum);
/// sum = sum of dy; product = sum of dy * (x - mean).
template <typename T>
void ChannelProducts(const ChannelLayout& layout, const T* dy, const T* x, const float* mean,
                     double* sum, double* product);

/// y = (x - mean) * factor + offset; y may be x.
template <typename T>
void ChannelScale(const ChannelLayout& layout, const T* x, const float* mean, const float* factor,
                  const float* offset, T* y);
/// dx = (dy - shift - (x - mean) * slope) * factor; dx may be dy or x.
template <typename T>
void ChannelGradient(const ChannelLayout& layout, const T* dy, const T* x, const float* mean,
                     const float* shift, const float* slope, const float* factor, T* dx);

}  // namespace formwork
