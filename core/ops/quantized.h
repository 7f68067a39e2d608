#pragma once

// Arithmetic with quantized values on every device: what their attrs say. Errors are
// kInvalidArgument or kUnimplemented in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/conv.h"
#include "core/tensor/shape.h"

namespace formwork {

// --- Quantized values of a range: QuantizedMatMul and its like -----------------------------------

/// QuantizedMaxPool and QuantizedAvgPool: as MaxPool's.
absl::StatusOr<SlidingAttrs> QuantizedPoolAttrs(const AttrMap& attrs);

/// QuantizedConv2D: as Conv2D's, but for what it does not support.
absl::StatusOr<SlidingAttrs> QuantizedConvAttrs(const AttrMap& attrs);

/// QuantizedBiasAdd.
absl::Status CheckQuantizedBias(absl::Span<const int64_t> input, absl::Span<const int64_t> bias);

// --- Quantized values by scales and zero points: UniformQuantize and its like --------------------

/// How one tensor is quantized.
struct UniformAttrs {
  int64_t axis = -1;  ///< Scales are of the values there; -1: of all.
  int64_t min = 0;
  int64_t max = 0;

  /// `prefix`: before the names of the attrs, "lhs_".
  static absl::StatusOr<UniformAttrs> FromAttrs(const AttrMap& attrs, absl::string_view prefix);
};

/// That the shapes of scales and zero points are what the axis of `input` says.
absl::Status CheckUniform(const UniformAttrs& attrs, absl::Span<const int64_t> input,
                          absl::Span<const int64_t> scales, absl::Span<const int64_t> zero_points);

}  // namespace formwork
