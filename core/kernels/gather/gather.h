#pragma once

// Reading and writing by index, shared by the gather family and the variables' gathers and
// scatters. Every index is checked before anything is written.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/ops/gather.h"
#include "core/ops/scatter.h"
#include "core/tensor/tensor.h"

namespace formwork {

enum class ScatterOp : uint8_t { kUpdate, kAdd, kSub, kMul, kDiv, kMin, kMax };

/// Slices of `params` picked by `indices` (int16, int32, int64 of any shape), which fit as
/// `geometry` says.
/// Errors: kInvalidArgument if an index is out of range.
absl::StatusOr<Tensor> Gather(Allocator& allocator, const GatherGeometry& geometry,
                              const Tensor& params, const Tensor& indices);

/// tf.gather_nd: the last dimension of `indices` indexes into the first dimensions of `params`.
/// Slices of bad indices that are ignored are zeros.
/// Errors: kInvalidArgument if an index is out of range or deeper than params' rank.
absl::StatusOr<Tensor> GatherNd(Allocator& allocator, const Tensor& params, const Tensor& indices,
                                const BadIndices& bad);

/// target[indices[i], ...] op= updates[i, ...] for all i, in order where an index occurs twice.
/// `updates` has the shape indices.shape + target.shape[1:], or is a scalar for all. `target` must
/// be held by nobody else (Tensor::unique) and is untouched after an error.
/// Errors: kInvalidArgument if shapes or dtypes do not fit or an index is out of range;
/// kUnimplemented if the dtype knows no such arithmetic (kUpdate takes every dtype).
absl::Status ScatterRows(ScatterOp op, Tensor& target, const Tensor& indices,
                         const Tensor& updates);

/// The same with indices of depth indices.shape[-1] into the first dimensions of `target`;
/// updates.shape is indices.shape[:-1] + target.shape[depth:]. Bad indices that are ignored write
/// nothing.
absl::Status ScatterNd(ScatterOp op, Tensor& target, const Tensor& indices, const Tensor& updates,
                       const BadIndices& bad);

}  // namespace formwork
