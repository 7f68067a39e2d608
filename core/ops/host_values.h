#pragma once

// What the values of inputs say that hold sizes, axes and shapes.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The shape whose dimensions an int16, int32 or int64 vector lists (a scalar counts as a vector of
/// one). `what` names the input in errors.
/// Errors: kInvalidArgument if it is no vector, a dimension is negative or the product overflows.
absl::StatusOr<Shape> ShapeFromTensor(const Tensor& dims, absl::string_view what);

/// The one integer of a tensor of one element.
/// Errors: kInvalidArgument if it has another dtype or size.
absl::StatusOr<int64_t> IntegerFromTensor(const Tensor& tensor, absl::string_view what);

}  // namespace formwork
