#pragma once

// Crops of images, resized, on every device. Shape functions use it, for which dimensions may be
// unknown (-1), and kernels. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/op_def.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct CropAttrs {
  bool nearest = false;  ///< Else bilinear.

  static absl::StatusOr<CropAttrs> FromAttrs(const AttrMap& attrs);
};

struct CropGeometry {
  int64_t batch;
  int64_t rows;
  int64_t cols;
  int64_t channels;
  int64_t boxes;
  int64_t crop_rows;
  int64_t crop_cols;

  Dims images() const { return {batch, rows, cols, channels}; }
  Dims crops() const { return {boxes, crop_rows, crop_cols, channels}; }
};

/// CropAndResize: images [batch, rows, cols, channels], boxes [n, 4], and of each the index of its
/// image, [n]. `crop_size` is the vector (rows, columns); null where it is not known.
absl::StatusOr<CropGeometry> PrepareCrop(absl::Span<const int64_t> images,
                                         absl::Span<const int64_t> boxes,
                                         absl::Span<const int64_t> box_index,
                                         const Tensor* crop_size);
/// CropAndResizeGradImage: gradients of the crops. `image_size` is the images' shape; null where it
/// is not known.
absl::StatusOr<CropGeometry> PrepareCropGradImage(absl::Span<const int64_t> grads,
                                                  absl::Span<const int64_t> boxes,
                                                  absl::Span<const int64_t> box_index,
                                                  const Tensor* image_size);
/// CropAndResizeGradBoxes.
absl::StatusOr<CropGeometry> PrepareCropGradBoxes(absl::Span<const int64_t> grads,
                                                  absl::Span<const int64_t> images,
                                                  absl::Span<const int64_t> boxes,
                                                  absl::Span<const int64_t> box_index);

/// Part of the family image.
void RegisterCropOps(OpRegistry& registry);

}  // namespace formwork
