#include "core/ops/sparse_matrix.h"

#include <limits>
#include <optional>
#include <utility>

#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<MatrixProductAttrs> MatrixProductAttrs::FromAttrs(const AttrMap& attrs) {
  using Attrs = MatrixProductAttrs;
  FORMWORK_ASSIGN_OR_RETURN(
      Attrs read, ReadAttrs<Attrs>(attrs, "transpose_a", &Attrs::transpose_a, "transpose_b",
                                   &Attrs::transpose_b, "adjoint_a", &Attrs::adjoint_a, "adjoint_b",
                                   &Attrs::adjoint_b));
  read.transpose_output = attrs.GetOr("transpose_output", false);
  read.conjugate_output = attrs.GetOr("conjugate_output", false);
  if (read.adjoint_a && read.transpose_a) {
    return InvalidArgument("Only one of adjoint_a and transpose_a may be true.");
  }
  if (read.adjoint_b && read.transpose_b) {
    return InvalidArgument("Only one of adjoint_b and transpose_b may be true.");
  }
  return read;
}

absl::StatusOr<MatrixProductGeometry> PrepareMatrixProduct(const MatrixProductAttrs& attrs,
                                                           absl::Span<const int64_t> a,
                                                           absl::Span<const int64_t> b) {
  if (a.size() != b.size()) {
    return InvalidArgument("Ranks of a and b must match, saw: ", a.size(), " vs. ", b.size(), ".");
  }
  if (a.size() != 2 && a.size() != 3) {
    return InvalidArgument("a and b must have rank 2 or 3, saw: ", a.size());
  }
  MatrixProductGeometry geometry;
  const bool batched = a.size() == 3;
  if (batched) {
    if (!MayBeEqual(a[0], b[0])) {
      return InvalidArgument("Batch sizes of a and b must match, saw: ", a[0], " vs. ", b[0], ".");
    }
    geometry.batch = a[0] < 0 ? b[0] : a[0];
  }
  const absl::Span<const int64_t> of_a = a.last(2), of_b = b.last(2);
  geometry.rows = of_a[attrs.flips_a() ? 1 : 0];
  geometry.inner = of_a[attrs.flips_a() ? 0 : 1];
  geometry.cols = of_b[attrs.flips_b() ? 0 : 1];
  if (!MayBeEqual(geometry.inner, of_b[attrs.flips_b() ? 1 : 0])) {
    return InvalidArgument("Inner product dimensions of A and B do not agree. Shapes are: ",
                           DimsText(a), " vs. ", DimsText(b));
  }
  if (batched) geometry.output.push_back(geometry.batch);
  geometry.output.push_back(attrs.transpose_output ? geometry.cols : geometry.rows);
  geometry.output.push_back(attrs.transpose_output ? geometry.rows : geometry.cols);
  return geometry;
}

absl::Status CheckMatrixShape(absl::Span<const int64_t> shape) {
  if (shape.size() != 2 && shape.size() != 3) {
    return InvalidArgument("SparseTensor must have rank 2 or 3; but indices has rank: ",
                           shape.size());
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const std::optional<int64_t> begins = CheckedAdd(shape[shape.size() - 2], 1);
  const std::optional<int64_t> all =
      begins ? CheckedMul(shape.size() == 3 ? shape[0] : 1, *begins) : std::nullopt;
  if (!all || *all > kMost) {
    return InvalidArgument(
        "The csr row index size, computed based on the dense_shape, must be <= Int32Max, but is "
        "too large. Current value is ",
        all.value_or(-1));
  }
  if (shape.back() > kMost) {
    return InvalidArgument("A sparse matrix may have at most Int32Max columns, got ", shape.back());
  }
  return absl::OkStatus();
}

absl::Status CheckMatrixFactor(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  if (b.empty()) return absl::OkStatus();
  if (b.size() != 3) {
    return InvalidArgument(
        "Multiplying by a 2D+ dense tensor is not currently supported, but shape of b is: ",
        DimsText(b));
  }
  if (a.size() == 3 && MayBeEqual(b[0], a[0]) && MayBeEqual(b[1], 1) && MayBeEqual(b[2], 1)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "If b is a rank-3 tensor, then a must be a rank 3 and the size of b be [batch_size, 1, 1]. "
      "But the shape of b is: ",
      DimsText(b));
}

namespace {

// What is known of the shape of the matrix that input i is, if its rank is.
std::optional<PartialShape> MatrixOf(const InferenceContext& c, int i) {
  PartialShape matrix = c.items(i);
  if (matrix.rank() != 2 && matrix.rank() != 3) return std::nullopt;
  return matrix;
}

// Output 0 is a matrix of that shape.
absl::Status OfMatrix(InferenceContext& c, PartialShape matrix) {
  c.set_output(0, PartialShape(Shape()));
  c.set_output_items(0, std::move(matrix));
  return absl::OkStatus();
}

absl::Status FromSparseShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape matrix, shapes::ShapeFromInput(c, 2));
  const int64_t rank = c.input(0).rank() == 2 ? c.input(0).dim(1) : -1;
  if (matrix.rank() < 0 && (rank == 2 || rank == 3)) {
    matrix = PartialShape::OfRank(static_cast<int>(rank));
  }
  return OfMatrix(c, std::move(matrix));
}

absl::Status FromDenseShape(InferenceContext& c) { return OfMatrix(c, c.input(0)); }
absl::Status FromSizesShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape matrix, shapes::ShapeFromInput(c, 0));
  return OfMatrix(c, std::move(matrix));
}
absl::Status SameMatrixShape(InferenceContext& c) { return OfMatrix(c, c.items(0)); }

absl::Status ToSparseShape(InferenceContext& c) {
  const std::optional<PartialShape> matrix = MatrixOf(c, 0);
  const int64_t rank = matrix ? matrix->rank() : -1;
  c.set_output(0, PartialShape::Trusted({-1, rank}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::Trusted({rank}));
  return absl::OkStatus();
}

absl::Status ToDenseShape(InferenceContext& c) {
  c.set_output(0, c.items(0));
  return absl::OkStatus();
}

absl::Status ComponentsShape(InferenceContext& c) {
  const std::optional<PartialShape> matrix = MatrixOf(c, 0);
  const int64_t rows = matrix ? matrix->dim(matrix->rank() - 2) : -1;
  c.set_output(0, PartialShape::Trusted({AddDims(rows, 1).value_or(-1)}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status CountShape(InferenceContext& c) {
  const std::optional<PartialShape> matrix = MatrixOf(c, 0);
  if (!matrix) return absl::OkStatus();
  c.set_output(
      0, matrix->rank() == 2 ? PartialShape(Shape()) : PartialShape::Trusted({matrix->dim(0)}));
  return absl::OkStatus();
}

// Of the second operand: another matrix, or a dense one.
absl::StatusOr<PartialShape> ProductOf(const InferenceContext& c, const PartialShape& b) {
  FORMWORK_ASSIGN_OR_RETURN(const MatrixProductAttrs attrs,
                            MatrixProductAttrs::FromAttrs(c.attrs()));
  PartialShape a = c.items(0);
  if (a.rank() < 0 && b.rank() < 0) return PartialShape();
  if (a.rank() < 0) a = PartialShape::OfRank(b.rank());
  FORMWORK_ASSIGN_OR_RETURN(
      const MatrixProductGeometry geometry,
      PrepareMatrixProduct(attrs, a.dims(), shapes::OrOfRank(b, a.rank()).dims()));
  return PartialShape::Trusted(geometry.output);
}

absl::Status MatMulShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape product, ProductOf(c, c.input(1)));
  c.set_output(0, std::move(product));
  return absl::OkStatus();
}

absl::Status SparseProductShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape product, ProductOf(c, c.items(1)));
  return OfMatrix(c, std::move(product));
}

absl::Status TransposeShape(InferenceContext& c) {
  const std::optional<PartialShape> matrix = MatrixOf(c, 0);
  if (!matrix) return OfMatrix(c, PartialShape());
  Dims dims(matrix->dims().begin(), matrix->dims().end());
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return OfMatrix(c, PartialShape::Trusted(dims));
}

absl::Status SumShape(InferenceContext& c) {
  const PartialShape a = c.items(0);
  return OfMatrix(c, a.Merge(c.items(1)).value_or(a));
}

}  // namespace

void RegisterSparseMatrixOps(OpRegistry& registry) {
  registry.Add(
      "SparseTensorToCSRSparseMatrix(indices: int64, values: T, dense_shape: host int64) -> "
      "(sparse_matrix: variant); T: {complextype, float, double}",
      {.shape_fn = FromSparseShape, .sized_by_value = true});
  registry.Add(
      "CSRSparseMatrixToSparseTensor(sparse_matrix: variant) -> (indices: int64, values: type, "
      "dense_shape: host int64); type: {complextype, float, double}",
      {.shape_fn = ToSparseShape});
  registry.Add(
      "DenseToCSRSparseMatrix(dense_input: T, indices: int64) -> (sparse_output: variant); T: "
      "{complextype, float, double}",
      {.shape_fn = FromDenseShape});
  registry.Add(
      "CSRSparseMatrixToDense(sparse_input: variant) -> (dense_output: type); type: {complextype, "
      "float, double}",
      {.shape_fn = ToDenseShape, .sized_by_value = true});
  registry.Add(
      "CSRSparseMatrixComponents(csr_sparse_matrix: variant, index: host int32) -> (row_ptrs: "
      "int32, "
      "col_inds: int32, values: type); type: {complextype, float, double}",
      {.shape_fn = ComponentsShape});
  registry.Add("SparseMatrixNNZ(sparse_matrix: variant) -> (nnz: host int32)",
               {.shape_fn = CountShape});
  registry.Add(
      "SparseMatrixMatMul(a: variant, b: T) -> (output: T); T: type; transpose_a: bool = false; "
      "transpose_b: bool = false; adjoint_a: bool = false; adjoint_b: bool = false; "
      "transpose_output: bool = false; conjugate_output: bool = false",
      {.shape_fn = MatMulShape, .sized_by_value = true});
  registry.Add(
      "SparseMatrixSparseMatMul(a: variant, b: variant) -> (c: variant); type: {complextype, "
      "float, double}; transpose_a: bool = false; transpose_b: bool = false; adjoint_a: bool = "
      "false; adjoint_b: bool = false",
      {.shape_fn = SparseProductShape, .sized_by_value = true});
  // TensorFlow has no kernels of the CPU for these: they do what it documents.
  registry.Add("SparseMatrixMul(a: variant, b: T) -> (output: variant); T: type",
               {.shape_fn = SameMatrixShape});
  registry.Add(
      "SparseMatrixAdd(a: variant, b: variant, alpha: host T, beta: host T) -> (c: variant); T: "
      "{complextype, float, double}",
      {.shape_fn = SumShape});
  registry.Add(
      "SparseMatrixZeros(dense_shape: host int64) -> (sparse_matrix: variant); type: {complextype, "
      "float, double}",
      {.shape_fn = FromSizesShape, .sized_by_value = true});
  registry.Add("SparseMatrixSoftmax(logits: variant) -> (softmax: variant); type: {float, double}",
               {.shape_fn = SameMatrixShape});
  registry.Add(
      "SparseMatrixSoftmaxGrad(softmax: variant, grad_softmax: variant) -> (gradient: variant); "
      "type: {float, double}",
      {.shape_fn = SameMatrixShape});
  registry.Add(
      "SparseMatrixTranspose(input: variant) -> (output: variant); conjugate: bool = false; type: "
      "{complextype, float, double}",
      {.shape_fn = TransposeShape});
}

}  // namespace formwork
