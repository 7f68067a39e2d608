#include "core/ops/linalg.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::Status CheckRank(absl::Span<const int64_t> first) {
  if (first.size() >= 2) return absl::OkStatus();
  return InvalidArgument("Input tensor 0 must have rank >= 2, got ", first.size());
}

// Of an input beside the first.
absl::Status CheckBatch(absl::Span<const int64_t> first, absl::Span<const int64_t> other) {
  if (first.size() != other.size()) {
    return InvalidArgument("All input tensors must have the same rank.");
  }
  const size_t outer = first.size() - 2;
  if (!MayBeEqual(first.first(outer), other.first(outer))) {
    return InvalidArgument("All input tensors must have the same outer dimensions.");
  }
  return absl::OkStatus();
}

MatrixStack StackOf(absl::Span<const int64_t> input) {
  const size_t outer = input.size() - 2;
  return {.batch = Dims(input.begin(), input.begin() + static_cast<int64_t>(outer)),
          .rows = input[outer],
          .cols = input[outer + 1]};
}

}  // namespace

Dims MatrixStack::With(std::initializer_list<int64_t> trailing) const {
  Dims dims = batch;
  dims.insert(dims.end(), trailing.begin(), trailing.end());
  return dims;
}

int64_t MatrixStack::count() const { return CountElements(batch); }

int64_t MatrixStack::smaller() const {
  if (rows == 0 || cols == 0) return 0;
  return rows < 0 || cols < 0 ? -1 : std::min(rows, cols);
}

absl::StatusOr<MatrixStack> PrepareMatrices(absl::Span<const int64_t> input) {
  FORMWORK_RETURN_IF_ERROR(CheckRank(input));
  return StackOf(input);
}

absl::StatusOr<MatrixStack> PrepareSquareMatrices(absl::Span<const int64_t> input) {
  FORMWORK_ASSIGN_OR_RETURN(MatrixStack stack, PrepareMatrices(input));
  if (!MayBeEqual(stack.rows, stack.cols)) {
    return InvalidArgument("Input matrix must be square.");
  }
  stack.rows = stack.cols = std::max(stack.rows, stack.cols);
  return stack;
}

absl::StatusOr<MatrixStack> PrepareLu(absl::Span<const int64_t> input) {
  if (input.size() < 2) {
    return InvalidArgument("Input tensor must have rank >= 2, got ", input.size());
  }
  return PrepareSquareMatrices(input);
}

absl::StatusOr<SvdAttrs> SvdAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<SvdAttrs>(attrs, "compute_uv", &SvdAttrs::compute_uv, "full_matrices",
                             &SvdAttrs::full_matrices);
}

absl::StatusOr<SolveGeometry> PrepareMatrixSolveLs(absl::Span<const int64_t> matrix,
                                                   absl::Span<const int64_t> rhs) {
  FORMWORK_RETURN_IF_ERROR(CheckRank(matrix));
  FORMWORK_RETURN_IF_ERROR(CheckBatch(matrix, rhs));
  MatrixStack stack = StackOf(matrix);
  const MatrixStack sides = StackOf(rhs);
  if (!MayBeEqual(stack.rows, sides.rows)) {
    return InvalidArgument("Input matrix and rhs are incompatible.");
  }
  stack.rows = std::max(stack.rows, sides.rows);
  Dims output = stack.With({stack.cols, sides.cols});
  return SolveGeometry{std::move(stack), sides.cols, std::move(output)};
}

absl::StatusOr<SolveGeometry> PrepareMatrixSolve(absl::Span<const int64_t> matrix,
                                                 absl::Span<const int64_t> rhs) {
  FORMWORK_RETURN_IF_ERROR(CheckRank(matrix));
  FORMWORK_RETURN_IF_ERROR(CheckBatch(matrix, rhs));
  const int64_t rows = matrix[matrix.size() - 2], cols = matrix[matrix.size() - 1];
  if (!MayBeEqual(rows, cols)) {
    return InvalidArgument("First input (lhs) must be a square matrix.");
  }
  FORMWORK_ASSIGN_OR_RETURN(SolveGeometry geometry, PrepareMatrixSolveLs(matrix, rhs));
  const int64_t size = std::max(geometry.matrix.rows, cols);
  geometry.matrix.rows = geometry.matrix.cols = size;
  geometry.output[geometry.output.size() - 2] = size;
  return geometry;
}

absl::StatusOr<TriangularAttrs> TriangularAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<TriangularAttrs>(attrs, "lower", &TriangularAttrs::lower, "adjoint",
                                    &TriangularAttrs::adjoint);
}

namespace {

// Of matrices [rows, size] whose batches broadcast with those of the right-hand sides.
absl::StatusOr<TriangularGeometry> PrepareBroadcastSolve(const TriangularAttrs& attrs, bool square,
                                                         absl::Span<const int64_t> matrix,
                                                         absl::Span<const int64_t> rhs) {
  if (matrix.size() < 2) return InvalidArgument("In[0] ndims must be >= 2: ", matrix.size());
  if (rhs.size() < 2) return InvalidArgument("In[1] ndims must be >= 2: ", rhs.size());
  const size_t matrix_batch = matrix.size() - 2, rhs_batch = rhs.size() - 2;
  std::optional<Dims> batch = BroadcastDims(matrix.first(matrix_batch), rhs.first(rhs_batch));
  if (!batch) {
    return InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ",
                           DimsText(matrix), " vs. ", DimsText(rhs));
  }
  const int64_t rows = matrix[matrix_batch], cols = matrix[matrix_batch + 1];
  if (square && !MayBeEqual(rows, cols)) {
    return InvalidArgument("In[0] matrices in the last dimensions must be square (", cols,
                           " =/= ", rows, ")");
  }
  if (!MayBeEqual(cols, rhs[rhs_batch])) {
    return InvalidArgument("In[0] mismatch In[1] shape: ", cols, " vs. ", rhs[rhs_batch], ": ",
                           DimsText(matrix), " ", DimsText(rhs), " ", attrs.lower ? 1 : 0, " ",
                           attrs.adjoint ? 1 : 0);
  }
  const int64_t size = std::max({square ? rows : -1, cols, rhs[rhs_batch]});
  TriangularGeometry geometry = {.rows = square ? size : rows,
                                 .size = size,
                                 .rhs_cols = rhs[rhs_batch + 1],
                                 .output = *std::move(batch)};
  geometry.output.push_back(size);
  geometry.output.push_back(geometry.rhs_cols);
  return geometry;
}

}  // namespace

absl::StatusOr<TriangularGeometry> PrepareTriangularSolve(const TriangularAttrs& attrs,
                                                          absl::Span<const int64_t> matrix,
                                                          absl::Span<const int64_t> rhs) {
  return PrepareBroadcastSolve(attrs, /*square=*/true, matrix, rhs);
}

absl::StatusOr<TriangularGeometry> PrepareBandedSolve(const TriangularAttrs& attrs,
                                                      absl::Span<const int64_t> matrix,
                                                      absl::Span<const int64_t> rhs) {
  if (matrix.size() >= 2 && CountElements(matrix) == 0) {
    return InvalidArgument("In[0] must not be an empty tensor: ", DimsText(matrix));
  }
  if (rhs.size() >= 2 && CountElements(rhs) == 0) {
    return InvalidArgument("In[1] must not be an empty tensor: ", DimsText(rhs));
  }
  return PrepareBroadcastSolve(attrs, /*square=*/false, matrix, rhs);
}

absl::StatusOr<SolveGeometry> PrepareTridiagonalSolve(absl::Span<const int64_t> diagonals,
                                                      absl::Span<const int64_t> rhs) {
  FORMWORK_RETURN_IF_ERROR(CheckRank(diagonals));
  FORMWORK_RETURN_IF_ERROR(CheckBatch(diagonals, rhs));
  MatrixStack stack = StackOf(diagonals);
  const MatrixStack sides = StackOf(rhs);
  if (!MayBeEqual(stack.rows, 3)) {
    return InvalidArgument("Expected diagonals to be provided as a matrix with 3 rows, got ",
                           stack.rows, " rows.");
  }
  if (!MayBeEqual(stack.cols, sides.rows)) {
    return InvalidArgument("Expected the same number of left-hand sides and right-hand sides, got ",
                           stack.cols, " and ", sides.rows, ".");
  }
  stack.cols = std::max(stack.cols, sides.rows);
  Dims output = stack.With({stack.cols, sides.cols});
  return SolveGeometry{std::move(stack), sides.cols, std::move(output)};
}

absl::StatusOr<MatrixStack> PrepareTridiagonalMatMul(absl::Span<const int64_t> above,
                                                     absl::Span<const int64_t> main,
                                                     absl::Span<const int64_t> below,
                                                     absl::Span<const int64_t> rhs) {
  FORMWORK_RETURN_IF_ERROR(CheckRank(above));
  for (absl::Span<const int64_t> other : {main, below, rhs}) {
    FORMWORK_RETURN_IF_ERROR(CheckBatch(above, other));
  }
  MatrixStack stack = StackOf(rhs);
  const std::pair<absl::string_view, absl::Span<const int64_t>> diagonals[] = {
      {"superdiagonal", above}, {"main diagonal", main}, {"subdiagonal", below}};
  for (const auto& [name, dims] : diagonals) {
    const MatrixStack diagonal = StackOf(dims);
    if (!MayBeEqual(diagonal.rows, 1) || !MayBeEqual(diagonal.cols, stack.rows)) {
      return InvalidArgument("Invalid ", name, " shape.");
    }
  }
  return stack;
}

absl::StatusOr<MatrixStack> PrepareCholeskyGrad(absl::Span<const int64_t> l,
                                                absl::Span<const int64_t> grad) {
  FORMWORK_RETURN_IF_ERROR(CheckRank(l));
  FORMWORK_RETURN_IF_ERROR(CheckBatch(l, grad));
  MatrixStack stack = StackOf(l);
  const MatrixStack other = StackOf(grad);
  if (!MayBeEqual(stack.rows, other.rows) || !MayBeEqual(stack.cols, other.cols)) {
    return InvalidArgument("Inputs (L and grad) must have the same shape.");
  }
  if (!MayBeEqual(stack.rows, stack.cols)) {
    return InvalidArgument("Inputs must be a square matrices.");
  }
  stack.rows = stack.cols = std::max({stack.rows, stack.cols, other.rows, other.cols});
  return stack;
}

absl::Status CheckCross(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  if (a.size() != b.size() || !MayBeEqual(a, b)) {
    return InvalidArgument("Both inputs must be of same shape: ", DimsText(a), " vs. ",
                           DimsText(b));
  }
  if (a.empty()) return InvalidArgument("Input must be at least 1D", DimsText(a));
  if (!MayBeEqual(a.back(), 3)) {
    return FailedPrecondition("Cross-products are only defined for 3-element vectors.");
  }
  return absl::OkStatus();
}

namespace {

// The output has the input's dimensions.
absl::Status SquareShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(c.input(0).dims()));
  c.set_output(0, PartialShape::Trusted(stack.With({stack.rows, stack.rows})));
  return absl::OkStatus();
}

// A number for each matrix.
absl::Status DeterminantShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(c.input(0).dims()));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::Trusted(stack.batch));
  return absl::OkStatus();
}

absl::Status LuShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareLu(c.input(0).dims()));
  c.set_output(0, PartialShape::Trusted(stack.With({stack.rows, stack.rows})));
  c.set_output(1, PartialShape::Trusted(stack.With({stack.rows})));
  return absl::OkStatus();
}

absl::Status QrShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const bool full, c.attrs().Get<bool>("full_matrices"));
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareMatrices(c.input(0).dims()));
  const int64_t inner = full ? stack.rows : stack.smaller();
  c.set_output(0, PartialShape::Trusted(stack.With({stack.rows, inner})));
  c.set_output(1, PartialShape::Trusted(stack.With({inner, stack.cols})));
  return absl::OkStatus();
}

absl::Status SvdShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SvdAttrs attrs, SvdAttrs::FromAttrs(c.attrs()));
  if (!attrs.compute_uv) {
    c.set_output(1, Shape());
    c.set_output(2, Shape());
  }
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareMatrices(c.input(0).dims()));
  c.set_output(0, PartialShape::Trusted(stack.With({stack.smaller()})));
  if (!attrs.compute_uv) return absl::OkStatus();
  const bool full = attrs.full_matrices;
  c.set_output(
      1, PartialShape::Trusted(stack.With({stack.rows, full ? stack.rows : stack.smaller()})));
  c.set_output(
      2, PartialShape::Trusted(stack.With({stack.cols, full ? stack.cols : stack.smaller()})));
  return absl::OkStatus();
}

// SelfAdjointEigV2, Eig.
absl::Status EigShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const bool compute_v, c.attrs().Get<bool>("compute_v"));
  if (!compute_v) c.set_output(1, Shape());
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(c.input(0).dims()));
  c.set_output(0, PartialShape::Trusted(stack.With({stack.rows})));
  if (compute_v) c.set_output(1, PartialShape::Trusted(stack.With({stack.rows, stack.rows})));
  return absl::OkStatus();
}

template <auto kPrepare>
absl::Status SolveShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const SolveGeometry geometry,
                            kPrepare(c.input(0).dims(), c.input(1).dims()));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

template <auto kPrepare>
absl::Status TriangularSolveShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const TriangularAttrs attrs, TriangularAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const TriangularGeometry geometry,
                            kPrepare(attrs, c.input(0).dims(), c.input(1).dims()));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status TridiagonalMatMulShape(InferenceContext& c) {
  for (int i = 0; i < 4; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack,
                            PrepareTridiagonalMatMul(c.input(0).dims(), c.input(1).dims(),
                                                     c.input(2).dims(), c.input(3).dims()));
  c.set_output(0, PartialShape::Trusted(stack.With({stack.rows, stack.cols})));
  return absl::OkStatus();
}

absl::Status CholeskyGradShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack,
                            PrepareCholeskyGrad(c.input(0).dims(), c.input(1).dims()));
  c.set_output(0, PartialShape::Trusted(stack.With({stack.rows, stack.rows})));
  return absl::OkStatus();
}

absl::Status CrossShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_RETURN_IF_ERROR(CheckCross(c.input(0).dims(), c.input(1).dims()));
  std::optional<PartialShape> both = c.input(0).Merge(c.input(1));
  if (both) c.set_output(0, *std::move(both));
  return absl::OkStatus();
}

}  // namespace

void RegisterLinalgOps(OpRegistry& registry) {
  registry.Add("Cholesky(input: T) -> (output: T); T: {complextype, double, float, half}",
               {.shape_fn = SquareShape});
  registry.Add(
      "MatrixTriangularSolve(matrix: T, rhs: T) -> (output: T); lower: bool = true; adjoint: bool "
      "= false; T: {floattype, complextype}",
      {.shape_fn = TriangularSolveShape<PrepareTriangularSolve>});
  registry.Add(
      "MatrixSolve(matrix: T, rhs: T) -> (output: T); adjoint: bool = false; T: {complextype, "
      "double, float, half}",
      {.shape_fn = SolveShape<PrepareMatrixSolve>});
  registry.Add(
      "MatrixInverse(input: T) -> (output: T); adjoint: bool = false; T: {complextype, double, "
      "float, half}",
      {.shape_fn = SquareShape});
  registry.Add("MatrixDeterminant(input: T) -> (output: T); T: {complextype, half, float, double}",
               {.shape_fn = DeterminantShape});
  registry.Add(
      "LogMatrixDeterminant(input: T) -> (sign: T, log_abs_determinant: T); T: {complextype, half, "
      "float, double}",
      {.shape_fn = DeterminantShape});
  registry.Add(
      "Lu(input: T) -> (lu: T, p: output_idx_type); T: {complextype, double, float, half}; "
      "output_idx_type: indextype = int32",
      {.shape_fn = LuShape});
  registry.Add(
      "Qr(input: host T) -> (q: host T, r: host T); full_matrices: bool = false; T: {complextype, "
      "double, float, half}",
      {.shape_fn = QrShape});
  registry.Add(
      "Svd(input: T) -> (s: T, u: T, v: T); compute_uv: bool = true; full_matrices: bool = false; "
      "T: {complextype, double, float, half}",
      {.shape_fn = SvdShape});
  registry.Add(
      "SelfAdjointEigV2(input: T) -> (e: T, v: T); compute_v: bool = true; T: {complextype, "
      "double, float, half}",
      {.shape_fn = EigShape});
  registry.Add(
      "Eig(input: T) -> (e: Tout, v: Tout); compute_v: bool = true; T: {complextype, float, "
      "double}; Tout: complextype",
      {.shape_fn = EigShape});
  registry.Add(
      "BandedTriangularSolve(matrix: T, rhs: T) -> (output: T); lower: bool = true; adjoint: bool "
      "= false; T: {complextype, double, float, half}",
      {.shape_fn = TriangularSolveShape<PrepareBandedSolve>});
  registry.Add(
      "TridiagonalSolve(diagonals: T, rhs: T) -> (output: T); partial_pivoting: bool = true; "
      "perturb_singular: bool = false; T: {complextype, double, float}",
      {.shape_fn = SolveShape<PrepareTridiagonalSolve>});
  registry.Add(
      "TridiagonalMatMul(superdiag: T, maindiag: T, subdiag: T, rhs: T) -> (output: T); T: "
      "{complextype, double, float}",
      {.shape_fn = TridiagonalMatMulShape});
  registry.Add("CholeskyGrad(l: T, grad: T) -> (output: T); T: {half, float, double}",
               {.shape_fn = CholeskyGradShape});
  registry.Add("Cross(a: T, b: T) -> (product: T); T: realnumbertype", {.shape_fn = CrossShape});
  registry.Add(
      "MatrixSolveLs(matrix: T, rhs: T, l2_regularizer: double) -> (output: T); T: {complextype, "
      "double, float, half}; fast: bool = true",
      {.shape_fn = SolveShape<PrepareMatrixSolveLs>});
  registry.Add("MatrixSquareRoot(input: T) -> (output: T); T: {complextype, double, float, half}",
               {.shape_fn = SquareShape});
  registry.Add("MatrixLogarithm(input: T) -> (output: T); T: complextype",
               {.shape_fn = SquareShape});
}

}  // namespace formwork
