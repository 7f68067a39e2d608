#pragma once

// Pooling of volumes on every device: attrs, and geometry from shapes. Shape functions use it, for
// which dimensions may be unknown (-1, and so is what follows from them), and kernels. Errors are
// kInvalidArgument or kUnimplemented in TensorFlow's words.

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/window.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct Pool3dAttrs {
  Padding padding = Padding::kValid;
  std::array<WindowAttr, 3> windows;  ///< Of planes, rows and columns.

  static absl::StatusOr<Pool3dAttrs> FromAttrs(const AttrMap& attrs);
};

struct Pool3dAxis {
  int64_t input;
  int64_t output;
  int64_t window;
  int64_t stride;
  int64_t pad_before;

  /// The input's places under window `i`, those that are there.
  int64_t begin(int64_t i) const { return i * stride < pad_before ? 0 : i * stride - pad_before; }
  int64_t end(int64_t i) const {
    const int64_t last = i * stride - pad_before + window;
    return last < input ? last : input;
  }
};

/// Volumes of [batch, planes, rows, columns, channels].
struct Pool3dGeometry {
  int64_t batch;
  std::array<Pool3dAxis, 3> axes;
  int64_t channels;

  Dims input_dims() const { return {batch, axes[0].input, axes[1].input, axes[2].input, channels}; }
  Dims output_dims() const {
    return {batch, axes[0].output, axes[1].output, axes[2].output, channels};
  }
};

absl::StatusOr<Pool3dGeometry> PreparePool3d(const Pool3dAttrs& attrs,
                                             absl::Span<const int64_t> input);
/// The pooling whose gradient it is.
absl::StatusOr<Pool3dGeometry> PreparePool3dGrad(const Pool3dAttrs& attrs,
                                                 absl::Span<const int64_t> input,
                                                 absl::Span<const int64_t> grad);
/// As the ops' kernels know it: of what was pooled and what it became, or of `sizes`, which list
/// the dimensions of what was.
absl::StatusOr<Pool3dGeometry> PrepareMaxPool3dGrad(const Pool3dAttrs& attrs, const Shape& input,
                                                    const Shape& pooled, const Shape& grad);
absl::StatusOr<Pool3dGeometry> PrepareAvgPool3dGrad(const Pool3dAttrs& attrs, const Tensor& sizes,
                                                    const Shape& grad);

}  // namespace formwork
