// Triangular matrices, of all elements or of bands, whose batches broadcast.

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/kernels/linalg/each_matrix.h"
#include "core/kernels/linalg/triangular.h"
#include "core/kernels/matmul/batch_matmul.h"
#include "core/ops/linalg.h"

namespace formwork {

void RegisterTriangularSolveKernels(KernelRegistry& registry);

namespace {

template <typename T>
absl::Status TriangularSolve(KernelContext& ctx, const TriangularAttrs& attrs) {
  const Tensor& matrix = ctx.input(0);
  const Tensor& rhs = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(
      const TriangularGeometry geometry,
      PrepareTriangularSolve(attrs, matrix.shape().dims(), rhs.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, rhs.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t n = geometry.size, cols = geometry.rhs_cols;
  const int64_t batches = shape.num_elements() / (n * cols);
  const std::vector<int64_t> matrix_of =
      BatchIndex(matrix.shape().dims().first(matrix.rank() - 2), geometry.batch(), batches);
  const std::vector<int64_t> rhs_of =
      BatchIndex(rhs.shape().dims().first(rhs.rank() - 2), geometry.batch(), batches);
  const T* const matrices = matrix.data<T>();
  const T* const sides = rhs.data<T>();
  T* const to = output->mutable_data<T>();
  const Triangle triangle = {.lower = attrs.lower, .op = attrs.adjoint ? Op::kAdjoint : Op::kPlain};
  const double work = static_cast<double>(n * n) * static_cast<double>(cols) / 2;
  return ForMatrices(batches, work, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const T* const side = sides + (rhs_of.empty() ? b : rhs_of[b]) * n * cols;
      T* const x = to + b * n * cols;
      std::copy(side, side + n * cols, x);
      SolveTriangular(triangle, n, cols, matrices + (matrix_of.empty() ? b : matrix_of[b]) * n * n,
                      n, x, cols);
    }
    return absl::OkStatus();
  });
}

// x = op(a)^-1 x of a matrix of `bands` diagonals, the main one first where it is lower and last
// where it is upper; element i of each is in row i of the matrix.
template <typename T>
void SolveBanded(const TriangularAttrs& attrs, int64_t bands, int64_t n, int64_t cols, const T* a,
                 T* x) {
  const auto diagonal = [&](int64_t d) { return a + (attrs.lower ? d : bands - 1 - d) * n; };
  const bool forward = attrs.lower != attrs.adjoint;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forward ? step : n - 1 - step;
    T* const row = x + i * cols;
    for (int64_t d = 1; d < bands && d <= step; ++d) {
      const int64_t p = forward ? i - d : i + d;
      const T by = attrs.adjoint ? Conjugate(diagonal(d)[p]) : diagonal(d)[i];
      for (int64_t j = 0; j < cols; ++j) row[j] -= by * x[p * cols + j];
    }
    const T main = attrs.adjoint ? Conjugate(diagonal(0)[i]) : diagonal(0)[i];
    for (int64_t j = 0; j < cols; ++j) row[j] /= main;
    if (WorkIsCutAt(step, kDearItems)) return;
  }
}

template <typename T>
absl::Status BandedTriangularSolve(KernelContext& ctx, const TriangularAttrs& attrs) {
  const Tensor& matrix = ctx.input(0);
  const Tensor& rhs = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const TriangularGeometry geometry,
                            PrepareBandedSolve(attrs, matrix.shape().dims(), rhs.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, rhs.dtype(), shape));
  const int64_t n = geometry.size, cols = geometry.rhs_cols, bands = geometry.rows;
  const int64_t batches = shape.num_elements() / (n * cols);
  const std::vector<int64_t> matrix_of =
      BatchIndex(matrix.shape().dims().first(matrix.rank() - 2), geometry.batch(), batches);
  const std::vector<int64_t> rhs_of =
      BatchIndex(rhs.shape().dims().first(rhs.rank() - 2), geometry.batch(), batches);
  const T* const matrices = matrix.data<T>();
  const T* const sides = rhs.data<T>();
  T* const to = output->mutable_data<T>();
  const double work = static_cast<double>(n * cols) * static_cast<double>(bands);
  return ForMatrices(batches, work, [&](int64_t begin, int64_t end) -> absl::Status {
    for (int64_t b = begin; b < end; ++b) {
      const T* const a = matrices + (matrix_of.empty() ? b : matrix_of[b]) * bands * n;
      const T* const main = a + (attrs.lower ? 0 : bands - 1) * n;
      for (int64_t i = 0; i < n; ++i) {
        if (!(std::abs(main[i]) > 0)) return InvalidArgument("Input matrix is not invertible.");
      }
      const T* const side = sides + (rhs_of.empty() ? b : rhs_of[b]) * n * cols;
      T* const x = to + b * n * cols;
      std::copy(side, side + n * cols, x);
      SolveBanded(attrs, bands, n, cols, a, x);
    }
    return absl::OkStatus();
  });
}

template <bool kBanded>
absl::StatusOr<KernelFn> MakeTriangularSolve(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const TriangularAttrs attrs, TriangularAttrs::FromAttrs(init.attrs()));
  return ByMatrixDType(init, [attrs](auto zero) {
    using T = decltype(zero);
    return KernelFn([attrs](KernelContext& ctx) {
      return kBanded ? BandedTriangularSolve<T>(ctx, attrs) : TriangularSolve<T>(ctx, attrs);
    });
  });
}

}  // namespace

void RegisterTriangularSolveKernels(KernelRegistry& registry) {
  registry.Add("MatrixTriangularSolve", MakeTriangularSolve<false>);
  registry.Add("BandedTriangularSolve", MakeTriangularSolve<true>);
}

}  // namespace formwork
