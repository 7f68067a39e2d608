#pragma once

// What tf.strided_slice's masks, begins, ends and strides, and tf.slice's begins and sizes, mean
// for a given shape; shared by shape functions and kernels.

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// Bit i of a mask speaks of entry i of begin, end and strides.
struct SliceMasks {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t ellipsis = 0;
  int64_t new_axis = 0;
  int64_t shrink_axis = 0;

  static absl::StatusOr<SliceMasks> FromAttrs(const AttrMap& attrs);
};

/// Entries begin, begin + stride, ... (size of them) of one dimension of the input. `size` is -1
/// where it is unknown.
struct SliceDim {
  int64_t begin;
  int64_t stride;
  int64_t size;
};

struct SliceBounds {
  absl::InlinedVector<SliceDim, 6> dims;  ///< One per dimension of the input.
  Dims output;                            ///< After new axes are put in and shrunk ones left out.
  bool whole = true;                      ///< All elements of the input, in order.
};

/// `begin` and `end` may be null where they are unknown; `input` has a known rank.
/// Errors: kInvalidArgument if the specification does not fit the shape, in TensorFlow's words.
absl::Status ResolveStridedSlice(const SliceMasks& masks, const Dims* begin, const Dims* end,
                                 const Dims& strides, absl::Span<const int64_t> input,
                                 SliceBounds& bounds);

/// Slice: `begin` and `size` (-1: all that follows) may be null where they are unknown; dimensions
/// of `input` may be -1. A begin that is unknown is -1 in `bounds`.
/// Errors: kInvalidArgument in TensorFlow's words if they do not fit the shape.
absl::Status ResolveSlice(const Dims* begin, const Dims* size, absl::Span<const int64_t> input,
                          SliceBounds& bounds);

}  // namespace formwork
