#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

/// [batch, size[0], size[1], channels] of input 0 and the vector of two in input 1.
absl::Status InferResize(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape image, shapes::WithRank(c.input(0), 4, "input"));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape size, shapes::ShapeFromInput(c, 1));
  const bool known = size.known_rank() && size.rank() == 2;
  image.set_dim(1, known ? size.dim(0) : -1);
  image.set_dim(2, known ? size.dim(1) : -1);
  c.set_output(0, image);
  return absl::OkStatus();
}

absl::Status InferBilinearGradient(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape original,
                            shapes::WithRank(c.input(1), 4, "original_image"));
  c.set_output(0, original);
  return absl::OkStatus();
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
      {.shape_fn = InferResize, .sized_by_value = true});
}

}  // namespace formwork
