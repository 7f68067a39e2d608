#pragma once

// What the reduction family is on every device: attrs, and geometry from shapes and the values of
// axes. Shape functions use it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

// --- Sum, Prod, Mean, Max, Min, EuclideanNorm, All, Any -----------------------------------------

struct ReductionAttrs {
  bool keep_dims = false;

  static absl::StatusOr<ReductionAttrs> FromAttrs(const AttrMap& attrs);
};

/// For each dimension, whether it is reduced.
using ReducedMask = absl::InlinedVector<bool, 8>;

struct ReductionGeometry {
  ReducedMask reduced;
  Dims output;  ///< Without the reduced dimensions; with keep_dims these are 1.
};

/// The geometry for an input of `dims`. `axes` are the reduction_indices: from the end where
/// negative. Errors: kInvalidArgument where one is out of range or a dimension is named twice.
absl::StatusOr<ReductionGeometry> PrepareReduction(const ReductionAttrs& attrs,
                                                   absl::Span<const int64_t> dims,
                                                   const Tensor& axes);
/// The same where it is known which dimensions are reduced.
ReductionGeometry MakeReductionGeometry(ReducedMask reduced, absl::Span<const int64_t> dims,
                                        bool keep_dims);

/// Neighbouring dimensions that share their fate, as one.
struct DimGroup {
  int64_t size;
  bool reduced;
};
using DimGroups = absl::InlinedVector<DimGroup, 6>;

/// Of a value that is not empty; dimensions of 1 are left out.
DimGroups GroupDims(absl::Span<const int64_t> dims, const ReducedMask& reduced);

/// A dense value as [outer, reduced, inner], of which the middle is reduced.
struct ReduceExtent {
  int64_t outer;
  int64_t reduced;
  int64_t inner;
};

/// The extent where at most one group is reduced.
ReduceExtent ExtentOf(const DimGroups& groups);
/// The extent along one dimension of a value that is not empty.
ReduceExtent ExtentAlong(absl::Span<const int64_t> dims, int axis);

// --- ArgMax, ArgMin -----------------------------------------------------------------------------

struct ArgReductionGeometry {
  int axis;
  Dims output;  ///< Without the axis.
};

/// `dimension` is a scalar, from the end where negative. Errors: kInvalidArgument where it is no
/// scalar, or out of range, or names an empty dimension.
absl::StatusOr<ArgReductionGeometry> PrepareArgReduction(absl::Span<const int64_t> dims,
                                                         const Tensor& dimension);

// --- Cumsum, Cumprod ----------------------------------------------------------------------------

struct ScanAttrs {
  bool exclusive = false;
  bool reverse = false;

  static absl::StatusOr<ScanAttrs> FromAttrs(const AttrMap& attrs);
};

/// The dimension that `axis` names: a scalar, from the end where negative. Errors: kInvalidArgument
/// where it is no scalar or out of range.
absl::StatusOr<int> PrepareScan(int rank, const Tensor& axis);

// --- DenseBincount ------------------------------------------------------------------------------

struct BincountAttrs {
  bool binary_output = false;

  static absl::StatusOr<BincountAttrs> FromAttrs(const AttrMap& attrs);
};

/// The output's dimensions, for an input of `dims`: the bins, for each row of a matrix.
/// `size` is their number, a scalar; null where it is not known. Errors: kInvalidArgument where it
/// is no scalar or negative, or the input has more than two dimensions.
absl::StatusOr<Dims> PrepareBincount(absl::Span<const int64_t> dims, const Tensor* size);

// --- DenseCountSparseOutput and its like --------------------------------------------------------

struct CountAttrs {
  int64_t minlength = -1;
  int64_t maxlength = -1;  ///< Values from here on are left out; -1: none are.
  bool binary_output = false;

  static absl::StatusOr<CountAttrs> FromAttrs(const AttrMap& attrs);
};

}  // namespace formwork
