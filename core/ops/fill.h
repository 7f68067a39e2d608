#pragma once

// Ops whose output is larger than what they are given: its dimensions. Shape functions use it, for
// which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct TileGeometry {
  Dims times;  ///< For each dimension.
  Dims output;
};
/// Errors: kInvalidArgument in TensorFlow's words if there is not a multiple for each dimension, or
/// one is negative.
absl::StatusOr<TileGeometry> PrepareTile(absl::Span<const int64_t> input, const Tensor& multiples);

/// BroadcastTo. Errors: kInvalidArgument in TensorFlow's words if the input does not broadcast to
/// `shape`.
absl::StatusOr<Shape> PrepareBroadcastTo(absl::Span<const int64_t> input, const Tensor& shape);

/// Range: the number of elements; the inputs are of one dtype. Errors: kInvalidArgument in
/// TensorFlow's words if one has not one element or the limit cannot be reached; kUnimplemented for
/// dtypes that are no real numbers.
absl::StatusOr<int64_t> PrepareRange(const Tensor& start, const Tensor& limit, const Tensor& delta);

/// LinSpace: the number of elements, -1 where `num` is null: not known. Errors: kInvalidArgument in
/// TensorFlow's words if an input is no scalar or there are no elements.
absl::StatusOr<int64_t> PrepareLinSpace(absl::Span<const int64_t> start,
                                        absl::Span<const int64_t> stop, const Tensor* num);

}  // namespace formwork
