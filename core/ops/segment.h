#pragma once

// Sums and the like over segments, on every device: geometry from shapes. Shape functions use it,
// for which dimensions may be unknown (-1), and kernels, whose own checks are those of the ids.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Rows of `width` elements, one for each id.
struct SegmentGeometry {
  int64_t width;  ///< 0 where data is empty.
  Dims output;    ///< The first, the number of segments, is -1 where it is not known.
};

/// UnsortedSegmentSum and its like. `num_segments` is a scalar; null where it is not known.
/// Errors: kInvalidArgument in TensorFlow's words if it is none or negative, or data does not begin
/// with the dimensions of the ids.
absl::StatusOr<SegmentGeometry> PrepareUnsortedSegment(absl::Span<const int64_t> data,
                                                       absl::Span<const int64_t> ids,
                                                       const Tensor* num_segments);

/// SegmentSum, whose last id says how many segments there are. Errors: kInvalidArgument in
/// TensorFlow's words if the ids are no vector of as many as data has rows.
absl::StatusOr<SegmentGeometry> PrepareSegment(absl::Span<const int64_t> data,
                                               absl::Span<const int64_t> ids);

/// SparseSegmentSum and its like, whose segments are of rows that `indices` choose. `num_segments`
/// is null where it is not known, or the last id says it. Errors: kInvalidArgument in TensorFlow's
/// words.
absl::StatusOr<SegmentGeometry> PrepareSparseSegment(absl::Span<const int64_t> data,
                                                     absl::Span<const int64_t> indices,
                                                     absl::Span<const int64_t> ids,
                                                     const Tensor* num_segments);

/// Its gradient, as many rows as `dim0` says. Errors: as above.
absl::StatusOr<SegmentGeometry> PrepareSparseSegmentGrad(absl::Span<const int64_t> grad,
                                                         absl::Span<const int64_t> indices,
                                                         absl::Span<const int64_t> ids,
                                                         const Tensor* dim0);

}  // namespace formwork
