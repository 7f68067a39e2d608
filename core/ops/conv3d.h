#pragma once

// Convolutions of volumes on every device: attrs, and geometry from shapes. Shape functions use it,
// for which dimensions may be unknown (-1, and so is what follows from them), and kernels. Errors
// are kInvalidArgument in TensorFlow's words.

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/conv.h"
#include "core/ops/window.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct Conv3dAttrs {
  Padding padding = Padding::kValid;
  std::array<WindowAttr, 3> windows;  ///< Of planes, rows and columns; their dilation is 1.

  static absl::StatusOr<Conv3dAttrs> FromAttrs(const AttrMap& attrs);
};

/// Volumes of [batch, planes, rows, columns, channels], filters of [planes, rows, columns,
/// in_channels, out_channels].
struct Conv3dShape {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  std::array<ConvAxis, 3> axes;

  Dims input_dims() const {
    return {batch, axes[0].input, axes[1].input, axes[2].input, in_channels};
  }
  Dims filter_dims() const {
    return {axes[0].taps, axes[1].taps, axes[2].taps, in_channels, out_channels};
  }
  Dims output_dims() const {
    return {batch, axes[0].output, axes[1].output, axes[2].output, out_channels};
  }
};

/// Where strides are larger than the window, SAME pads nothing, as in TensorFlow's gradients and as
/// in Conv2D; its plain forward kernel alone, the one without oneDNN, then begins within the input.
absl::StatusOr<Conv3dShape> PrepareConv3d(const Conv3dAttrs& attrs, absl::Span<const int64_t> input,
                                          absl::Span<const int64_t> filter);

/// The convolution whose gradient it is. `op` is what errors call the gradient.
absl::StatusOr<Conv3dShape> PrepareConv3dGradient(absl::string_view op, const Conv3dAttrs& attrs,
                                                  absl::Span<const int64_t> input,
                                                  absl::Span<const int64_t> filter,
                                                  absl::Span<const int64_t> out_backprop);
/// Of Conv3DBackpropInputV2, whose input `sizes` lists the input's dimensions.
absl::StatusOr<Conv3dShape> PrepareConv3dInputGradient(const Conv3dAttrs& attrs,
                                                       const Tensor& sizes,
                                                       absl::Span<const int64_t> filter,
                                                       absl::Span<const int64_t> out_backprop);
/// Of Conv3DBackpropFilterV2, whose input `sizes` lists the filter's dimensions.
absl::StatusOr<Conv3dShape> PrepareConv3dFilterGradient(const Conv3dAttrs& attrs,
                                                        absl::Span<const int64_t> input,
                                                        const Tensor& sizes,
                                                        absl::Span<const int64_t> out_backprop);

}  // namespace formwork
