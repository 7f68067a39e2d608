#include "core/ops/sparse.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

std::string IndexText(absl::Span<const int64_t> index) {
  return absl::StrCat("[", absl::StrJoin(index, ", "), "]");
}

absl::Status CheckSparse(const SparseShapes& sparse) {
  if (sparse.indices.size() != 2) {
    return InvalidArgument("Sparse indices must be rank 2 but is rank ", sparse.indices.size());
  }
  if (sparse.values.size() != 1) {
    return InvalidArgument("Sparse values must be rank 1 but is rank ", sparse.values.size());
  }
  if (sparse.shape.size() != 1) {
    return InvalidArgument("Sparse shape must be rank 1 but is rank ", sparse.shape.size());
  }
  if (!MayBeEqual(sparse.indices[0], sparse.values[0])) {
    return InvalidArgument("Number of elements in indices (", sparse.indices[0], ") and values (",
                           sparse.values[0], ") do not match");
  }
  if (!MayBeEqual(sparse.indices[1], sparse.shape[0])) {
    return InvalidArgument("Index rank (", sparse.indices[1], ") and shape rank (", sparse.shape[0],
                           ") do not match");
  }
  return absl::OkStatus();
}

absl::StatusOr<Dims> PrepareSparseToDense(const SparseShapes& sparse, const Tensor* shape,
                                          absl::Span<const int64_t> default_value) {
  if (sparse.indices.size() > 2) {
    return InvalidArgument("sparse_indices should be a scalar, vector, or matrix, got shape ",
                           DimsText(sparse.indices));
  }
  const int64_t elements = sparse.indices.empty() ? 1 : sparse.indices[0];
  const int64_t rank = sparse.indices.size() > 1 ? sparse.indices[1] : 1;
  if (sparse.shape.size() != 1) {
    return InvalidArgument("output_shape must be rank 1, got shape ", DimsText(sparse.shape));
  }
  if (!MayBeEqual(sparse.shape[0], rank)) {
    return InvalidArgument("output_shape has incorrect number of elements: ", sparse.shape[0],
                           " should be: ", rank);
  }
  if (sparse.values.size() > 1 ||
      (sparse.values.size() == 1 && !MayBeEqual(sparse.values[0], elements))) {
    return InvalidArgument("sparse_values has incorrect shape ", DimsText(sparse.values),
                           ", should be [] or [", elements, "]");
  }
  if (!default_value.empty()) return InvalidArgument("default_value should be a scalar.");
  if (shape == nullptr) return Dims(static_cast<size_t>(std::max<int64_t>(sparse.shape[0], 0)), -1);
  FORMWORK_ASSIGN_OR_RETURN(const Shape dense, ShapeFromTensor(*shape, "output_shape"));
  return Dims(dense.dims().begin(), dense.dims().end());
}

absl::StatusOr<Dims> PrepareSparseReshape(absl::Span<const int64_t> from, const Tensor& to) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims given, IntegersOf(to, "SparseReshape: new_shape"));
  const int64_t elements = CountElements(from);
  if (elements < 0) return InvalidArgument("SparseReshape: input_shape is too large");
  Dims output = given;
  int64_t known = 1;
  int open = -1;
  for (size_t d = 0; d < given.size(); ++d) {
    if (given[d] == -1) {
      if (open >= 0) {
        return InvalidArgument("only one output dimension may be -1, not both ", open, " and ", d);
      }
      open = static_cast<int>(d);
      continue;
    }
    if (given[d] < 0) return InvalidArgument("size ", d, " must be non-negative, not ", given[d]);
    const std::optional<int64_t> product = MultiplyDims(known, given[d]);
    if (!product) return InvalidArgument("SparseReshape: output_shape is too large");
    known = *product;
  }
  if (open >= 0) {
    if (known == 0) {
      return InvalidArgument(
          "reshape cannot infer the missing input size for an empty tensor unless all specified "
          "input sizes are non-zero");
    }
    if (elements % known != 0) {
      return InvalidArgument("Input to reshape is a SparseTensor with ", elements,
                             " dense values, but the requested shape requires a multiple of ",
                             known, ". input_shape=", DimsText(from),
                             " output_shape=", DimsText(given));
    }
    output[static_cast<size_t>(open)] = elements / known;
    known = elements;
  }
  if (known != elements) {
    return InvalidArgument("Input to reshape is a tensor with ", elements,
                           " dense values, but the requested shape has ", known,
                           ". input_shape=", DimsText(from), " output_shape=", DimsText(output));
  }
  return output;
}

absl::Status CheckSparseFillEmptyRows(const SparseShapes& sparse,
                                      absl::Span<const int64_t> default_value) {
  if (sparse.shape.size() != 1) {
    return InvalidArgument("dense_shape must be a vector, saw: ", DimsText(sparse.shape));
  }
  if (sparse.indices.size() != 2) {
    return InvalidArgument("indices must be a matrix, saw: ", DimsText(sparse.indices));
  }
  if (sparse.values.size() != 1) {
    return InvalidArgument("values must be a vector, saw: ", DimsText(sparse.values));
  }
  if (!MayBeEqual(sparse.indices[0], sparse.values[0])) {
    return InvalidArgument("The length of `values` (", sparse.values[0],
                           ") must match the first dimension of `indices` (", sparse.indices[0],
                           ").");
  }
  if (!MayBeEqual(sparse.indices[1], sparse.shape[0])) {
    return InvalidArgument("The length of `dense_shape` (", sparse.shape[0],
                           ") must match the second dimension of `indices` (", sparse.indices[1],
                           ").");
  }
  if (sparse.shape[0] == 0) return InvalidArgument("Dense shape cannot be empty.");
  if (!default_value.empty()) {
    return InvalidArgument("default_value must be a scalar, saw: ", DimsText(default_value));
  }
  return absl::OkStatus();
}

absl::Status CheckRaggedFillEmptyRows(absl::Span<const int64_t> value_rowids,
                                      absl::Span<const int64_t> values,
                                      absl::Span<const int64_t> nrows,
                                      absl::Span<const int64_t> default_value) {
  if (value_rowids.size() != 1) {
    return InvalidArgument("value_rowids must be a vector, saw: ", DimsText(value_rowids));
  }
  if (values.size() != 1) {
    return InvalidArgument("values must be a vector, saw: ", DimsText(values));
  }
  if (!MayBeEqual(values[0], value_rowids[0])) {
    return InvalidArgument("The length of `values` (", values[0],
                           ") must match the first dimension of `value_rowids` (", value_rowids[0],
                           ").");
  }
  if (!nrows.empty()) return InvalidArgument("nrows must be a scalar, saw: ", DimsText(nrows));
  if (!default_value.empty()) {
    return InvalidArgument("default_value must be a scalar, saw: ", DimsText(default_value));
  }
  return absl::OkStatus();
}

absl::StatusOr<SparseMatMulGeometry> PrepareSparseMatMul(const SparseShapes& a, const Tensor* shape,
                                                         absl::Span<const int64_t> b,
                                                         bool adjoint_a, bool adjoint_b) {
  if (b.size() != 2) return InvalidArgument("Tensor 'b' is not a matrix");
  if (a.shape.size() != 1) return InvalidArgument("Tensor 'a_shape' is not a vector");
  if (!MayBeEqual(a.shape[0], 2)) {
    return InvalidArgument("Tensor 'a_shape' must have 2 elements");
  }
  if (a.values.size() != 1) return InvalidArgument("Tensor 'a_values' is not a vector");
  if (a.indices.size() != 2) return InvalidArgument("Tensor 'a_indices' is not a matrix");
  if (!MayBeEqual(a.indices[0], a.values[0])) {
    return InvalidArgument(
        "Number of rows of a_indices does not match number of entries in "
        "a_values");
  }
  if (!MayBeEqual(a.indices[1], a.shape[0])) {
    return InvalidArgument(
        "Number of columns of a_indices does not match number of entries in a_shape");
  }
  Dims sizes = {-1, -1};
  if (shape != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(sizes, IntegersOf(*shape, "a_shape"));
    if (sizes[0] < 0 || sizes[1] < 0) {
      return InvalidArgument("Tensor 'a_shape' must not be negative: ", IndexText(sizes));
    }
  }
  SparseMatMulGeometry geometry = {sizes[adjoint_a ? 1 : 0], sizes[adjoint_a ? 0 : 1],
                                   b[adjoint_b ? 0 : 1]};
  const int64_t inner = b[adjoint_b ? 1 : 0];
  if (!MayBeEqual(geometry.inner, inner)) {
    return InvalidArgument(
        "Cannot multiply A and B because inner dimension does not match: ", geometry.inner, " vs. ",
        inner, ".  Did you forget a transpose?  Dimensions of A: [", sizes[0], ", ", sizes[1],
        ").  Dimensions of B: ", DimsText(b));
  }
  return geometry;
}

absl::StatusOr<int64_t> CountSerialized(absl::Span<const int64_t> serialized) {
  if (serialized.empty()) {
    return InvalidArgument("Serialized sparse should have non-zero rank ", DimsText(serialized));
  }
  if (!MayBeEqual(serialized.back(), 3)) {
    return InvalidArgument("Serialized sparse should have 3 as the last dimension ",
                           DimsText(serialized));
  }
  return CountElements(serialized.first(serialized.size() - 1));
}

absl::StatusOr<Dims> PrepareEditDistance(const Tensor& hypothesis, const Tensor& truth) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims a, IntegersOf(hypothesis, "hypothesis_shape"));
  FORMWORK_ASSIGN_OR_RETURN(const Dims b, IntegersOf(truth, "truth_shape"));
  if (a.size() != b.size()) {
    return InvalidArgument("truth_shape and hypothesis_shape should have the same length: ",
                           b.size(), " and ", a.size());
  }
  if (a.size() < 2) {
    return InvalidArgument("Input SparseTensors must have rank >= 2, but truth_shape rank is: ",
                           b.size());
  }
  Dims output;
  for (size_t d = 0; d + 1 < a.size(); ++d) {
    if (a[d] < 0 || b[d] < 0) return InvalidArgument("Sizes must not be negative");
    output.push_back(std::max(a[d], b[d]));
  }
  return output;
}

namespace {

SparseShapes PartsFrom(const InferenceContext& c, int first) {
  return {c.input(first).dims(), c.input(first + 1).dims(), c.input(first + 2).dims()};
}

bool KnownRanks(const InferenceContext& c, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    if (!c.input(i).known_rank()) return false;
  }
  return true;
}

absl::Status SparseToDenseShape(InferenceContext& c) {
  // Indices, shape, values, default: the order of the op's inputs.
  if (!KnownRanks(c, 0, 4)) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims,
      PrepareSparseToDense({c.input(0).dims(), c.input(2).dims(), c.input(1).dims()}, c.constant(1),
                           c.input(3).dims()));
  if (c.constant(1) == nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::ShapeFromInput(c, 1));
    c.set_output(0, std::move(shape));
    return absl::OkStatus();
  }
  return array_shapes::SetOutput(c, 0, dims);
}

absl::Status SparseReorderShape(InferenceContext& c) {
  if (KnownRanks(c, 0, 3)) FORMWORK_RETURN_IF_ERROR(CheckSparse(PartsFrom(c, 0)));
  c.set_output(0, shapes::OrOfRank(c.input(0), 2));
  c.set_output(1, shapes::OrOfRank(c.input(1), 1));
  return absl::OkStatus();
}

absl::Status SparseReshapeShape(InferenceContext& c) {
  const PartialShape indices = shapes::OrOfRank(c.input(0), 2);
  const PartialShape to = shapes::OrOfRank(c.input(2), 1);
  if (indices.rank() != 2 || to.rank() != 1) return absl::OkStatus();
  c.set_output(0, PartialShape::Trusted({indices.dim(0), to.dim(0)}));
  c.set_output(1, to);
  return absl::OkStatus();
}

absl::Status FillEmptyRowsShape(InferenceContext& c) {
  if (KnownRanks(c, 0, 4)) {
    FORMWORK_RETURN_IF_ERROR(CheckSparseFillEmptyRows(PartsFrom(c, 0), c.input(3).dims()));
  }
  const PartialShape indices = shapes::OrOfRank(c.input(0), 2);
  c.set_output(0, PartialShape::Trusted({-1, indices.rank() == 2 ? indices.dim(1) : -1}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::OfRank(1));
  c.set_output(3, PartialShape::Trusted({indices.rank() == 2 ? indices.dim(0) : -1}));
  if (c.constant(2) != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(const PartialShape dense, shapes::ShapeFromInput(c, 2));
    if (dense.rank() > 0) c.set_output(2, PartialShape::Trusted({dense.dim(0)}));
  }
  return absl::OkStatus();
}

absl::Status RaggedFillEmptyRowsShape(InferenceContext& c) {
  const auto dims = [&](int i, int rank) { return shapes::OrOfRank(c.input(i), rank); };
  FORMWORK_RETURN_IF_ERROR(CheckRaggedFillEmptyRows(dims(0, 1).dims(), dims(1, 1).dims(),
                                                    dims(2, 0).dims(), dims(3, 0).dims()));
  for (int i = 0; i < 3; ++i) c.set_output(i, PartialShape::OfRank(1));
  c.set_output(3, dims(0, 1));
  return absl::OkStatus();
}

absl::Status FillEmptyRowsGradShape(InferenceContext& c) {
  c.set_output(0, shapes::OrOfRank(c.input(0), 1));
  c.set_output(1, PartialShape::OfRank(0));
  return absl::OkStatus();
}

absl::Status SparseMatMulShape(InferenceContext& c) {
  if (!KnownRanks(c, 0, 4)) {
    c.set_output(0, PartialShape::OfRank(2));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const bool adjoint_a, c.attrs().Get<bool>("adjoint_a"));
  FORMWORK_ASSIGN_OR_RETURN(const bool adjoint_b, c.attrs().Get<bool>("adjoint_b"));
  FORMWORK_ASSIGN_OR_RETURN(
      const SparseMatMulGeometry geometry,
      PrepareSparseMatMul(PartsFrom(c, 0), c.constant(2), c.input(3).dims(), adjoint_a, adjoint_b));
  return array_shapes::SetOutput(c, 0, {geometry.rows, geometry.cols});
}

absl::Status SparseDenseAddShape(InferenceContext& c) {
  c.set_output(0, c.input(3));
  return absl::OkStatus();
}

absl::Status SparseAddShape(InferenceContext& c) {
  const PartialShape shape = shapes::OrOfRank(c.input(2), 1);
  c.set_output(0, PartialShape::Trusted({-1, shape.rank() == 1 ? shape.dim(0) : -1}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, shape);
  return absl::OkStatus();
}

absl::Status SparseAddGradShape(InferenceContext& c) {
  for (int i = 0; i < 2; ++i) {
    const PartialShape indices = shapes::OrOfRank(c.input(i + 1), 2);
    c.set_output(i, PartialShape::Trusted({indices.rank() == 2 ? indices.dim(0) : -1}));
  }
  return absl::OkStatus();
}

absl::Status SerializeShape(InferenceContext& c) {
  c.set_output(0, Shape({3}));
  return absl::OkStatus();
}

absl::Status SerializeManyShape(InferenceContext& c) {
  c.set_output(0, PartialShape::Trusted({-1, 3}));
  return absl::OkStatus();
}

absl::Status SparseCrossShape(InferenceContext& c) {
  c.set_output(0, PartialShape::Trusted({-1, 2}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, Shape({2}));
  return absl::OkStatus();
}

absl::Status SetOperationShape(InferenceContext& c) {
  // Of as many dimensions as the first set; a sparse one's are its indices' columns.
  const bool sparse = c.num_inputs() == 6;
  int64_t rank = -1;
  if (!sparse && c.input(0).known_rank()) rank = c.input(0).rank();
  if (sparse && c.input(0).rank() == 2) rank = c.input(0).dim(1);
  c.set_output(0, PartialShape::Trusted({-1, rank}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::Trusted({rank}));
  return absl::OkStatus();
}

absl::Status RaggedCrossShape(InferenceContext& c) {
  // As many splits as the first ragged input has. That there are as many splits as values is the
  // kernel's to check.
  FORMWORK_ASSIGN_OR_RETURN(const auto values,
                            c.attrs().Get<std::vector<DType>>("ragged_values_types"));
  FORMWORK_ASSIGN_OR_RETURN(const auto row_splits,
                            c.attrs().Get<std::vector<DType>>("ragged_splits_types"));
  const PartialShape splits =
      row_splits.empty() ? PartialShape() : c.input(static_cast<int>(values.size()));
  c.set_output(0, PartialShape::OfRank(1));
  c.set_output(1, splits.rank() == 1 ? splits : PartialShape::OfRank(1));
  return absl::OkStatus();
}

// SparseSparseMaximum and Minimum: as many entries as both have together, at most.
absl::Status SparsePairShape(InferenceContext& c) {
  const PartialShape indices = shapes::OrOfRank(c.input(0), 2);
  c.set_output(0, PartialShape::Trusted({-1, indices.rank() == 2 ? indices.dim(1) : -1}));
  c.set_output(1, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status EditDistanceShape(InferenceContext& c) {
  if (c.constant(2) == nullptr || c.constant(5) == nullptr) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareEditDistance(*c.constant(2), *c.constant(5)));
  return array_shapes::SetOutput(c, 0, dims);
}

absl::Status DeserializeShape(InferenceContext& c) {
  if (c.input(0).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(CountSerialized(c.input(0).dims()).status());
  }
  c.set_output(0, PartialShape::OfRank(2));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::OfRank(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterSparseOps(OpRegistry& registry) {
  registry.Add(
      "SparseToDense(sparse_indices: Tindices, output_shape: host Tindices, sparse_values: T, "
      "default_value: host T) -> (dense: T); validate_indices: bool = true; T: type; Tindices: "
      "indextype",
      {.shape_fn = SparseToDenseShape, .sized_by_value = true});
  registry.Add(
      "SparseReorder(input_indices: int64, input_values: T, input_shape: int64) -> "
      "(output_indices: int64, output_values: T); T: type",
      {.shape_fn = SparseReorderShape});
  registry.Add(
      "SparseReshape(input_indices: int64, input_shape: host int64, new_shape: host int64) -> "
      "(output_indices: int64, output_shape: host int64)",
      {.shape_fn = SparseReshapeShape});
  registry.Add(
      "SparseFillEmptyRows(indices: int64, values: T, dense_shape: host int64, default_value: T) "
      "-> (output_indices: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: "
      "int64); T: type",
      {.shape_fn = FillEmptyRowsShape, .sized_by_value = true});
  registry.Add(
      "SparseFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> (d_values: T, "
      "d_default_value: T); T: type",
      {.shape_fn = FillEmptyRowsGradShape});
  registry.Add(
      "RaggedFillEmptyRows(value_rowids: int64, values: T, nrows: host int64, default_value: T) -> "
      "(output_value_rowids: int64, output_values: T, empty_row_indicator: bool, "
      "reverse_index_map: int64); T: type",
      {.shape_fn = RaggedFillEmptyRowsShape, .sized_by_value = true});
  registry.Add(
      "RaggedFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> (d_values: T, "
      "d_default_value: T); T: type",
      {.shape_fn = FillEmptyRowsGradShape});
  registry.Add(
      "SparseTensorDenseMatMul(a_indices: Tindices, a_values: T, a_shape: host int64, b: T) -> "
      "(product: T); T: type; Tindices: indextype = int64; adjoint_a: bool = false; adjoint_b: "
      "bool = false",
      {.shape_fn = SparseMatMulShape, .sized_by_value = true});
  registry.Add(
      "SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> (output: "
      "T); T: numbertype; Tindices: indextype",
      {.shape_fn = SparseDenseAddShape});
  registry.Add(
      "SparseAdd(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, "
      "b_shape: int64, thresh: Treal) -> (sum_indices: int64, sum_values: T, sum_shape: int64); T: "
      "numbertype; Treal: realnumbertype",
      {.shape_fn = SparseAddShape});
  registry.Add(
      "SparseAddGrad(backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64) "
      "-> (a_val_grad: T, b_val_grad: T); T: numbertype",
      {.shape_fn = SparseAddGradShape});
  registry.Add(
      "SerializeSparse(sparse_indices: int64, sparse_values: T, sparse_shape: int64) -> "
      "(serialized_sparse: out_type); T: type; out_type: {string, variant} = string",
      {.shape_fn = SerializeShape});
  registry.Add(
      "SerializeManySparse(sparse_indices: int64, sparse_values: T, sparse_shape: int64) -> "
      "(serialized_sparse: out_type); T: type; out_type: {string, variant} = string",
      {.shape_fn = SerializeManyShape, .sized_by_value = true});
  registry.Add(
      "DeserializeSparse(serialized_sparse: host Tserialized) -> (sparse_indices: host int64, "
      "sparse_values: host dtype, sparse_shape: host int64); dtype: type; Tserialized: {string, "
      "variant} = string",
      {.shape_fn = DeserializeShape});
  registry.Add(
      "DeserializeManySparse(serialized_sparse: string) -> (sparse_indices: int64, sparse_values: "
      "dtype, sparse_shape: int64); dtype: type",
      {.shape_fn = DeserializeShape});
  registry.Add(
      "SparseCross(indices: N*int64, values: sparse_types, shapes: N*int64, dense_inputs: "
      "dense_types) -> (output_indices: int64, output_values: out_type, output_shape: int64); N: "
      "int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; sparse_types: "
      "list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0; out_type: {int64, "
      "string}; internal_type: {int64, string}",
      {.shape_fn = SparseCrossShape, .sized_by_value = true});
  registry.Add(
      "SparseCrossV2(indices: N*int64, values: sparse_types, shapes: N*int64, dense_inputs: "
      "dense_types, sep: string) -> (output_indices: int64, output_values: string, output_shape: "
      "int64); N: int >= 0; sparse_types: list({int64, string}) >= 0; dense_types: list({int64, "
      "string}) >= 0",
      {.shape_fn = SparseCrossShape, .sized_by_value = true});
  registry.Add(
      "SparseCrossHashed(indices: N*int64, values: sparse_types, shapes: N*int64, dense_inputs: "
      "dense_types, num_buckets: int64, strong_hash: bool, salt: int64) -> (output_indices: int64, "
      "output_values: int64, output_shape: int64); N: int >= 0; sparse_types: list({int64, "
      "string}) >= 0; dense_types: list({int64, string}) >= 0",
      {.shape_fn = SparseCrossShape, .sized_by_value = true});
  registry.Add(
      "RaggedCross(ragged_values: ragged_values_types, ragged_row_splits: ragged_splits_types, "
      "sparse_indices: Nsparse*int64, sparse_values: sparse_values_types, sparse_shape: "
      "Nsparse*int64, dense_inputs: dense_types) -> (output_values: out_values_type, "
      "output_row_splits: out_row_splits_type); Nsparse: int >= 0; input_order: string; "
      "hashed_output: bool; num_buckets: int >= 0; hash_key: int; ragged_values_types: "
      "list({int64, string}) >= 0; ragged_splits_types: list(indextype) >= 0; sparse_values_types: "
      "list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0; out_values_type: "
      "{int64, string}; out_row_splits_type: indextype",
      {.shape_fn = RaggedCrossShape, .sized_by_value = true});
  registry.Add(
      "SparseSparseMaximum(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, "
      "b_values: T, b_shape: int64) -> (output_indices: int64, output_values: T); T: "
      "realnumbertype",
      {.shape_fn = SparsePairShape});
  registry.Add(
      "SparseSparseMinimum(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, "
      "b_values: T, b_shape: int64) -> (output_indices: int64, output_values: T); T: numbertype",
      {.shape_fn = SparsePairShape});
  registry.Add(
      "EditDistance(hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
      "truth_indices: int64, truth_values: T, truth_shape: int64) -> (output: float); normalize: "
      "bool = true; T: type",
      {.shape_fn = EditDistanceShape, .sized_by_value = true});
  registry.Add(
      "DenseToDenseSetOperation(set1: T, set2: T) -> (result_indices: int64, result_values: T, "
      "result_shape: int64); set_operation: string; validate_indices: bool = true; T: {int8, "
      "int16, int32, int64, uint8, uint16, string}",
      {.shape_fn = SetOperationShape});
  registry.Add(
      "DenseToSparseSetOperation(set1: T, set2_indices: int64, set2_values: T, set2_shape: int64) "
      "-> (result_indices: int64, result_values: T, result_shape: int64); set_operation: string; "
      "validate_indices: bool = true; T: {int8, int16, int32, int64, uint8, uint16, string}",
      {.shape_fn = SetOperationShape});
  registry.Add(
      "SparseToSparseSetOperation(set1_indices: int64, set1_values: T, set1_shape: int64, "
      "set2_indices: int64, set2_values: T, set2_shape: int64) -> (result_indices: int64, "
      "result_values: T, result_shape: int64); set_operation: string; validate_indices: bool = "
      "true; T: {int8, int16, int32, int64, uint8, uint16, string}",
      {.shape_fn = SetOperationShape});
  registry.Add(
      "SetSize(set_indices: int64, set_values: T, set_shape: int64) -> (size: int32); "
      "validate_indices: bool = true; T: {int8, int16, int32, int64, uint8, uint16, string}",
      {.sized_by_value = true});
  AddSparseMathOps(registry);
}

}  // namespace formwork
