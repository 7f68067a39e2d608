// Solvers whose batches broadcast.

#include <complex>
#include <vector>

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

absl::StatusOr<KernelFn> MakeTriangularSolve(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const TriangularAttrs attrs, TriangularAttrs::FromAttrs(init.attrs()));
  return ByMatrixDType(init, [attrs](auto zero) {
    using T = decltype(zero);
    return KernelFn([attrs](KernelContext& ctx) { return TriangularSolve<T>(ctx, attrs); });
  });
}

}  // namespace

void RegisterTriangularSolveKernels(KernelRegistry& registry) {
  registry.Add("MatrixTriangularSolve", MakeTriangularSolve);
}

}  // namespace formwork
