#pragma once

// ExtractGlimpse and ExtractGlimpseV2: a window of each image, which may reach beyond it, on every
// device. Shape functions use it, for which dimensions may be unknown (-1), and kernels. Errors are
// kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// What stands where there is no image.
enum class GlimpseNoise : uint8_t {
  kZero,
  kUniform,  ///< Between the least and the largest element of the image.
  kGaussian  ///< With each channel's mean and deviation, within its least and largest element.
};

struct GlimpseAttrs {
  bool centered = true;            ///< Offsets are from the image's middle.
  bool normalized = true;          ///< Offsets are parts of its size.
  bool offsets_of_middle = false;  ///< Of a window that is not both, too (the first version).
  GlimpseNoise noise = GlimpseNoise::kUniform;

  static absl::StatusOr<GlimpseAttrs> FromAttrs(const AttrMap& attrs);

  /// The first of `window` rows, or columns, of an image of `image`; -window where none is on it.
  int64_t BeginOf(float offset, int64_t window, int64_t image) const;
};

struct GlimpseGeometry {
  int64_t batch;
  int64_t rows;
  int64_t cols;
  int64_t channels;
  int64_t glimpse_rows;
  int64_t glimpse_cols;

  Dims glimpses() const { return {batch, glimpse_rows, glimpse_cols, channels}; }
};

/// `images`: [batch, rows, columns, channels]; `size`: the vector (rows, columns), null where it is
/// not known; `offsets`: [batch, 2], of rows and columns.
absl::StatusOr<GlimpseGeometry> PrepareGlimpse(absl::Span<const int64_t> images, const Tensor* size,
                                               absl::Span<const int64_t> offsets);

}  // namespace formwork
