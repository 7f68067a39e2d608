#pragma once

// What ops on variables check of a variable's value, on any device. Errors are kInvalidArgument in
// TensorFlow's words.

#include "absl/status/status.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// ReadVariableOp: the value is of the op's dtype.
absl::Status CheckVariableRead(DType dtype, const Tensor& value);

/// AssignVariableOp with validate_shape: what is given has the value's shape.
absl::Status CheckVariableShape(const Shape& value, const Shape& given);

/// AssignAddVariableOp, AssignSubVariableOp: value and delta are alike.
absl::Status CheckVariableUpdate(const Tensor& value, const Tensor& delta);

/// ResourceScatter...: the value is of the updates' dtype.
absl::Status CheckVariableScatter(DType updates, const Tensor& value);

}  // namespace formwork
