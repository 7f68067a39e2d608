#pragma once

// What gathers and searches are on every device: attrs, and geometry from shapes. Shape
// functions use it, for which dimensions may be unknown (-1), and kernels, whose own checks are
// those of the indices' values. Counts of elements are -1 where dimensions are unknown.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

// --- GatherV2, Gather, ResourceGather -----------------------------------------------------------

struct GatherAttrs {
  int64_t batch_dims = 0;  ///< From the end of the indices' dimensions where negative.

  static absl::StatusOr<GatherAttrs> FromAttrs(const AttrMap& attrs);
};

/// Params as [batch, outer, dim, inner], indices as [batch, count], the result as
/// [batch, outer, count, inner].
struct GatherGeometry {
  int64_t batch;
  int64_t outer;
  int64_t dim;
  int64_t inner;
  int64_t count;
  Dims output;
};

/// `axis` counts from the back where negative. Errors: kInvalidArgument in TensorFlow's words if
/// the axis or batch_dims is out of range or the batch dimensions differ.
absl::StatusOr<GatherGeometry> PrepareGather(const GatherAttrs& attrs,
                                             absl::Span<const int64_t> params,
                                             absl::Span<const int64_t> indices, int64_t axis);
/// GatherV2, whose axis is a scalar. Errors: as above.
absl::StatusOr<GatherGeometry> PrepareGather(const GatherAttrs& attrs,
                                             absl::Span<const int64_t> params,
                                             absl::Span<const int64_t> indices, const Tensor& axis);
/// Gather and ResourceGather, whose axis is the first after the batch. Errors: as above.
absl::StatusOr<GatherGeometry> PrepareGatherRows(const GatherAttrs& attrs,
                                                 absl::Span<const int64_t> params,
                                                 absl::Span<const int64_t> indices);

// --- GatherNd -----------------------------------------------------------------------------------

/// `rows` slices of `inner` elements, each found by `depth` indices.
struct GatherNdGeometry {
  int64_t depth;
  int64_t rows;
  int64_t inner;
  Dims output;
};

/// The last dimension of the indices must be known. Errors: kInvalidArgument in TensorFlow's words
/// if it is more than the rank of params, or there is nothing to gather from.
absl::StatusOr<GatherNdGeometry> PrepareGatherNd(absl::Span<const int64_t> params,
                                                 absl::Span<const int64_t> indices);

// --- OneHot -------------------------------------------------------------------------------------

struct OneHotAttrs {
  int64_t axis = -1;

  static absl::StatusOr<OneHotAttrs> FromAttrs(const AttrMap& attrs);
};

struct OneHotGeometry {
  int64_t depth;   ///< -1 where it is not known.
  int64_t suffix;  ///< Elements of the indices for one entry of the dimensions before the axis.
  Dims output;
};

/// `depth` is null where its value is not known. Errors: kInvalidArgument in TensorFlow's words if
/// the axis is out of range or the depth negative, or one of the other inputs is no scalar.
absl::StatusOr<OneHotGeometry> PrepareOneHot(const OneHotAttrs& attrs,
                                             absl::Span<const int64_t> indices, const Tensor* depth,
                                             absl::Span<const int64_t> on,
                                             absl::Span<const int64_t> off);

// --- DynamicStitch, DynamicPartition ------------------------------------------------------------

/// Input i of DynamicStitch beside the first one: what follows the dimensions of the indices must
/// be the same. Errors: kInvalidArgument in TensorFlow's words.
absl::Status CheckStitched(int i, absl::Span<const int64_t> first_indices,
                           absl::Span<const int64_t> first_data, absl::Span<const int64_t> indices,
                           absl::Span<const int64_t> data);

/// The output's dimensions: of them the first, the number of rows, is unknown. Errors:
/// kInvalidArgument in TensorFlow's words if data does not begin with the dimensions of partitions.
absl::StatusOr<Dims> PrepareDynamicPartition(absl::Span<const int64_t> data,
                                             absl::Span<const int64_t> partitions);

// --- Where, Unique, UniqueWithCounts, ListDiff --------------------------------------------------

/// Where: the output's dimensions, of which the number of rows is unknown. Errors: kInvalidArgument
/// in TensorFlow's words for a scalar.
absl::StatusOr<Dims> PrepareWhere(absl::Span<const int64_t> input);

/// Errors: kInvalidArgument in TensorFlow's words if they are no vectors.
absl::Status CheckUnique(absl::Span<const int64_t> x);
/// UniqueV2: the axis along which slices are compared, the only one where none is given. Errors:
/// kInvalidArgument in TensorFlow's words if there is no such axis.
absl::StatusOr<int> PrepareUniqueAxis(absl::Span<const int64_t> input, const Tensor& axis);
absl::Status CheckListDiff(absl::Span<const int64_t> x, absl::Span<const int64_t> y);

// --- Bucketize, LowerBound, UpperBound, UnravelIndex --------------------------------------------

struct BucketizeAttrs {
  std::vector<float> boundaries;  ///< Sorted.

  /// Errors: kInvalidArgument if they are not sorted.
  static absl::StatusOr<BucketizeAttrs> FromAttrs(const AttrMap& attrs);
};

/// Errors: kInvalidArgument in TensorFlow's words if they are not matrices of as many rows.
absl::Status CheckBound(absl::Span<const int64_t> sorted, absl::Span<const int64_t> values);

/// The output's dimensions. Errors: kInvalidArgument in TensorFlow's words if the indices are of
/// rank 2 or more or `dims` is no vector.
absl::StatusOr<Dims> PrepareUnravelIndex(absl::Span<const int64_t> indices,
                                         absl::Span<const int64_t> dims);

}  // namespace formwork
