#pragma once

// Fake quantization on every device: attrs, and what ranges become. Errors are kInvalidArgument in
// TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

struct FakeQuantAttrs {
  float quant_min = 0;
  float quant_max = 255;

  static absl::StatusOr<FakeQuantAttrs> FromAttrs(const AttrMap& attrs);
};

/// A range moved so that 0 is one of its steps.
struct NudgedRange {
  float min;
  float max;
  float scale;
};
NudgedRange Nudge(const FakeQuantAttrs& attrs, float min, float max);

/// FakeQuantWithMinMaxArgs, whose range is an attr.
absl::StatusOr<NudgedRange> NudgedRangeOf(const AttrMap& attrs);

/// FakeQuantWithMinMaxVars: both are scalars. ...PerChannel: vectors, as long as the last dimension
/// of `inputs`.
absl::Status CheckFakeQuantRange(bool per_channel, absl::Span<const int64_t> inputs,
                                 absl::Span<const int64_t> min, absl::Span<const int64_t> max);

}  // namespace formwork
