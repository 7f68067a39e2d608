#pragma once

// Tensors that hold shapes, axes and sizes.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernels/kernel.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The shape whose dimensions an int16, int32 or int64 vector lists (a scalar counts as a vector of
/// one). `what` names the input in errors.
/// Errors: kInvalidArgument if it is no vector, a dimension is negative or the product overflows.
absl::StatusOr<Shape> ShapeFromTensor(const Tensor& dims, absl::string_view what);

/// The one integer of a tensor of one element.
/// Errors: kInvalidArgument if it has another dtype or size.
absl::StatusOr<int64_t> IntegerFromTensor(const Tensor& tensor, absl::string_view what);

/// Output i: the integers as a vector of dtype int32 or int64.
absl::Status OutputIntegers(KernelContext& ctx, int i, DType dtype,
                            absl::Span<const int64_t> values);

/// `axis` counted from the front.
/// Errors: kInvalidArgument if it is not within [-rank, rank).
absl::StatusOr<int> CheckedAxis(int64_t axis, int rank, absl::string_view op);

}  // namespace formwork
