#pragma once

// Quantization on every device: what its attrs and the shapes of its ranges say. Errors are
// kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// QuantizeAndDequantize and its versions: values rounded to the steps of integers.
struct RoundTripAttrs {
  bool signed_input = true;
  bool range_given = false;
  bool narrow_range = false;
  bool half_up = false;  ///< Else halves become even.
  int64_t num_bits = 8;
  int64_t axis = -1;  ///< Ranges are of the values there; below 0: of all values.

  static absl::StatusOr<RoundTripAttrs> FromAttrs(const AttrMap& attrs);
};
absl::Status CheckRoundTripBits(bool signed_input, int64_t num_bits);

enum class QuantizeMode : uint8_t { kMinCombined, kMinFirst, kScaled };

/// QuantizeV2 and Dequantize.
struct QuantizeAttrs {
  QuantizeMode mode = QuantizeMode::kMinCombined;
  bool half_to_even = false;
  bool narrow_range = false;
  int64_t axis = -1;
  float ensure_minimum_range = 0.01f;

  static absl::StatusOr<QuantizeAttrs> FromAttrs(const AttrMap& attrs);
};

/// A value as [outer, channels, inner] by its `axis`: of an axis below 0, all one channel.
struct ChannelGeometry {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};
/// Of a shape that is known. Errors: the axis is none of the input's; `min` or `max` has not one
/// element for each channel.
absl::StatusOr<ChannelGeometry> PrepareChannels(int64_t axis, absl::Span<const int64_t> input,
                                                absl::Span<const int64_t> min,
                                                absl::Span<const int64_t> max);

}  // namespace formwork
