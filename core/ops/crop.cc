#include "core/ops/crop.h"

#include <string>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::Status CheckBoxes(absl::Span<const int64_t> boxes, absl::Span<const int64_t> box_index) {
  if (boxes.size() != 2) return InvalidArgument("boxes must be 2-D, got: ", DimsText(boxes));
  if (!MayBeEqual(boxes[1], 4)) return InvalidArgument("boxes must have 4 columns");
  if (box_index.size() != 1) {
    return InvalidArgument("box_index must be 1-D, got: ", DimsText(box_index));
  }
  if (!MayBeEqual(box_index[0], boxes[0])) {
    return InvalidArgument("box_index has incompatible shape");
  }
  return absl::OkStatus();
}

absl::Status CheckGrads(absl::Span<const int64_t> grads, absl::Span<const int64_t> boxes,
                        absl::Span<const int64_t> box_index) {
  if (grads.size() != 4) return InvalidArgument("grads image must be 4-D", DimsText(grads));
  if (grads[1] == 0 || grads[2] == 0) {
    return InvalidArgument("grads dimensions must be positive");
  }
  FORMWORK_RETURN_IF_ERROR(CheckBoxes(boxes, box_index));
  if (!MayBeEqual(boxes[0], grads[0])) {
    return InvalidArgument("boxes and grads have incompatible shape");
  }
  return absl::OkStatus();
}

// A vector of as many integers, in TensorFlow's words.
absl::StatusOr<Dims> SizesOf(const Tensor& tensor, absl::string_view what, int64_t length,
                             absl::string_view length_text) {
  if (tensor.rank() != 1) return InvalidArgument(what, " must be 1-D", tensor.shape().ToString());
  if (tensor.num_elements() != length) {
    return InvalidArgument(what, " must have ", length_text, " elements",
                           tensor.shape().ToString());
  }
  return IntegersOf(tensor, what);
}

}  // namespace

absl::StatusOr<CropAttrs> CropAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string method, attrs.Get<std::string>("method"));
  return CropAttrs{method == "nearest"};
}

absl::StatusOr<CropGeometry> PrepareCrop(absl::Span<const int64_t> images,
                                         absl::Span<const int64_t> boxes,
                                         absl::Span<const int64_t> box_index,
                                         const Tensor* crop_size) {
  if (images.size() != 4) return InvalidArgument("input image must be 4-D", DimsText(images));
  if (images[1] == 0 || images[2] == 0) {
    return InvalidArgument("image dimensions must be positive");
  }
  FORMWORK_RETURN_IF_ERROR(CheckBoxes(boxes, box_index));
  CropGeometry s = {images[0], images[1], images[2], images[3], boxes[0], -1, -1};
  if (crop_size == nullptr) return s;
  FORMWORK_ASSIGN_OR_RETURN(const Dims size, SizesOf(*crop_size, "crop_size", 2, "two"));
  if (size[0] <= 0 || size[1] <= 0) {
    return InvalidArgument("crop dimensions must be positive");
  }
  s.crop_rows = size[0];
  s.crop_cols = size[1];
  return s;
}

absl::StatusOr<CropGeometry> PrepareCropGradImage(absl::Span<const int64_t> grads,
                                                  absl::Span<const int64_t> boxes,
                                                  absl::Span<const int64_t> box_index,
                                                  const Tensor* image_size) {
  FORMWORK_RETURN_IF_ERROR(CheckGrads(grads, boxes, box_index));
  CropGeometry s = {-1, -1, -1, grads[3], grads[0], grads[1], grads[2]};
  if (image_size == nullptr) return s;
  FORMWORK_ASSIGN_OR_RETURN(const Dims size, SizesOf(*image_size, "image_size", 4, "4"));
  if (size[1] <= 0 || size[2] <= 0) {
    return InvalidArgument("image dimensions must be positive");
  }
  if (size[0] < 0) return InvalidArgument("Expected a non-negative size, got ", size[0]);
  // No size that is known is unknown.
  if (size[3] < 0 || !MayBeEqual(size[3], grads[3])) {
    return InvalidArgument("image_size and grads are incompatible");
  }
  s.batch = size[0];
  s.rows = size[1];
  s.cols = size[2];
  s.channels = size[3];
  return s;
}

absl::StatusOr<CropGeometry> PrepareCropGradBoxes(absl::Span<const int64_t> grads,
                                                  absl::Span<const int64_t> images,
                                                  absl::Span<const int64_t> boxes,
                                                  absl::Span<const int64_t> box_index) {
  FORMWORK_RETURN_IF_ERROR(CheckGrads(grads, boxes, box_index));
  if (images.size() != 4) return InvalidArgument("input image must be 4-D", DimsText(images));
  if (images[1] == 0 || images[2] == 0) {
    return InvalidArgument("image dimensions must be positive");
  }
  if (!MayBeEqual(images[3], grads[3])) {
    return InvalidArgument("image, grads depth differ");
  }
  return CropGeometry{images[0], images[1], images[2], images[3], grads[0], grads[1], grads[2]};
}

namespace {

absl::Status InferCrop(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(
      const CropGeometry s,
      PrepareCrop(shapes::OrOfRank(c.input(0), 4).dims(), shapes::OrOfRank(c.input(1), 2).dims(),
                  shapes::OrOfRank(c.input(2), 1).dims(), c.constant(3)));
  return array_shapes::SetOutput(c, 0, s.crops());
}

absl::Status InferGradImage(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(
      const CropGeometry s,
      PrepareCropGradImage(shapes::OrOfRank(c.input(0), 4).dims(),
                           shapes::OrOfRank(c.input(1), 2).dims(),
                           shapes::OrOfRank(c.input(2), 1).dims(), c.constant(3)));
  return array_shapes::SetOutput(c, 0, s.images());
}

absl::Status InferGradBoxes(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const CropGeometry s,
                            PrepareCropGradBoxes(shapes::OrOfRank(c.input(0), 4).dims(),
                                                 shapes::OrOfRank(c.input(1), 4).dims(),
                                                 shapes::OrOfRank(c.input(2), 2).dims(),
                                                 shapes::OrOfRank(c.input(3), 1).dims()));
  return array_shapes::SetOutput(c, 0, {s.boxes, 4});
}

}  // namespace

void RegisterCropOps(OpRegistry& registry) {
  registry.Add(
      "CropAndResize(image: T, boxes: float, box_ind: int32, crop_size: host int32) -> (crops: "
      "float); T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: "
      "{\"bilinear\", \"nearest\"} = \"bilinear\"; extrapolation_value: float = 0.0",
      {.shape_fn = InferCrop, .sized_by_value = true});
  registry.Add(
      "CropAndResizeGradImage(grads: float, boxes: float, box_ind: int32, image_size: host int32) "
      "-> (output: T); T: {float, half, double}; method: {\"bilinear\", \"nearest\"} = "
      "\"bilinear\"",
      {.shape_fn = InferGradImage, .sized_by_value = true});
  registry.Add(
      "CropAndResizeGradBoxes(grads: float, image: T, boxes: float, box_ind: int32) -> (output: "
      "float); T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: "
      "{\"bilinear\"} = \"bilinear\"",
      {.shape_fn = InferGradBoxes});
}

}  // namespace formwork
