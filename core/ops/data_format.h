#pragma once

// Dimensions, and what belongs to them, from one data format (NHWC) to another (NCHW): attrs, and
// what an input must be. Shape functions use it, for which dimensions may be unknown (-1), and
// kernels.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

struct DataFormatAttrs {
  std::string src;
  std::string dst;

  /// Errors: kInvalidArgument in TensorFlow's words if the formats have not 4 or 5 dimensions, or
  /// not the same.
  static absl::StatusOr<DataFormatAttrs> FromAttrs(const AttrMap& attrs);

  /// Where each dimension of src is in dst.
  Dims Map() const;
};

/// DataFormatVecPermute: where each entry of the result comes from, for values of so many rows: one
/// for each dimension, or for the spatial ones alone (H, W, and D of five). `x` has one dimension,
/// or a second one of 2. Errors: kInvalidArgument in TensorFlow's words.
absl::StatusOr<Dims> PrepareVecPermute(const DataFormatAttrs& attrs, absl::Span<const int64_t> x);

}  // namespace formwork
