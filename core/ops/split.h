#pragma once

// Where Split, SplitV and Unpack cut a value; shared by shape functions, for which dimensions may
// be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Parts of one size along an axis.
struct EqualParts {
  int axis;
  int64_t size;
};

/// Split: a value of `dims` in `parts`. Errors: kInvalidArgument in TensorFlow's words where
/// `split_dim` is no scalar or out of range, or the dimension is no multiple of `parts`.
absl::StatusOr<EqualParts> PrepareSplit(absl::Span<const int64_t> dims, const Tensor& split_dim,
                                        int parts);

/// Parts of sizes of their own along an axis.
struct SizedParts {
  int axis;
  Dims sizes;
};

/// SplitV: the size of which `sizes` says -1 is what the others leave. `sizes` may be null where it
/// is unknown. Errors: kInvalidArgument in TensorFlow's words where `split_dim` is no scalar or out
/// of range, or there are not as many sizes as parts, or they do not make up the dimension.
absl::StatusOr<SizedParts> PrepareSplitV(absl::Span<const int64_t> dims, const Tensor* sizes,
                                         const Tensor& split_dim, int parts);

struct UnpackAttrs {
  int64_t axis = 0;

  static absl::StatusOr<UnpackAttrs> FromAttrs(const AttrMap& attrs);
};

struct UnpackGeometry {
  int axis;
  Dims output;  ///< Of each part: without the axis.
};

/// Unpack: a value of `dims` in as many parts as its axis is long. Errors: kInvalidArgument in
/// TensorFlow's words where the axis is out of range or not as long as there are `parts`.
absl::StatusOr<UnpackGeometry> PrepareUnpack(const UnpackAttrs& attrs,
                                             absl::Span<const int64_t> dims, int parts);

}  // namespace formwork
