// TridiagonalSolve, TridiagonalMatMul, Cross: vectors of a few numbers at each place.

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/linalg/each_matrix.h"
#include "core/ops/linalg.h"
#include "core/ops/read_attrs.h"

namespace formwork {

void RegisterTridiagonalKernels(KernelRegistry& registry);

namespace {

struct TridiagonalAttrs {
  bool partial_pivoting = true;
  bool perturb_singular = false;
};

// A row of the matrix while it is made upper triangular: elements i, i + 1 and i + 2.
template <typename T>
struct UpperRow {
  T main, next, after;
};

// Of one matrix: above, main and below are its diagonals, x is the right-hand side and then the
// solution. False where a pivot is 0; then the solution is NaN.
template <typename T>
bool SolveTridiagonal(const TridiagonalAttrs& attrs, int64_t n, int64_t cols, const T* above,
                      const T* main, const T* below, T* x, std::vector<UpperRow<T>>& rows) {
  using R = decltype(std::abs(T()));
  R perturbation = 0;
  if (attrs.perturb_singular) {
    for (int64_t i = 0; i < n; ++i) {
      perturbation =
          std::max({perturbation, std::abs(main[i]), i + 1 < n ? std::abs(above[i]) : R(0),
                    i > 0 ? std::abs(below[i]) : R(0)});
    }
    perturbation =
        std::max(perturbation * std::numeric_limits<R>::epsilon(), std::numeric_limits<R>::min());
  }
  rows[0] = {main[0], n > 1 ? above[0] : T(0), T(0)};
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i, kDearItems)) return true;
    UpperRow<T> row = rows[i];
    const bool last = i + 1 == n;
    UpperRow<T> under = {};
    T factor = 0;
    if (!last) {
      under = {main[i + 1], i + 2 < n ? above[i + 1] : T(0), T(0)};
      const T first = below[i + 1];
      T* const here = x + i * cols;
      if (attrs.partial_pivoting && std::abs(row.main) < std::abs(first)) {
        factor = row.main / first;
        const UpperRow<T> before = row;
        row = {first, under.main, under.next};
        under = {before.next - factor * row.next, before.after - factor * row.after, T(0)};
        std::swap_ranges(here, here + cols, here + cols);
      } else {
        if (row.main == T(0) && attrs.perturb_singular) row.main = perturbation;
        if (row.main == T(0)) return false;
        factor = first / row.main;
        under.main -= factor * row.next;
        under.next -= factor * row.after;
      }
      for (int64_t j = 0; j < cols; ++j) here[cols + j] -= factor * here[j];
      rows[i + 1] = under;
    } else {
      if (row.main == T(0) && attrs.perturb_singular) row.main = perturbation;
      if (row.main == T(0)) return false;
    }
    rows[i] = row;
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    T* const here = x + i * cols;
    const UpperRow<T>& row = rows[i];
    for (int64_t j = 0; j < cols; ++j) {
      if (i + 1 < n) here[j] -= row.next * here[cols + j];
      if (i + 2 < n) here[j] -= row.after * here[2 * cols + j];
      here[j] /= row.main;
    }
    if (WorkIsCutAt(i, kDearItems)) return true;
  }
  return true;
}

template <typename T>
absl::Status TridiagonalSolve(KernelContext& ctx, const TridiagonalAttrs& attrs) {
  const Tensor& diagonals = ctx.input(0);
  const Tensor& rhs = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const SolveGeometry geometry,
                            PrepareTridiagonalSolve(diagonals.shape().dims(), rhs.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, rhs.dtype(), rhs.shape()));
  if (output->num_elements() == 0) return absl::OkStatus();
  const int64_t n = geometry.matrix.cols, cols = geometry.rhs_cols;
  const T* const from = diagonals.data<T>();
  const T* const sides = rhs.data<T>();
  T* const to = output->mutable_data<T>();
  const double work = 8 * static_cast<double>(n) * static_cast<double>(cols);
  return ForMatrices(geometry.matrix.count(), work, [&](int64_t begin, int64_t end) {
    std::vector<UpperRow<T>> rows(static_cast<size_t>(n));
    for (int64_t b = begin; b < end; ++b) {
      T* const x = to + b * n * cols;
      const T* const above = from + b * 3 * n;
      std::copy(sides + b * n * cols, sides + (b + 1) * n * cols, x);
      if (!SolveTridiagonal(attrs, n, cols, above, above + n, above + 2 * n, x, rows)) {
        std::fill(x, x + n * cols, T(std::numeric_limits<decltype(std::abs(T()))>::quiet_NaN()));
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeTridiagonalSolve(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(
      const TridiagonalAttrs attrs,
      ReadAttrs<TridiagonalAttrs>(init.attrs(), "partial_pivoting",
                                  &TridiagonalAttrs::partial_pivoting, "perturb_singular",
                                  &TridiagonalAttrs::perturb_singular));
  if (attrs.perturb_singular && !attrs.partial_pivoting) {
    return InvalidArgument("Setting perturb_singular requires also setting partial_pivoting.");
  }
  return ByMatrixDType(init, [attrs](auto zero) {
    using T = decltype(zero);
    return KernelFn([attrs](KernelContext& ctx) { return TridiagonalSolve<T>(ctx, attrs); });
  });
}

template <typename T>
absl::Status TridiagonalMatMul(KernelContext& ctx) {
  const Tensor& rhs = ctx.input(3);
  FORMWORK_ASSIGN_OR_RETURN(
      const MatrixStack stack,
      PrepareTridiagonalMatMul(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                               ctx.input(2).shape().dims(), rhs.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, rhs.dtype(), rhs.shape()));
  if (output->num_elements() == 0) return absl::OkStatus();
  const int64_t n = stack.rows, cols = stack.cols;
  const T* const above = ctx.input(0).data<T>();
  const T* const main = ctx.input(1).data<T>();
  const T* const below = ctx.input(2).data<T>();
  const T* const x = rhs.data<T>();
  T* const to = output->mutable_data<T>();
  // Rows of all matrices, which lie as their diagonals' elements do.
  return ForMatrices(stack.count() * n, 3 * static_cast<double>(cols),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t r = begin; r < end; ++r) {
                         const int64_t i = r % n;
                         const T* const row = x + r * cols;
                         T* const out = to + r * cols;
                         for (int64_t j = 0; j < cols; ++j) {
                           T sum = main[r] * row[j];
                           if (i + 1 < n) sum += above[r] * row[cols + j];
                           if (i > 0) sum += below[r] * row[j - cols];
                           out[j] = sum;
                         }
                       }
                       return absl::OkStatus();
                     });
}

absl::StatusOr<KernelFn> MakeTridiagonalMatMul(KernelInit& init) {
  return ByMatrixDType(init, [](auto zero) { return KernelFn(TridiagonalMatMul<decltype(zero)>); });
}

template <typename T>
absl::Status Cross(KernelContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  FORMWORK_RETURN_IF_ERROR(CheckCross(a.shape().dims(), b.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, a.dtype(), a.shape()));
  const T* const x = a.data<T>();
  const T* const y = b.data<T>();
  T* const to = output->mutable_data<T>();
  ParallelFor(a.num_elements() / 3, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t v = 3 * begin; v < 3 * end; v += 3) {
      for (int64_t i = 0; i < 3; ++i) {
        const int64_t j = v + (i + 1) % 3, k = v + (i + 2) % 3;
        to[v + i] = math::Sub(math::Mul(x[j], y[k]), math::Mul(x[k], y[j]));
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeCross(KernelInit& init) {
  switch (init.input_dtypes()[0]) {
    FORMWORK_REAL_CASES(return KernelFn(Cross<T>))
    default:
      return Unimplemented("Cross: dtype ", DTypeName(init.input_dtypes()[0]), " is not supported");
  }
}

}  // namespace

void RegisterTridiagonalKernels(KernelRegistry& registry) {
  registry.Add("TridiagonalSolve", MakeTridiagonalSolve);
  registry.Add("TridiagonalMatMul", MakeTridiagonalMatMul);
  registry.Add("Cross", MakeCross);
}

}  // namespace formwork
