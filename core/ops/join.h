#pragma once

// Where Pack and ConcatV2 put values together; shared by shape functions, for which dimensions may
// be unknown (-1), and kernels.

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The dimensions of value i.
using DimsOfValue = absl::FunctionRef<absl::Span<const int64_t>(int i)>;

struct PackAttrs {
  int64_t axis = 0;  ///< From the end of the output's dimensions where negative.

  static absl::StatusOr<PackAttrs> FromAttrs(const AttrMap& attrs);
};

struct JoinGeometry {
  int axis;
  Dims output;
};

/// `n` values of one shape along a new axis. Errors: kInvalidArgument in TensorFlow's words if
/// shapes differ or the axis is out of range.
absl::StatusOr<JoinGeometry> PreparePack(const PackAttrs& attrs, int n, DimsOfValue dims);

/// `n` values along an axis that they have, from the end where negative. Errors: kInvalidArgument
/// in TensorFlow's words if other dimensions differ or the axis is out of range.
absl::StatusOr<JoinGeometry> PrepareConcat(int n, DimsOfValue dims, int64_t axis);
/// ConcatV2, whose axis has one element. Errors: as above.
absl::StatusOr<JoinGeometry> PrepareConcat(int n, DimsOfValue dims, const Tensor& axis);

/// ParallelConcat: `n` rows to the value whose shape is the attr. Errors: kInvalidArgument if the
/// attr is not fully known or is not that of `n` rows, or a value is not a row of it.
absl::StatusOr<Shape> PrepareParallelConcat(const PartialShape& shape, int n, DimsOfValue dims);

}  // namespace formwork
