// MatrixSolveLs: by the normal equations, or by singular values.

#include <algorithm>
#include <complex>
#include <limits>
#include <memory>

#include "core/kernels/linalg/decompose.h"
#include "core/kernels/linalg/each_matrix.h"
#include "core/kernels/linalg/factor.h"
#include "core/kernels/linalg/triangular.h"
#include "core/ops/linalg.h"

namespace formwork {

void RegisterLeastSquaresKernel(KernelRegistry& registry);

namespace {

template <typename T>
std::unique_ptr<T[]> NewArray(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(n)]);
}

// The x of the least norm that minimises |a x - b|^2 + l2 |x|^2: of a^H a, or of a a^H where there
// are fewer rows than columns. False where that is not positive definite.
template <typename T>
bool SolveNormalEquations(int64_t m, int64_t n, int64_t cols, const T* a, const T* b, double l2,
                          T* x) {
  const bool tall = m >= n;
  const int64_t size = std::min(m, n);
  const std::unique_ptr<T[]> gram = NewArray<T>(size * size);
  const Op first = tall ? Op::kAdjoint : Op::kPlain;
  const Op second = tall ? Op::kPlain : Op::kAdjoint;
  SetProduct(first, second, size, size, std::max(m, n), a, n, a, n, gram.get(), size);
  for (int64_t i = 0; i < size; ++i) gram[i * size + i] += static_cast<RealOf<T>>(l2);
  if (!FactorCholesky(size, gram.get(), size)) return false;
  const std::unique_ptr<T[]> copy = tall ? nullptr : NewArray<T>(m * cols);
  T* const y = tall ? x : copy.get();
  if (tall) {
    SetProduct(Op::kAdjoint, Op::kPlain, n, cols, m, a, n, b, cols, y, cols);
  } else {
    std::copy(b, b + m * cols, y);
  }
  SolveTriangular({.lower = true}, size, cols, gram.get(), size, y, cols);
  SolveTriangular({.lower = true, .op = Op::kAdjoint}, size, cols, gram.get(), size, y, cols);
  if (!tall) SetProduct(Op::kAdjoint, Op::kPlain, n, cols, m, a, n, y, cols, x, cols);
  return true;
}

// The x of the least norm that minimises |a x - b|, of any rank.
template <typename T>
void SolveByRank(int64_t m, int64_t n, int64_t cols, const T* a, const T* b, T* x) {
  const int64_t size = std::min(m, n);
  const std::unique_ptr<RealOf<T>[]> values = NewArray<RealOf<T>>(size);
  const std::unique_ptr<T[]> u = NewArray<T>(m * size), v = NewArray<T>(n * size);
  if (!DecomposeSingular(m, n, a, /*full=*/false, values.get(), u.get(), v.get())) {
    std::fill(x, x + n * cols, T(0));  // As TensorFlow, for which such a matrix has no rank.
    return;
  }
  const RealOf<T> least =
      values[0] * std::numeric_limits<RealOf<T>>::epsilon() * static_cast<RealOf<T>>(size);
  const std::unique_ptr<T[]> y = NewArray<T>(size * cols);
  SetProduct(Op::kAdjoint, Op::kPlain, size, cols, m, u.get(), size, b, cols, y.get(), cols);
  for (int64_t i = 0; i < size; ++i) {
    const RealOf<T> by = values[i] > least ? 1 / values[i] : 0;
    for (int64_t j = 0; j < cols; ++j) y[i * cols + j] *= by;
  }
  SetProduct(Op::kPlain, Op::kPlain, n, cols, size, v.get(), size, y.get(), cols, x, cols);
}

template <typename T>
absl::Status MatrixSolveLs(KernelContext& ctx, bool fast) {
  const Tensor& matrix = ctx.input(0);
  const Tensor& rhs = ctx.input(1);
  const Tensor& l2_regularizer = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const SolveGeometry geometry,
                            PrepareMatrixSolveLs(matrix.shape().dims(), rhs.shape().dims()));
  if (!l2_regularizer.shape().is_scalar()) {
    return InvalidArgument("l2_regularizer must be scalar, got shape ",
                           l2_regularizer.shape().ToString());
  }
  const double l2 = *l2_regularizer.data<double>();
  if (!(l2 >= 0)) return InvalidArgument("l2_regularizer must be >= 0.");
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, rhs.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t m = geometry.matrix.rows, n = geometry.matrix.cols, cols = geometry.rhs_cols;
  const T* const a = matrix.data<T>();
  const T* const b = rhs.data<T>();
  T* const to = output->mutable_data<T>();
  const double work = static_cast<double>(m) * static_cast<double>(n) *
                      static_cast<double>((fast ? 1 : 10) * std::min(m, n) + cols);
  return ForMatrices(
      geometry.matrix.count(), work, [&](int64_t begin, int64_t end) -> absl::Status {
        for (int64_t i = begin; i < end; ++i) {
          T* const x = to + i * n * cols;
          if (m == 0) {
            std::fill(x, x + n * cols, T(0));
          } else if (!fast) {
            SolveByRank(m, n, cols, a + i * m * n, b + i * m * cols, x);
          } else if (!SolveNormalEquations(m, n, cols, a + i * m * n, b + i * m * cols, l2, x)) {
            return InvalidArgument(
                "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or "
                "provide ",
                m >= n ? "a larger" : "an", " l2_regularizer > 0.");
          }
        }
        return absl::OkStatus();
      });
}

absl::StatusOr<KernelFn> MakeMatrixSolveLs(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool fast, init.attrs().Get<bool>("fast"));
  return ByMatrixDType(init, [fast](auto zero) {
    using T = decltype(zero);
    return KernelFn([fast](KernelContext& ctx) { return MatrixSolveLs<T>(ctx, fast); });
  });
}

}  // namespace

void RegisterLeastSquaresKernel(KernelRegistry& registry) {
  registry.Add("MatrixSolveLs", MakeMatrixSolveLs);
}

}  // namespace formwork
