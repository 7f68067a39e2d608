#pragma once

// Convolutions of two spatial dimensions on every device: geometry from shapes. Shape functions use
// it, for which dimensions may be unknown (-1, and so is what follows from them), and kernels. The
// attrs are in window.h.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/window.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// One spatial dimension: output o and tap k read input o * stride - pad_before + k * dilation,
/// where that exists.
struct ConvAxis {
  int64_t input = 0;
  int64_t output = 0;
  int64_t taps = 0;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0;
  int64_t pad_after = 0;

  bool operator==(const ConvAxis&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ConvAxis& a) {
    return H::combine(std::move(h), a.input, a.output, a.taps, a.stride, a.dilation, a.pad_before,
                      a.pad_after);
  }
};

/// Activations are [batch, rows, cols, channels], or [batch, channels, rows, cols] with
/// channels_first; the filter is [rows.taps, cols.taps, in_channels / groups, out_channels].
struct ConvShape {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  ConvAxis rows;
  ConvAxis cols;
  bool channels_first = false;

  Dims input_dims() const {
    return ImageLayout{channels_first}.Of(batch, rows.input, cols.input, in_channels);
  }
  Dims output_dims() const {
    return ImageLayout{channels_first}.Of(batch, rows.output, cols.output, out_channels);
  }
  int64_t in_group() const { return in_channels / groups; }
  int64_t out_group() const { return out_channels / groups; }
  int64_t input_elements() const { return Product(batch, rows.input, cols.input, in_channels); }
  int64_t output_elements() const { return Product(batch, rows.output, cols.output, out_channels); }
  int64_t filter_elements() const {
    return Product(rows.taps, cols.taps, in_group(), out_channels);
  }
  /// Multiplications, in floating point because it is a measure of work that may be large.
  double work() const {
    return static_cast<double>(batch * rows.output * cols.output) *
           static_cast<double>(filter_elements());
  }

  /// Whether each output is of the one pixel of the input that is in its place.
  bool is_pointwise() const {
    const auto same = [](const ConvAxis& a) {
      return a.taps == 1 && a.stride == 1 && a.pad_before == 0 && a.pad_after == 0;
    };
    return groups == 1 && same(rows) && same(cols);
  }

  // An empty tensor's other dimensions may be too large to multiply.
  static int64_t Product(int64_t a, int64_t b, int64_t c, int64_t d) {
    return a == 0 || b == 0 || c == 0 || d == 0 ? 0 : a * b * c * d;
  }

  bool operator==(const ConvShape&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ConvShape& s) {
    return H::combine(std::move(h), s.batch, s.in_channels, s.out_channels, s.groups, s.rows,
                      s.cols, s.channels_first);
  }
};

/// How a window of `taps` goes over a dimension. Errors: kInvalidArgument, as SlideWindow's.
absl::StatusOr<ConvAxis> MakeConvAxis(int64_t input, int64_t taps, const WindowAttr& attr,
                                      Padding padding);
/// Whether the output's gradient may have `actual` elements along the axis. Errors:
/// kInvalidArgument in TensorFlow's words, which call the gradient `op`.
absl::Status CheckGradientAxis(absl::string_view op, const ConvAxis& axis, int64_t actual,
                               int spatial_dim);

/// Of a gradient: the convolution, and the dimensions of what is computed.
struct ConvGradient {
  ConvShape shape;
  Dims output;
};

// --- Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter ------------------------------------------

/// Errors of all: kInvalidArgument in TensorFlow's words.
absl::StatusOr<ConvShape> PrepareConv(const SlidingAttrs& attrs, absl::Span<const int64_t> input,
                                      absl::Span<const int64_t> filter);
/// `sizes`: the input's dimensions, or its rows and columns.
absl::StatusOr<ConvGradient> PrepareConvInputGradient(const SlidingAttrs& attrs,
                                                      absl::Span<const int64_t> sizes,
                                                      absl::Span<const int64_t> filter,
                                                      absl::Span<const int64_t> out_backprop);
absl::StatusOr<ConvGradient> PrepareConvInputGradient(const SlidingAttrs& attrs,
                                                      const Tensor& sizes,
                                                      absl::Span<const int64_t> filter,
                                                      absl::Span<const int64_t> out_backprop);
/// `sizes`: the filter's dimensions.
absl::StatusOr<ConvGradient> PrepareConvFilterGradient(const SlidingAttrs& attrs,
                                                       absl::Span<const int64_t> input,
                                                       absl::Span<const int64_t> sizes,
                                                       absl::Span<const int64_t> out_backprop);
absl::StatusOr<ConvGradient> PrepareConvFilterGradient(const SlidingAttrs& attrs,
                                                       absl::Span<const int64_t> input,
                                                       const Tensor& sizes,
                                                       absl::Span<const int64_t> out_backprop);

// --- DepthwiseConv2dNative and its gradients ----------------------------------------------------

/// groups == in_channels, and the filter [rows.taps, cols.taps, in_channels, multiplier] is seen as
/// [rows.taps, cols.taps, 1, in_channels * multiplier]. Errors of all: as above.
absl::StatusOr<ConvShape> PrepareDepthwise(const SlidingAttrs& attrs,
                                           absl::Span<const int64_t> input,
                                           absl::Span<const int64_t> filter);
absl::StatusOr<ConvGradient> PrepareDepthwiseInputGradient(const SlidingAttrs& attrs,
                                                           absl::Span<const int64_t> sizes,
                                                           absl::Span<const int64_t> filter,
                                                           absl::Span<const int64_t> out_backprop);
absl::StatusOr<ConvGradient> PrepareDepthwiseInputGradient(const SlidingAttrs& attrs,
                                                           const Tensor& sizes,
                                                           absl::Span<const int64_t> filter,
                                                           absl::Span<const int64_t> out_backprop);
absl::StatusOr<ConvGradient> PrepareDepthwiseFilterGradient(const SlidingAttrs& attrs,
                                                            absl::Span<const int64_t> input,
                                                            absl::Span<const int64_t> sizes,
                                                            absl::Span<const int64_t> out_backprop);
absl::StatusOr<ConvGradient> PrepareDepthwiseFilterGradient(const SlidingAttrs& attrs,
                                                            absl::Span<const int64_t> input,
                                                            const Tensor& sizes,
                                                            absl::Span<const int64_t> out_backprop);

}  // namespace formwork
