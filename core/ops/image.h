#pragma once

// Resizing of images on every device: attrs, and geometry from shapes and the value of the size.
// Shape functions use it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct ResizeAttrs {
  bool align_corners = false;
  bool half_pixel_centers = false;

  /// Errors: kInvalidArgument in TensorFlow's words if both are asked for.
  static absl::StatusOr<ResizeAttrs> FromAttrs(const AttrMap& attrs);
};

/// Of a gradient, "in" is the original image and "out" the resized one.
struct ResizeGeometry {
  int64_t batch;
  int64_t in_rows;
  int64_t in_cols;
  int64_t out_rows;
  int64_t out_cols;
  int64_t channels;

  Dims original() const { return {batch, in_rows, in_cols, channels}; }
  Dims resized() const { return {batch, out_rows, out_cols, channels}; }
};

/// ResizeBilinear, ResizeNearestNeighbor. `size` is the vector (rows, columns); null where it is
/// not known. Errors: kInvalidArgument in TensorFlow's words if images or size do not fit.
absl::StatusOr<ResizeGeometry> PrepareResize(absl::Span<const int64_t> images, const Tensor* size);
/// ResizeNearestNeighborGrad, of which `size` is the original image's. Errors: as above.
absl::StatusOr<ResizeGeometry> PrepareNearestGrad(absl::Span<const int64_t> grads,
                                                  const Tensor* size);
/// ResizeBilinearGrad. Errors: as above.
absl::StatusOr<ResizeGeometry> PrepareBilinearGrad(absl::Span<const int64_t> grads,
                                                   absl::Span<const int64_t> original);

enum class SampleKernel : uint8_t {
  kLanczos1,
  kLanczos3,
  kLanczos5,
  kGaussian,
  kBox,
  kTriangle,
  kKeysCubic,
  kMitchellCubic
};

/// ScaleAndTranslate and its gradient.
struct SampleAttrs {
  SampleKernel kernel = SampleKernel::kLanczos3;
  bool antialias = true;

  /// Errors: kInvalidArgument in TensorFlow's words for a kernel that is not known.
  static absl::StatusOr<SampleAttrs> FromAttrs(const AttrMap& attrs);
};
/// Errors: kInvalidArgument in TensorFlow's words unless both have two elements, and the scale is
/// above 0.
absl::Status CheckSampleScale(const Tensor& scale, const Tensor& translation);

/// What pixels outside of an image are.
enum class FillMode : uint8_t { kConstant, kReflect, kWrap, kNearest };

/// ImageProjectiveTransformV2 and V3.
struct TransformAttrs {
  bool bilinear = false;
  FillMode fill_mode = FillMode::kConstant;

  /// Errors: kInvalidArgument in TensorFlow's words for names that are not known.
  static absl::StatusOr<TransformAttrs> FromAttrs(const AttrMap& attrs);
};
/// "in" is what is transformed. `output_shape` is the vector (rows, columns); null where it is not
/// known. Errors: kInvalidArgument in TensorFlow's words.
using TransformGeometry = ResizeGeometry;
absl::StatusOr<TransformGeometry> PrepareTransform(absl::Span<const int64_t> images,
                                                   absl::Span<const int64_t> transforms,
                                                   const Tensor* output_shape);

/// DrawBoundingBoxes; `colors` is null where boxes have none of their own. Errors: kInvalidArgument
/// in TensorFlow's words if images, boxes and colors do not fit.
absl::Status CheckDrawBoxes(absl::Span<const int64_t> images, absl::Span<const int64_t> boxes,
                            const Shape* colors);

}  // namespace formwork
