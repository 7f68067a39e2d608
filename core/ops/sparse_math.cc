// Sparse tensors' entries: each with its element of a dense tensor, reduced, put together and cut.

#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/shape_inference.h"
#include "core/ops/sparse.h"

namespace formwork {

absl::StatusOr<Shape> DenseShapeOf(const Tensor& sizes) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, IntegersOf(sizes, "dense_shape"));
  int64_t elements = 1;
  for (const int64_t size : dims) {
    if (size < 0) {
      return InvalidArgument("Expected shape dimensions to be non-negative, got ", size);
    }
    const std::optional<int64_t> product = CheckedMul(elements, size);
    if (!product) {
      return InvalidArgument("Encountered overflow when multiplying ", elements, " with ", size,
                             ", result: -1");
    }
    elements = *product;
  }
  return Shape::Make(dims);
}

absl::StatusOr<Shape> PrepareSparseDenseCwise(const SparseShapes& sparse, const Tensor& sizes,
                                              absl::Span<const int64_t> dense) {
  if (sparse.indices.size() != 2) {
    return InvalidArgument("Input sp_indices should be a matrix but received shape: ",
                           DimsText(sparse.indices));
  }
  if (sparse.values.size() != 1 || sparse.shape.size() != 1) {
    return InvalidArgument("Inputs sp_values and sp_shape should be vectors but received shapes: ",
                           DimsText(sparse.values), " and ", DimsText(sparse.shape));
  }
  if (sparse.values[0] != sparse.indices[0]) {
    return InvalidArgument("The first dimension of values and indices should match. (",
                           sparse.values[0], " vs. ", sparse.indices[0], ")");
  }
  if (sparse.shape[0] != sparse.indices[1]) {
    return InvalidArgument("Number of dimensions must match second dimension of indices. Got ",
                           sparse.shape[0],
                           " dimensions, indices shape: ", DimsText(sparse.indices));
  }
  if (sparse.shape[0] == 0) {
    return InvalidArgument("The shape argument requires at least one element.");
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, DenseShapeOf(sizes));
  const absl::Span<const int64_t> dims = shape.dims();
  bool fits = dense.size() <= dims.size();
  for (size_t i = 0; fits && i < dense.size(); ++i) {
    const int64_t size = dense[dense.size() - 1 - i];
    const int64_t to = dims[dims.size() - 1 - i];
    fits = size == to || (size == 1 && to > 0);
  }
  if (!fits) {
    return InvalidArgument(
        "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: [",
        absl::StrJoin(dims, ","), "] vs. [", absl::StrJoin(dense, ","), "]");
  }
  return shape;
}

absl::StatusOr<ReductionGeometry> PrepareSparseReduction(const Tensor& sizes, const Tensor& axes,
                                                         bool keep_dims) {
  if (sizes.rank() != 1) {
    return InvalidArgument("Expected input_shape to be a vector; got shape: ",
                           sizes.shape().ToString());
  }
  if (axes.rank() > 1) {
    return InvalidArgument("Expected reduction_axes to be a scalar or a vector; got shape: ",
                           axes.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(sizes));
  const int rank = shape.rank();
  ReducedMask reduced(static_cast<size_t>(rank), false);
  for (const int32_t axis : axes.span<int32_t>()) {
    const int front = FrontAxis(axis, rank);
    if (front < 0) {
      return InvalidArgument("Invalid reduction dimension ", axis, ", for input with ", rank,
                             " dimensions.");
    }
    reduced[static_cast<size_t>(front)] = true;
  }
  return MakeReductionGeometry(std::move(reduced), shape.dims(), keep_dims);
}

namespace {

absl::Status CwiseShape(InferenceContext& c) {
  const PartialShape indices = shapes::OrOfRank(c.input(0), 2);
  c.set_output(0, PartialShape::Trusted({indices.rank() == 2 ? indices.dim(0) : -1}));
  return absl::OkStatus();
}

// Nothing where the sizes or the axes are not constant.
absl::StatusOr<std::optional<Dims>> ReducedDims(const InferenceContext& c) {
  if (c.constant(2) == nullptr || c.constant(3) == nullptr) return std::nullopt;
  FORMWORK_ASSIGN_OR_RETURN(const bool keep_dims, c.attrs().Get<bool>("keep_dims"));
  FORMWORK_ASSIGN_OR_RETURN(ReductionGeometry geometry,
                            PrepareSparseReduction(*c.constant(2), *c.constant(3), keep_dims));
  return std::move(geometry.output);
}

absl::Status ReduceShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<Dims> dims, ReducedDims(c));
  if (dims) c.set_output(0, PartialShape::Trusted(*dims));
  return absl::OkStatus();
}

absl::Status ReduceSparseShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<Dims> dims, ReducedDims(c));
  const int64_t rank = dims ? static_cast<int64_t>(dims->size()) : -1;
  c.set_output(0, PartialShape::Trusted({-1, rank}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::Trusted({rank}));
  return absl::OkStatus();
}

// Three times as many inputs as sparse tensors: indices, values, shapes.
absl::Status ConcatShape(InferenceContext& c) {
  const int count = c.num_inputs() / 3;
  int64_t rows = 0, rank = -1;
  for (int i = 0; i < count; ++i) {
    const PartialShape indices = shapes::OrOfRank(c.input(i), 2);
    if (indices.rank() != 2) return absl::OkStatus();
    rows = AddDims(rows, indices.dim(0)).value_or(-1);
    if (rank < 0) rank = indices.dim(1);
  }
  c.set_output(0, PartialShape::Trusted({rows, rank}));
  c.set_output(1, PartialShape::Trusted({rows}));
  c.set_output(2, PartialShape::Trusted({rank}));
  return absl::OkStatus();
}

absl::Status SliceShape(InferenceContext& c) {
  const PartialShape shape = shapes::OrOfRank(c.input(2), 1);
  const int64_t rank = shape.rank() == 1 ? shape.dim(0) : -1;
  c.set_output(0, PartialShape::Trusted({-1, rank}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::Trusted({rank}));
  return absl::OkStatus();
}

absl::Status SliceGradShape(InferenceContext& c) {
  const PartialShape indices = shapes::OrOfRank(c.input(1), 2);
  c.set_output(0, PartialShape::Trusted({indices.rank() == 2 ? indices.dim(0) : -1}));
  return absl::OkStatus();
}

absl::Status SplitShape(InferenceContext& c) {
  const PartialShape shape = shapes::OrOfRank(c.input(3), 1);
  const int64_t rank = shape.rank() == 1 ? shape.dim(0) : -1;
  const int parts = c.num_outputs() / 3;
  for (int i = 0; i < parts; ++i) {
    c.set_output(i, PartialShape::Trusted({-1, rank}));
    c.set_output(parts + i, PartialShape::OfRank(1));
    c.set_output(2 * parts + i, PartialShape::Trusted({rank}));
  }
  return absl::OkStatus();
}

}  // namespace

void AddSparseMathOps(OpRegistry& registry) {
  registry.Add(
      "SparseDenseCwiseMul(sp_indices: int64, sp_values: T, sp_shape: int64, dense: T) -> (output: "
      "T); T: numbertype",
      {.shape_fn = CwiseShape});
  registry.Add(
      "SparseDenseCwiseDiv(sp_indices: int64, sp_values: T, sp_shape: int64, dense: T) -> (output: "
      "T); T: numbertype",
      {.shape_fn = CwiseShape});
  registry.Add(
      "SparseDenseCwiseAdd(sp_indices: int64, sp_values: T, sp_shape: int64, dense: T) -> (output: "
      "T); T: numbertype",
      {.shape_fn = CwiseShape});
  registry.Add(
      "SparseReduceSum(input_indices: int64, input_values: T, input_shape: int64, reduction_axes: "
      "int32) -> (output: T); keep_dims: bool = false; T: numbertype",
      {.shape_fn = ReduceShape, .sized_by_value = true});
  registry.Add(
      "SparseReduceSumSparse(input_indices: int64, input_values: T, input_shape: int64, "
      "reduction_axes: int32) -> (output_indices: int64, output_values: T, output_shape: int64); "
      "keep_dims: bool = false; T: numbertype",
      {.shape_fn = ReduceSparseShape});
  // With a NaN among several the maximum is NaN, whereas TensorFlow's depends on their order.
  registry.Add(
      "SparseReduceMax(input_indices: int64, input_values: T, input_shape: int64, reduction_axes: "
      "int32) -> (output: T); keep_dims: bool = false; T: realnumbertype",
      {.shape_fn = ReduceShape, .sized_by_value = true});
  registry.Add(
      "SparseReduceMaxSparse(input_indices: int64, input_values: T, input_shape: int64, "
      "reduction_axes: int32) -> (output_indices: int64, output_values: T, output_shape: int64); "
      "keep_dims: bool = false; T: realnumbertype",
      {.shape_fn = ReduceSparseShape});
  registry.Add(
      "SparseSoftmax(sp_indices: int64, sp_values: T, sp_shape: int64) -> (output: T); T: {half, "
      "float, double}",
      {.shape_fn = CwiseShape});
  registry.Add(
      "SparseConcat(indices: N*int64, values: N*T, shapes: host N*int64) -> (output_indices: "
      "int64, output_values: T, output_shape: host int64); concat_dim: int; N: int >= 2; T: type",
      {.shape_fn = ConcatShape});
  registry.Add(
      "SparseSlice(indices: int64, values: T, shape: host int64, start: host int64, size: host "
      "int64) -> (output_indices: int64, output_values: T, output_shape: host int64); T: type",
      {.shape_fn = SliceShape});
  registry.Add(
      "SparseSliceGrad(backprop_val_grad: T, input_indices: int64, input_start: int64, "
      "output_indices: int64) -> (val_grad: T); T: numbertype",
      {.shape_fn = SliceGradShape});
  registry.Add(
      "SparseSplit(split_dim: host int64, indices: int64, values: T, shape: host int64) -> "
      "(output_indices: num_split*int64, output_values: num_split*T, output_shape: host "
      "num_split*int64); num_split: int "
      ">= 1; T: type",
      {.shape_fn = SplitShape});
}

}  // namespace formwork
