#include "core/kernels/conv/conv_panels.h"

#include <algorithm>
#include <vector>

#include "core/kernels/gemm/panel_product.h"

namespace formwork {
namespace {

// Elements of a tap below which its own cost is felt: images of few channels are oneDNN's.
constexpr int64_t kLeastDepth = 16;
// A panel of so many rows (512 KiB) stays in the second-level cache while all tiles go through it.
constexpr int64_t kMostDepth = 8192;
// It is where few pixels share a large filter that the time goes into reading the filter, which
// panels are asked for ahead of. Of more pixels, or of a filter that stays in the second-level
// cache, oneDNN is as fast, and faster on a busy machine.
constexpr int64_t kMostPixels = 64;
constexpr int64_t kLeastFilter = 3 << 17;  // Elements: 1.5 MiB.
// With fewer channels oneDNN is as fast where pixels are left out.
constexpr int64_t kManyChannels = 512;
// So many in and out are worth it for a GELU, which takes less time here than as oneDNN's post-op.
constexpr int64_t kChannelsForGelu = 128;
// Channels that are one and a half of AVX-512's registers, of which oneDNN computes two.
constexpr int64_t kNarrow = 24;

// Where the windows of pixels of the output begin, tap by tap; `zeros` where they leave the image.
struct Windows {
  const ConvShape& shape;
  const float* input;
  const float* zeros;

  void Of(int64_t first, int64_t count, const float** rows) const {
    const ConvAxis& y = shape.rows;
    const ConvAxis& x = shape.cols;
    int64_t out_x = first % x.output;
    int64_t out_y = first / x.output % y.output;
    int64_t image = first / x.output / y.output;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from_y = out_y * y.stride - y.pad_before;
      const int64_t from_x = out_x * x.stride - x.pad_before;
      const float** row = rows + i;
      for (int64_t ty = 0; ty < y.taps; ++ty) {
        const int64_t at_y = from_y + ty * y.dilation;
        for (int64_t tx = 0; tx < x.taps; ++tx, row += count) {
          const int64_t at_x = from_x + tx * x.dilation;
          const bool inside = at_y >= 0 && at_y < y.input && at_x >= 0 && at_x < x.input;
          *row = inside ? input + ((image * y.input + at_y) * x.input + at_x) * shape.in_channels
                        : zeros;
        }
      }
      if (++out_x < x.output) continue;
      out_x = 0;
      if (++out_y < y.output) continue;
      out_y = 0;
      ++image;
    }
  }
};

}  // namespace

bool ConvByPanels(const ConvShape& shape, Activation activation) {
  const PanelUses uses = UsesOfPanels();
  const int64_t taps = shape.rows.taps * shape.cols.taps;
  if (shape.channels_first || shape.groups != 1 || shape.in_channels < kLeastDepth ||
      taps * shape.in_channels > kMostDepth) {
    return false;
  }
  const double pixels = static_cast<double>(shape.batch) * static_cast<double>(shape.rows.output) *
                        static_cast<double>(shape.cols.output);
  if (pixels <= static_cast<double>(kMostPixels) && shape.filter_elements() >= kLeastFilter) {
    return uses.few_pixels;
  }
  const bool strided = shape.rows.stride > 1 || shape.cols.stride > 1;
  if (taps == 1 && strided && shape.in_channels >= kManyChannels) return uses.strided;
  if (taps == 1 && activation == Activation::kGelu &&
      std::min(shape.in_channels, shape.out_channels) >= kChannelsForGelu) {
    return uses.gelu;
  }
  return shape.out_channels == kNarrow && uses.narrow;
}

void ConvPanelsForward(const ConvShape& shape, const float* input, const float* panels,
                       const float* bias, const float* residual, Activation activation,
                       float* output) {
  std::vector<float> zeros;
  const bool padded = shape.rows.pad_before > 0 || shape.rows.pad_after > 0 ||
                      shape.cols.pad_before > 0 || shape.cols.pad_after > 0;
  if (padded) zeros.assign(static_cast<size_t>(shape.in_channels), 0.0f);
  const PanelProduct product = {.m = shape.batch * shape.rows.output * shape.cols.output,
                                .n = shape.out_channels,
                                .taps = shape.rows.taps * shape.cols.taps,
                                .depth = shape.in_channels,
                                .panels = panels,
                                .bias = bias,
                                .residual = residual,
                                .activation = activation,
                                .c = output,
                                .ldc = shape.out_channels};
  const Windows windows = {shape, input, zeros.data()};
  RunPanelProduct(product, [&windows](int64_t first, int64_t count, const float** rows) {
    windows.Of(first, count, rows);
  });
}

}  // namespace formwork
