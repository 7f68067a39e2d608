#pragma once

// Ops that put elements in another order: attrs, and what the values of axes and shifts mean for a
// shape. Shape functions use it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct TransposeGeometry {
  Dims axes;  ///< Dimension d of the output is dimension axes[d] of the input.
  Dims output;
};

/// Errors: kInvalidArgument in TensorFlow's words if `perm` is no permutation of the dimensions.
absl::StatusOr<TransposeGeometry> PrepareTranspose(absl::Span<const int64_t> input,
                                                   const Tensor& perm);

/// For each dimension, whether ReverseV2 reverses it: none where there are no dimensions or
/// elements, or where that is not known, whatever the axes are.
using ReversedMask = absl::InlinedVector<bool, 8>;
/// Errors: kInvalidArgument in TensorFlow's words if an axis is out of range or given twice.
absl::StatusOr<ReversedMask> PrepareReverse(absl::Span<const int64_t> input, const Tensor& axes);

struct ReverseSequenceAttrs {
  int64_t seq_dim = 0;
  int64_t batch_dim = 0;

  static absl::StatusOr<ReverseSequenceAttrs> FromAttrs(const AttrMap& attrs);
};
/// Errors: kInvalidArgument in TensorFlow's words if the dimensions are out of range or the same,
/// or there are not as many lengths as the batch has entries.
absl::Status CheckReverseSequence(const ReverseSequenceAttrs& attrs,
                                  absl::Span<const int64_t> input,
                                  absl::Span<const int64_t> lengths);

/// Roll, of a shape that is known: how far each dimension is moved, at least 0 and less than its
/// size. Errors: kInvalidArgument in TensorFlow's words if shifts and axes do not fit.
absl::StatusOr<Dims> PrepareRoll(absl::Span<const int64_t> input, const Tensor& shift,
                                 const Tensor& axis);

}  // namespace formwork
