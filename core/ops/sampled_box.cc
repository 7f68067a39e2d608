#include "core/ops/sampled_box.h"

#include <limits>

#include "core/base/status.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<SampledBoxAttrs> SampledBoxAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      SampledBoxAttrs read,
      ReadAttrs<SampledBoxAttrs>(attrs, "aspect_ratio_range", &SampledBoxAttrs::aspect_ratio_range,
                                 "area_range", &SampledBoxAttrs::area_range, "max_attempts",
                                 &SampledBoxAttrs::max_attempts, "use_image_if_no_bounding_boxes",
                                 &SampledBoxAttrs::use_image_if_no_bounding_boxes));
  const std::vector<float>& ratio = read.aspect_ratio_range;
  const std::vector<float>& area = read.area_range;
  if (ratio.size() != 2) {
    return InvalidArgument("Aspect ratio range field must specify 2 dimensions");
  }
  if (!(ratio[0] > 0 && ratio[1] > 0)) {
    return InvalidArgument("Aspect ratio range must be non-negative: [", ratio[0], ", ", ratio[1],
                           "]");
  }
  if (area.size() != 2) return InvalidArgument("Area range field must specify 2 dimensions");
  if (!(area[0] > 0 && area[1] > 0)) {
    return InvalidArgument("Area range must be non-negative: [", area[0], ", ", area[1], "]");
  }
  if (!(area[0] <= 1 && area[1] <= 1)) {
    return InvalidArgument("Area range must be less then or equal to 1.0: [", area[0], ", ",
                           area[1], "]");
  }
  if (read.max_attempts <= 0 || read.max_attempts > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("Max attempts must be non-negative: ", read.max_attempts);
  }
  return read;
}

absl::Status CheckMinObjectCovered(float min_object_covered) {
  if (min_object_covered >= 0) return absl::OkStatus();
  return InvalidArgument("Min object covered must be non-negative: ", min_object_covered);
}

absl::Status CheckSampledBoxInputs(const Shape& image_size, const Shape& boxes) {
  if (image_size.rank() != 1) {
    return InvalidArgument("image_size must be 1-dimensional", image_size.ToString());
  }
  if (image_size.dim(0) != 3) {
    return InvalidArgument("image_size must contain 3 elements", image_size.ToString());
  }
  if (boxes.rank() != 3) {
    return InvalidArgument("input boxes must be 3-dimensional [batch, num_boxes, coords]: ",
                           boxes.ToString());
  }
  if (boxes.dim(2) != 4) {
    return InvalidArgument("bounding boxes must have shape [4] or [*, 4], got ", boxes.ToString());
  }
  return absl::OkStatus();
}

namespace {

absl::Status SampledBoxShape(InferenceContext& c) {
  c.set_output(0, Shape({3}));
  c.set_output(1, Shape({3}));
  c.set_output(2, Shape({1, 1, 4}));
  return absl::OkStatus();
}

}  // namespace

void RegisterSampledBoxOps(OpRegistry& registry) {
  registry.Add(
      "SampleDistortedBoundingBox(image_size: T, bounding_boxes: float) -> (begin: T, size: T, "
      "bboxes: float); T: {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0; "
      "min_object_covered: float = 0.10000000149011612; aspect_ratio_range: list(float) = [0.75, "
      "1.3300000429153442]; area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: "
      "int = 100; use_image_if_no_bounding_boxes: bool = false",
      {.shape_fn = SampledBoxShape, .effect = Effect::kRandom});
  registry.Add(
      "SampleDistortedBoundingBoxV2(image_size: T, bounding_boxes: float, min_object_covered: "
      "float) -> (begin: T, size: T, bboxes: float); T: {uint8, int8, int16, int32, int64}; seed: "
      "int = 0; seed2: int = 0; aspect_ratio_range: list(float) = [0.75, 1.3300000429153442]; "
      "area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: int = 100; "
      "use_image_if_no_bounding_boxes: bool = false",
      {.shape_fn = SampledBoxShape, .effect = Effect::kRandom});
  registry.Add(
      "StatelessSampleDistortedBoundingBox(image_size: T, bounding_boxes: float, "
      "min_object_covered: float, seed: Tseed) -> (begin: T, size: T, bboxes: float); T: {uint8, "
      "int8, int16, int32, int64}; Tseed: indextype; aspect_ratio_range: list(float) = [0.75, "
      "1.3300000429153442]; area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: "
      "int = 100; use_image_if_no_bounding_boxes: bool = false",
      {.shape_fn = SampledBoxShape});
}

}  // namespace formwork
