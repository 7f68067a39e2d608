#include "core/ops/reduction.h"

#include <utility>

#include "core/base/status.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<ReductionAttrs> ReductionAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ReductionAttrs>(attrs, "keep_dims", &ReductionAttrs::keep_dims);
}

absl::StatusOr<ReductionGeometry> PrepareReduction(const ReductionAttrs& attrs,
                                                   absl::Span<const int64_t> dims,
                                                   const Tensor& axes) {
  const auto rank = static_cast<int64_t>(dims.size());
  ReducedMask reduced(dims.size(), false);
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(axes, "reduction_indices"));
  for (int64_t axis : values) {
    if (axis < -rank || axis >= rank) {
      return InvalidArgument("Invalid reduction dimension (", axis, " for input with ", rank,
                             " dimension(s)");
    }
    if (axis < 0) axis += rank;
    if (reduced[axis]) {
      return InvalidArgument("Invalid reduction arguments: Axes contains duplicate dimension: ",
                             axis);
    }
    reduced[axis] = true;
  }
  return MakeReductionGeometry(std::move(reduced), dims, attrs.keep_dims);
}

ReductionGeometry MakeReductionGeometry(ReducedMask reduced, absl::Span<const int64_t> dims,
                                        bool keep_dims) {
  ReductionGeometry geometry = {std::move(reduced), {}};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!geometry.reduced[d]) {
      geometry.output.push_back(dims[d]);
    } else if (keep_dims) {
      geometry.output.push_back(1);
    }
  }
  return geometry;
}

DimGroups GroupDims(absl::Span<const int64_t> dims, const ReducedMask& reduced) {
  DimGroups groups;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[d]) {
      groups.back().size *= dims[d];
    } else {
      groups.push_back({dims[d], reduced[d]});
    }
  }
  return groups;
}

ReduceExtent ExtentOf(const DimGroups& groups) {
  ReduceExtent extent = {1, 1, 1};
  bool seen = false;
  for (const DimGroup& group : groups) {
    if (group.reduced) {
      extent.reduced = group.size;
      seen = true;
    } else if (seen) {
      extent.inner = group.size;
    } else {
      extent.outer = group.size;
    }
  }
  return extent;
}

ReduceExtent ExtentAlong(absl::Span<const int64_t> dims, int axis) {
  ReduceExtent extent = {1, 1, 1};
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    (d < axis ? extent.outer : d > axis ? extent.inner : extent.reduced) *= dims[d];
  }
  return extent;
}

absl::StatusOr<ArgReductionGeometry> PrepareArgReduction(absl::Span<const int64_t> dims,
                                                         const Tensor& dimension) {
  if (!dimension.shape().is_scalar()) {
    return InvalidArgument("dim must be a scalar, but received tensor of shape: ",
                           dimension.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(dimension, "dimension"));
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t axis = values[0];
  if (axis < -rank || axis >= rank) {
    return InvalidArgument("Expected dimension in the range [", -rank, ", ", rank, "), but got ",
                           axis);
  }
  if (axis < 0) axis += rank;
  if (dims[axis] == 0) {
    return InvalidArgument("Reduction axis ", axis, " is empty in shape ",
                           PartialShape::Trusted(dims).ToString());
  }
  ArgReductionGeometry geometry = {static_cast<int>(axis), {}};
  for (int64_t d = 0; d < rank; ++d) {
    if (d != axis) geometry.output.push_back(dims[d]);
  }
  return geometry;
}

absl::StatusOr<ScanAttrs> ScanAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ScanAttrs>(attrs, "exclusive", &ScanAttrs::exclusive, "reverse",
                              &ScanAttrs::reverse);
}

absl::StatusOr<int> PrepareScan(int rank, const Tensor& axis) {
  if (!axis.shape().is_scalar()) {
    return InvalidArgument("ScanOp: axis must be a scalar, not ", axis.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(axis, "axis"));
  if (values[0] < -rank || values[0] >= rank) {
    return InvalidArgument("ScanOp: Expected scan axis in the range [", -rank, ", ", rank,
                           "), but got ", values[0]);
  }
  return static_cast<int>(values[0] < 0 ? values[0] + rank : values[0]);
}

absl::StatusOr<BincountAttrs> BincountAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<BincountAttrs>(attrs, "binary_output", &BincountAttrs::binary_output);
}

absl::StatusOr<CountAttrs> CountAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<CountAttrs>(attrs, "minlength", &CountAttrs::minlength, "maxlength",
                               &CountAttrs::maxlength, "binary_output", &CountAttrs::binary_output);
}

absl::StatusOr<Dims> PrepareBincount(absl::Span<const int64_t> dims, const Tensor* size) {
  if (size != nullptr && !size->shape().is_scalar()) {
    return InvalidArgument("Shape must be rank 0 but is rank ", size->rank());
  }
  if (dims.size() > 2) {
    return InvalidArgument("Shape must be at most rank 2 but is rank ", dims.size());
  }
  int64_t bins = -1;
  if (size != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(*size, "size"));
    bins = values[0];
    if (bins < 0) return InvalidArgument("size (", bins, ") must be non-negative");
  }
  if (dims.size() == 2) return Dims{dims[0], bins};
  return Dims{bins};
}

namespace {

absl::Status ReductionShape(InferenceContext& c) {
  const PartialShape& x = c.input(0);
  const Tensor* axes = c.constant(1);
  if (!x.known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const ReductionAttrs attrs, ReductionAttrs::FromAttrs(c.attrs()));
  if (axes == nullptr) {
    if (attrs.keep_dims) c.set_output(0, PartialShape::OfRank(x.rank()));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(ReductionGeometry geometry, PrepareReduction(attrs, x.dims(), *axes));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status ArgReductionShape(InferenceContext& c) {
  const PartialShape& x = c.input(0);
  const Tensor* dimension = c.constant(1);
  if (!x.known_rank()) return absl::OkStatus();
  if (dimension == nullptr) {
    if (x.rank() > 0) c.set_output(0, PartialShape::OfRank(x.rank() - 1));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(ArgReductionGeometry geometry,
                            PrepareArgReduction(x.dims(), *dimension));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status RaggedBincountShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount({-1}, c.constant(2)));
  const PartialShape splits = shapes::OrOfRank(c.input(0), 1);
  const int64_t rows = splits.rank() == 1 && splits.dim(0) > 0 ? splits.dim(0) - 1 : -1;
  dims.insert(dims.begin(), rows);
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status SparseBincountShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount({-1}, c.constant(3)));
  if (c.input(2).rank() != 1 || c.input(2).dim(0) < 0) return absl::OkStatus();
  if (c.input(2).dim(0) == 2) dims.insert(dims.begin(), -1);
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

// [n, rank], [n] and [rank]: a sparse tensor of which only the rank may be known.
absl::Status SparseCounts(InferenceContext& c, int64_t rank) {
  c.set_output(0, PartialShape::Trusted({-1, rank}));
  c.set_output(1, PartialShape::Trusted({-1}));
  c.set_output(2, PartialShape::Trusted({rank}));
  return absl::OkStatus();
}

absl::Status DenseCountShape(InferenceContext& c) {
  const PartialShape& values = c.input(0);
  return SparseCounts(c, values.known_rank() ? std::min(values.rank(), 2) : -1);
}

absl::Status SparseCountShape(InferenceContext& c) {
  const PartialShape sizes = shapes::OrOfRank(c.input(2), 1);
  const int64_t rank = sizes.rank() == 1 ? sizes.dim(0) : -1;
  return SparseCounts(c, std::min<int64_t>(rank, 2));
}

absl::Status RaggedCountShape(InferenceContext& c) { return SparseCounts(c, 2); }

absl::Status BincountShape(InferenceContext& c) {
  const PartialShape& values = c.input(0);
  if (!values.known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount(values.dims(), c.constant(1)));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

}  // namespace

void RegisterReductionOps(OpRegistry& registry) {
  registry.Add(
      "Sum(input: T, reduction_indices: host Tidx) -> (output: T); keep_dims: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Prod(input: T, reduction_indices: host Tidx) -> (output: T); keep_dims: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Mean(input: T, reduction_indices: host Tidx) -> (output: T); keep_dims: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Max(input: T, reduction_indices: host Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{realnumbertype, quantizedtype}; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Min(input: T, reduction_indices: host Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{realnumbertype, quantizedtype}; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "All(input: bool, reduction_indices: host Tidx) -> (output: bool); keep_dims: bool = false; "
      "Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Any(input: bool, reduction_indices: host Tidx) -> (output: bool); keep_dims: bool = false; "
      "Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "ArgMax(input: T, dimension: host Tidx) -> (output: output_type); T: {realnumbertype, "
      "quantizedtype, bool}; Tidx: {int16, int32, int64} = int32; output_type: {int16, uint16, "
      "int32, int64} = int64",
      {.shape_fn = ArgReductionShape});
  registry.Add(
      "Cumsum(x: T, axis: host Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; "
      "T: numbertype; Tidx: indextype = int32",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "RaggedBincount(splits: int64, values: Tidx, size: Tidx, weights: T) -> (output: T); Tidx: "
      "indextype; T: {int32, int64, float, double}; binary_output: bool = false",
      {.shape_fn = RaggedBincountShape, .sized_by_value = true});
  registry.Add(
      "SparseBincount(indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T) -> "
      "(output: T); Tidx: indextype; T: {int32, int64, float, double}; binary_output: bool = false",
      {.shape_fn = SparseBincountShape, .sized_by_value = true});
  registry.Add(
      "CumulativeLogsumexp(x: T, axis: host Tidx) -> (out: T); exclusive: bool = false; reverse: "
      "bool = false; T: floattype; Tidx: indextype = int32",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "DenseBincount(input: Tidx, size: host Tidx, weights: T) -> (output: T); Tidx: indextype; T: "
      "{int32, int64, float, double}; binary_output: bool = false",
      {.shape_fn = BincountShape, .sized_by_value = true});
  registry.Add(
      "DenseCountSparseOutput(values: T, weights: output_type) -> (output_indices: int64, "
      "output_values: output_type, output_dense_shape: int64); T: indextype; minlength: int >= -1 "
      "= -1; maxlength: int >= -1 = -1; binary_output: bool; output_type: {int32, int64, float, "
      "double}",
      {.shape_fn = DenseCountShape});
  registry.Add(
      "SparseCountSparseOutput(indices: int64, values: T, dense_shape: int64, weights: "
      "output_type) -> (output_indices: int64, output_values: output_type, output_dense_shape: "
      "int64); T: indextype; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; binary_output: "
      "bool; output_type: {int32, int64, float, double}",
      {.shape_fn = SparseCountShape});
  registry.Add(
      "RaggedCountSparseOutput(splits: int64, values: T, weights: output_type) -> (output_indices: "
      "int64, output_values: output_type, output_dense_shape: int64); T: indextype; minlength: int "
      ">= -1 = -1; maxlength: int >= -1 = -1; binary_output: bool; output_type: {int32, int64, "
      "float, double}",
      {.shape_fn = RaggedCountShape});
  registry.Add("L2Loss(t: T) -> (output: T); T: floattype", {.shape_fn = shapes::Scalar});
  registry.Add(
      "ArgMin(input: T, dimension: host Tidx) -> (output: output_type); T: {realnumbertype, "
      "quantizedtype, bool}; Tidx: indextype = int32; output_type: indextype = int64",
      {.shape_fn = ArgReductionShape});
  registry.Add(
      "Cumprod(x: T, axis: host Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; "
      "T: numbertype; Tidx: indextype = int32",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "EuclideanNorm(input: T, reduction_indices: host Tidx) -> (output: T); keep_dims: bool = "
      "false; T: numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
}

}  // namespace formwork
