#pragma once

// Putting tensors together and taking them apart along an axis; shared by the array and list
// families.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/ops/join.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// tf.stack: tensors of one dtype and shape along a new axis, which counts from the back of the
/// result where negative. One tensor is shared, not copied.
/// Errors: kInvalidArgument if there is none, shapes or dtypes differ, or the axis is out of range.
absl::StatusOr<Tensor> StackTensors(Allocator& allocator, absl::Span<const Tensor* const> tensors,
                                    int64_t axis);

/// tf.unstack: as many tensors as `value` has entries along `axis`.
/// Errors: kInvalidArgument if the axis is out of range.
absl::StatusOr<std::vector<Tensor>> UnstackTensor(Allocator& allocator, const Tensor& value,
                                                  int axis);

/// tf.concat: tensors of one dtype, of equal shapes but for the axis.
/// Errors: kInvalidArgument if there is none, shapes or dtypes differ, or the axis is out of range.
absl::StatusOr<Tensor> ConcatTensors(Allocator& allocator, absl::Span<const Tensor> tensors,
                                     int64_t axis);
/// The same of tensors that fit as `geometry` says.
absl::StatusOr<Tensor> ConcatTensors(Allocator& allocator, absl::Span<const Tensor* const> tensors,
                                     const JoinGeometry& geometry);

/// value[..., begin : begin + size, ...] along `axis`, which the caller has checked; shared where
/// it is all of `value`.
absl::StatusOr<Tensor> SliceAlong(Allocator& allocator, const Tensor& value, int axis,
                                  int64_t begin, int64_t size);

/// Zeros as TensorFlow's ZerosLike: "" for strings; of a variant TensorList, a list of zeros of the
/// items (unset items stay unset); of a ragged tensor, zeros for its values.
/// Errors: kInvalidArgument for a variant that has no zeros.
absl::StatusOr<Tensor> ZerosLike(Allocator& allocator, const Tensor& value);

/// A tensor of zeros (empty strings, null variants).
absl::StatusOr<Tensor> ZeroTensor(Allocator& allocator, DType dtype, const Shape& shape);

}  // namespace formwork
