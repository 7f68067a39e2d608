#pragma once

// Forward convolutions of 3x3 by Winograd's algorithm: F(2x2, 3x3), where four outputs take 16
// multiplications of each pair of channels instead of 36, and F(4x4, 3x3), where sixteen take 36
// instead of 144; as so many products of tiles by panels (gemm/panel_product.h). Sums are rounded a
// little differently from a direct convolution's (README.md), and what is not finite spreads over
// its tile.

#include <cstdint>

#include "absl/status/status.h"
#include "core/device/buffer.h"
#include "core/ops/conv.h"
#include "core/ops/epilogue.h"

namespace formwork {

/// Of how many outputs a tile is, each way.
enum class WinogradTiles : uint8_t { kNone, kOf2, kOf4 };

/// By which tiles this is the fastest way on this machine; kNone where another is.
WinogradTiles ConvByWinograd(const ConvShape& shape, Activation activation);

/// How many floats the transformed filter takes, and how it is made of float[3, 3, in, out].
int64_t WinogradElements(WinogradTiles tiles, int64_t in_channels, int64_t out_channels);
void WinogradFilter(WinogradTiles tiles, int64_t in_channels, int64_t out_channels,
                    const float* filter, float* panels);

/// As ConvPanelsForward. Errors: kResourceExhausted if there is no memory for scratch.
absl::Status ConvWinogradForward(WinogradTiles tiles, const ConvShape& shape, const float* input,
                                 const float* panels, const float* bias, const float* residual,
                                 Activation activation, Allocator& allocator, float* output);

/// The gradient of the filter of such a convolution the same way. Overwrites float[3, 3, in, out].
/// Errors: kResourceExhausted if there is no memory for scratch.
WinogradTiles FilterGradientByWinograd(const ConvShape& shape);
absl::Status WinogradFilterGradient(WinogradTiles tiles, const ConvShape& shape, const float* input,
                                    const float* out_backprop, Allocator& allocator,
                                    float* filter_backprop);

}  // namespace formwork
