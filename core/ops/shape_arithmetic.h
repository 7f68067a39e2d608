#pragma once

// Ops that compute with shapes that vectors list: what they answer. Shape functions use it where
// the vectors are constant, and kernels.

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// BroadcastArgs: what two shapes broadcast to. Errors: kInvalidArgument in TensorFlow's words if
/// one is no vector or they do not.
absl::StatusOr<Dims> PrepareBroadcastArgs(const Tensor& s0, const Tensor& s1);

/// BroadcastGradientArgs: the axes that a gradient is summed over to take the shape of each operand
/// of a broadcast.
struct BroadcastAxes {
  Dims r0;
  Dims r1;
};
/// Errors: as above.
absl::StatusOr<BroadcastAxes> PrepareBroadcastGradientArgs(const Tensor& s0, const Tensor& s1);

/// ConcatOffset: where each of `n` values begins in their concatenation; `shape(i)` lists the
/// dimensions of value i. Errors: kInvalidArgument in TensorFlow's words if the axis is no scalar
/// or out of range, shapes are no vectors or differ elsewhere, or an offset overflows.
absl::StatusOr<std::vector<Dims>> PrepareConcatOffset(
    const Tensor& concat_dim, int n, absl::FunctionRef<const Tensor&(int i)> shape);

}  // namespace formwork
