#pragma once

// Local response normalisation on every device: attrs. Errors are kInvalidArgument in TensorFlow's
// words.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"

namespace formwork {

struct LrnAttrs {
  int64_t depth_radius = 5;  ///< Near int32's end TensorFlow's sums of it overflow.
  float bias = 1;
  float alpha = 1;
  float beta = 0.5f;

  static absl::StatusOr<LrnAttrs> FromAttrs(const AttrMap& attrs);
};

absl::Status CheckLrn(absl::Span<const int64_t> input);
absl::Status CheckLrnGrad(absl::Span<const int64_t> input_grads,
                          absl::Span<const int64_t> input_image,
                          absl::Span<const int64_t> output_image);

}  // namespace formwork
