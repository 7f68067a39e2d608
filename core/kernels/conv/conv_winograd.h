#pragma once

// Forward convolutions of 3x3 by Winograd's algorithm F(2x2, 3x3): four outputs take 16
// multiplications of each pair of channels instead of 36, as 16 products of tiles by panels
// (gemm/panel_product.h). Sums are rounded a little differently from a direct convolution's
// (README.md), and what is not finite spreads over its tile.

#include "absl/status/status.h"
#include "core/device/buffer.h"
#include "core/ops/conv.h"
#include "core/ops/epilogue.h"

namespace formwork {

/// Whether this is the fastest way on this machine.
bool ConvByWinograd(const ConvShape& shape, Activation activation);

/// How many floats the transformed filter takes, and how it is made of float[3, 3, in, out].
int64_t WinogradElements(int64_t in_channels, int64_t out_channels);
void WinogradFilter(int64_t in_channels, int64_t out_channels, const float* filter, float* panels);

/// As ConvPanelsForward. Errors: kResourceExhausted if there is no memory for scratch.
absl::Status ConvWinogradForward(const ConvShape& shape, const float* input, const float* panels,
                                 const float* bias, const float* residual, Activation activation,
                                 Allocator& allocator, float* output);

/// The gradient of the filter of such a convolution the same way: 16 products where 36 would be
/// multiplied. Overwrites float[3, 3, in, out]. Errors: kResourceExhausted if there is no memory
/// for scratch.
bool FilterGradientByWinograd(const ConvShape& shape);
absl::Status WinogradFilterGradient(const ConvShape& shape, const float* input,
                                    const float* out_backprop, Allocator& allocator,
                                    float* filter_backprop);

}  // namespace formwork
