#pragma once

// Boxes within an image that are drawn, for crops: attrs, and what the inputs may be, on every
// device. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

struct SampledBoxAttrs {
  std::vector<float> aspect_ratio_range;  ///< Width over height: the least and the most.
  std::vector<float> area_range;          ///< As parts of the image's area: the least and the most.
  int64_t max_attempts = 0;
  bool use_image_if_no_bounding_boxes = false;

  static absl::StatusOr<SampledBoxAttrs> FromAttrs(const AttrMap& attrs);
};

absl::Status CheckMinObjectCovered(float min_object_covered);
absl::Status CheckSampledBoxInputs(const Shape& image_size, const Shape& boxes);

}  // namespace formwork
