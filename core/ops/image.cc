#include "core/ops/image.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

struct Size {
  int64_t rows = -1;
  int64_t cols = -1;
};

absl::StatusOr<Size> SizeOf(const Tensor* tensor) {
  if (tensor == nullptr) return Size();
  if (tensor->rank() != 1) {
    return InvalidArgument("shape_t must be 1-dimensional", tensor->shape().ToString());
  }
  if (tensor->num_elements() != 2) {
    return InvalidArgument("shape_t must have two elements", tensor->shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims values, IntegersOf(*tensor, "size"));
  // No size that is known is unknown.
  return Size{std::max<int64_t>(values[0], 0), std::max<int64_t>(values[1], 0)};
}

}  // namespace

absl::StatusOr<ResizeAttrs> ResizeAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const ResizeAttrs read,
      ReadAttrs<ResizeAttrs>(attrs, "align_corners", &ResizeAttrs::align_corners,
                             "half_pixel_centers", &ResizeAttrs::half_pixel_centers));
  if (read.align_corners && read.half_pixel_centers) {
    return InvalidArgument("If half_pixel_centers is True, align_corners must be False.");
  }
  return read;
}

absl::StatusOr<ResizeGeometry> PrepareResize(absl::Span<const int64_t> images, const Tensor* size) {
  if (images.size() != 4) {
    return InvalidArgument("input must be 4-dimensional", DimsText(images));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Size out, SizeOf(size));
  if (out.rows == 0 || out.cols == 0) {
    return InvalidArgument("output dimensions must be positive");
  }
  if (images[3] == 0) return InvalidArgument("image must have at least one channel");
  if (images[1] == 0 || images[2] == 0) {
    return InvalidArgument("input image must be of non-zero size");
  }
  return ResizeGeometry{images[0], images[1], images[2], out.rows, out.cols, images[3]};
}

absl::StatusOr<ResizeGeometry> PrepareNearestGrad(absl::Span<const int64_t> grads,
                                                  const Tensor* size) {
  if (grads.size() != 4) return InvalidArgument("input must be 4-dimensional", DimsText(grads));
  FORMWORK_ASSIGN_OR_RETURN(const Size in, SizeOf(size));
  if (in.rows == 0 || in.cols == 0) {
    return InvalidArgument("shape_t's elements must be positive");
  }
  return ResizeGeometry{grads[0], in.rows, in.cols, grads[1], grads[2], grads[3]};
}

absl::StatusOr<ResizeGeometry> PrepareBilinearGrad(absl::Span<const int64_t> grads,
                                                   absl::Span<const int64_t> original) {
  if (grads.size() != 4) {
    return InvalidArgument("input_grad must be 4-dimensional", DimsText(grads));
  }
  if (original.size() != 4) {
    return InvalidArgument("original_image must be 4-dimensional", DimsText(original));
  }
  if (grads[1] == 0 || grads[2] == 0) {
    return InvalidArgument("resized dimensions must be positive");
  }
  if (original[1] == 0 || original[2] == 0) {
    return InvalidArgument("original dimensions must be positive");
  }
  return ResizeGeometry{grads[0], original[1], original[2], grads[1], grads[2], grads[3]};
}

namespace {

absl::Status InferResize(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(ResizeAttrs::FromAttrs(c.attrs()).status());
  const PartialShape images = shapes::OrOfRank(c.input(0), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareResize(images.dims(), c.constant(1)));
  return array_shapes::SetOutput(c, 0, geometry.resized());
}

absl::Status InferNearestGradient(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(ResizeAttrs::FromAttrs(c.attrs()).status());
  const PartialShape grads = shapes::OrOfRank(c.input(0), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareNearestGrad(grads.dims(), c.constant(1)));
  return array_shapes::SetOutput(c, 0, geometry.original());
}

absl::Status InferBilinearGradient(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(ResizeAttrs::FromAttrs(c.attrs()).status());
  const PartialShape grads = shapes::OrOfRank(c.input(0), 4);
  const PartialShape original = shapes::OrOfRank(c.input(1), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareBilinearGrad(grads.dims(), original.dims()));
  return array_shapes::SetOutput(c, 0, geometry.original());
}

}  // namespace

void RegisterImageOps(OpRegistry& registry) {
  registry.Add(
      "ResizeBilinear(images: T, size: host int32) -> (resized_images: float); T: {floattype, "
      "int8, uint8, int16, uint16, int32, int64, bfloat16}; align_corners: bool = false; "
      "half_pixel_centers: bool = false",
      {.shape_fn = InferResize, .sized_by_value = true});
  registry.Add(
      "ResizeBilinearGrad(grads: float, original_image: T) -> (output: T); T: floattype; "
      "align_corners: bool = false; half_pixel_centers: bool = false",
      {.shape_fn = InferBilinearGradient});
  registry.Add(
      "ResizeNearestNeighbor(images: T, size: host int32) -> (resized_images: T); T: {floattype, "
      "int8, uint8, int16, uint16, int32, int64}; align_corners: bool = false; half_pixel_centers: "
      "bool = false",
      {.shape_fn = InferResize, .sized_by_value = true});
  registry.Add(
      "ResizeNearestNeighborGrad(grads: T, size: host int32) -> (output: T); T: {floattype, uint8, "
      "int8, int32}; align_corners: bool = false; half_pixel_centers: bool = false",
      {.shape_fn = InferNearestGradient, .sized_by_value = true});
}

}  // namespace formwork
