#pragma once

// What lists of tensors are on every device: attrs, and the meaning of inputs that give shapes.

#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The element shape that a tensor gives: -1 for an unknown rank, else a vector. Errors:
/// kInvalidArgument in TensorFlow's words if it is neither.
absl::StatusOr<PartialShape> ListShapeFrom(const Tensor& tensor);

/// What two shapes of elements say together. Errors: kInvalidArgument in TensorFlow's words if they
/// contradict each other.
absl::StatusOr<PartialShape> MergeListShapes(const PartialShape& a, const PartialShape& b);

}  // namespace formwork
