#pragma once

// Copies between a tensor and a strided slice of another; shared by the array and variable
// families.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/strided_slice.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// target[slice] = value; `value` has the slice's shape or broadcasts to it. `target` must be held
/// by nobody else (Tensor::unique) and is untouched after an error.
/// Errors: kInvalidArgument if dtypes or shapes do not fit.
absl::Status AssignSlice(Tensor& target, const SliceBounds& bounds, const Tensor& value);

}  // namespace formwork
