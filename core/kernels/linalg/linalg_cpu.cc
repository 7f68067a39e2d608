// Factorisations of square matrices, and what follows from them.

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/kernels/linalg/each_matrix.h"
#include "core/kernels/linalg/factor.h"
#include "core/kernels/linalg/triangular.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/linalg.h"

namespace formwork {

void RegisterDecomposeKernels(KernelRegistry& registry);        // decompose_cpu.cc
void RegisterLeastSquaresKernel(KernelRegistry& registry);      // least_squares_cpu.cc
void RegisterMatrixFunctionKernels(KernelRegistry& registry);   // matrix_function_cpu.cc
void RegisterTridiagonalKernels(KernelRegistry& registry);      // tridiagonal_cpu.cc
void RegisterTriangularSolveKernels(KernelRegistry& registry);  // triangular_solve_cpu.cc

namespace {

// n x n elements of `from`, converted, or of its adjoint.
template <typename T, typename S>
void LoadSquare(bool adjoint, int64_t n, const S* from, T* to) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (adjoint) {
        to[i * n + j] = Conjugate(static_cast<T>(from[j * n + i]));
      } else {
        to[i * n + j] = static_cast<T>(from[i * n + j]);
      }
    }
  }
}

// Where one is 0 or NaN the matrix has no inverse, as far as TensorFlow is concerned.
template <typename T>
bool PivotsAreNonzero(int64_t n, const T* lu) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(std::abs(lu[i * n + i]) > 0)) return false;
  }
  return true;
}

// --- Cholesky -----------------------------------------------------------------------------------

template <typename T>
void LoadLower(int64_t n, const T* from, T* to) {
  for (int64_t i = 0; i < n; ++i) {
    std::copy(from + i * n, from + i * n + i + 1, to + i * n);
    std::fill(to + i * n + i + 1, to + (i + 1) * n, T(0));
  }
}

// TensorFlow's answer where the matrix is not positive definite: NaNs, not an error. What it has
// above the diagonal then is not initialised; here there are zeros.
template <typename T>
void FillLowerWithNaN(int64_t n, T* to) {
  const T nan = std::numeric_limits<decltype(std::abs(T()))>::quiet_NaN();
  for (int64_t i = 0; i < n; ++i) std::fill(to + i * n, to + i * n + i + 1, nan);
}

absl::StatusOr<KernelFn> MakeCholesky(KernelInit& init) {
  return ByMatrixDType(init, [](auto zero) {
    using T = decltype(zero);
    return KernelFn([](KernelContext& ctx) -> absl::Status {
      const Tensor& input = ctx.input(0);
      FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack,
                                PrepareSquareMatrices(input.shape().dims()));
      FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                                ctx.AllocateOutput(0, input.dtype(), input.shape()));
      const int64_t n = stack.rows;
      if (n == 0) return absl::OkStatus();
      const T* const from = input.data<T>();
      T* const to = output->mutable_data<T>();
      return ForMatrices(stack.count(), Cubed(n) / 6, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          T* const matrix = to + b * n * n;
          LoadLower(n, from + b * n * n, matrix);
          if (!FactorCholesky(n, matrix, n)) FillLowerWithNaN(n, matrix);
        }
        return absl::OkStatus();
      });
    });
  });
}

// TensorFlow's CholeskyGrad: with P the lower triangle of L^T grad, its diagonal halved, the mean
// of L^-T P L^-1 and its transpose.
template <typename T>
absl::Status CholeskyGrad(KernelContext& ctx) {
  const Tensor& l = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack,
                            PrepareCholeskyGrad(l.shape().dims(), ctx.input(1).shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, l.dtype(), l.shape()));
  const int64_t n = stack.rows;
  if (n == 0) return absl::OkStatus();
  const T* const from_l = l.data<T>();
  const T* const from_grad = ctx.input(1).data<T>();
  T* const to = output->mutable_data<T>();
  return ForMatrices(stack.count(), 3 * Cubed(n), [&](int64_t begin, int64_t end) {
    const size_t size = static_cast<size_t>(n * n);
    const std::unique_ptr<T[]> lower(new T[size]), grad(new T[size]), product(new T[size]);
    for (int64_t b = begin; b < end; ++b) {
      LoadLower(n, from_l + b * n * n, lower.get());
      LoadLower(n, from_grad + b * n * n, grad.get());
      SetProduct(Op::kAdjoint, Op::kPlain, n, n, n, lower.get(), n, grad.get(), n, product.get(),
                 n);
      for (int64_t i = 0; i < n; ++i) {
        product[i * n + i] /= 2;
        std::fill(product.get() + i * n + i + 1, product.get() + (i + 1) * n, T(0));
      }
      const Triangle inverse = {.lower = true, .op = Op::kAdjoint};
      SolveTriangular(inverse, n, n, lower.get(), n, product.get(), n);
      LoadSquare(true, n, product.get(), grad.get());
      SolveTriangular(inverse, n, n, lower.get(), n, grad.get(), n);
      T* const matrix = to + b * n * n;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          matrix[i * n + j] = (grad[i * n + j] + grad[j * n + i]) / 2;
        }
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeCholeskyGrad(KernelInit& init) {
  switch (init.input_dtypes()[0]) {
    FORMWORK_CASE(float, return KernelFn(CholeskyGrad<T>))
    FORMWORK_CASE(double, return KernelFn(CholeskyGrad<T>))
    default:
      return Unimplemented("CholeskyGrad: dtype ", DTypeName(init.input_dtypes()[0]),
                           " is not supported");
  }
}

// --- Lu -----------------------------------------------------------------------------------------

template <typename T, typename Index>
absl::Status Lu(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareLu(input.shape().dims()));
  const int64_t n = stack.rows;
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const lu, ctx.AllocateOutput(0, input.dtype(), input.shape()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape order_shape, Shape::Make(stack.With({n})));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const order,
                            ctx.AllocateOutput(1, DTypeOf<Index>::value, order_shape));
  if (n == 0) return absl::OkStatus();
  const T* const from = input.data<T>();
  T* const to = lu->mutable_data<T>();
  Index* const to_order = order->mutable_data<Index>();
  return ForMatrices(stack.count(), Cubed(n) / 3, [&](int64_t begin, int64_t end) -> absl::Status {
    std::vector<int64_t> rows(static_cast<size_t>(n));
    for (int64_t b = begin; b < end; ++b) {
      T* const matrix = to + b * n * n;
      std::copy(from + b * n * n, from + (b + 1) * n * n, matrix);
      FactorLu(n, matrix, n, rows.data());
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      if (!PivotsAreNonzero(n, matrix)) return InvalidArgument("Input is not invertible.");
      for (int64_t i = 0; i < n; ++i) to_order[b * n + i] = static_cast<Index>(rows[i]);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeLu(KernelInit& init) {
  const bool wide = init.output_dtypes()[1] == DType::kInt64;
  return ByMatrixDType(init, [wide](auto zero) {
    using T = decltype(zero);
    return wide ? KernelFn(Lu<T, int64_t>) : KernelFn(Lu<T, int32_t>);
  });
}

// --- MatrixInverse, MatrixSolve -----------------------------------------------------------------

// x = lu^-1 b with the rows of b in the order of `order`.
template <typename T>
void SolveByLu(int64_t n, int64_t cols, const T* lu, const int64_t* order, const T* b, T* x) {
  for (int64_t i = 0; i < n; ++i) {
    std::copy(b + order[i] * cols, b + (order[i] + 1) * cols, x + i * cols);
  }
  SolveTriangular({.lower = true, .unit = true}, n, cols, lu, n, x, cols);
  SolveTriangular({.lower = false}, n, cols, lu, n, x, cols);
}

// Elements S, computed in T.
template <typename T, typename S>
absl::Status MatrixInverse(KernelContext& ctx, bool adjoint) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(input.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                            ctx.AllocateOutput(0, input.dtype(), input.shape()));
  const int64_t n = stack.rows;
  if (n == 0) return absl::OkStatus();
  const S* const from = input.data<S>();
  S* const to = output->mutable_data<S>();
  return ForMatrices(stack.count(), Cubed(n), [&](int64_t begin, int64_t end) -> absl::Status {
    const size_t size = static_cast<size_t>(n * n);
    const std::unique_ptr<T[]> lu(new T[size]);
    const std::unique_ptr<T[]> inverse(new T[size]);
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t b = begin; b < end; ++b) {
      LoadSquare(adjoint, n, from + b * n * n, lu.get());
      FactorLu(n, lu.get(), n, order.data());
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      if (!PivotsAreNonzero(n, lu.get())) return InvalidArgument("Input is not invertible.");
      std::fill(inverse.get(), inverse.get() + size, T(0));
      for (int64_t i = 0; i < n; ++i) inverse[i * n + order[i]] = T(1);
      SolveTriangular({.lower = true, .unit = true}, n, n, lu.get(), n, inverse.get(), n);
      SolveTriangular({.lower = false}, n, n, lu.get(), n, inverse.get(), n);
      LoadSquare(false, n, inverse.get(), to + b * n * n);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMatrixInverse(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool adjoint, init.attrs().Get<bool>("adjoint"));
  if (init.input_dtypes()[0] == DType::kHalf) {
    return KernelFn(
        [adjoint](KernelContext& ctx) { return MatrixInverse<float, half>(ctx, adjoint); });
  }
  return ByMatrixDType(init, [adjoint](auto zero) {
    using T = decltype(zero);
    return KernelFn([adjoint](KernelContext& ctx) { return MatrixInverse<T, T>(ctx, adjoint); });
  });
}

template <typename T>
absl::Status MatrixSolve(KernelContext& ctx, bool adjoint) {
  const Tensor& matrix = ctx.input(0);
  const Tensor& rhs = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const SolveGeometry geometry,
                            PrepareMatrixSolve(matrix.shape().dims(), rhs.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, rhs.dtype(), rhs.shape()));
  if (output->num_elements() == 0) return absl::OkStatus();
  const int64_t n = geometry.matrix.rows, cols = geometry.rhs_cols;
  const T* const from = matrix.data<T>();
  const T* const sides = rhs.data<T>();
  T* const to = output->mutable_data<T>();
  const double work = Cubed(n) / 3 + static_cast<double>(n) * static_cast<double>(n * cols);
  return ForMatrices(
      geometry.matrix.count(), work, [&](int64_t begin, int64_t end) -> absl::Status {
        const std::unique_ptr<T[]> lu(new T[static_cast<size_t>(n * n)]);
        std::vector<int64_t> order(static_cast<size_t>(n));
        for (int64_t b = begin; b < end; ++b) {
          LoadSquare(adjoint, n, from + b * n * n, lu.get());
          FactorLu(n, lu.get(), n, order.data());
          FORMWORK_RETURN_IF_ERROR(WorkStatus());
          if (!PivotsAreNonzero(n, lu.get())) {
            return InvalidArgument("Input matrix is not invertible.");
          }
          SolveByLu(n, cols, lu.get(), order.data(), sides + b * n * cols, to + b * n * cols);
        }
        return absl::OkStatus();
      });
}

absl::StatusOr<KernelFn> MakeMatrixSolve(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool adjoint, init.attrs().Get<bool>("adjoint"));
  return ByMatrixDType(init, [adjoint](auto zero) {
    using T = decltype(zero);
    return KernelFn([adjoint](KernelContext& ctx) { return MatrixSolve<T>(ctx, adjoint); });
  });
}

// --- Determinants -------------------------------------------------------------------------------

template <typename T>
struct Determinant {
  T sign;
  decltype(std::abs(T())) log_abs;
};

// sign(x) = x / |x|; 0 of 0, NaN of NaN.
template <typename T>
T SignOf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  } else {
    const auto magnitude = std::abs(x);
    return magnitude > 0 || magnitude != magnitude ? x / magnitude : T(0);
  }
}

template <typename T>
Determinant<T> DeterminantOf(int64_t n, const T* lu, bool odd) {
  Determinant<T> result = {T(odd ? -1 : 1), 0};
  for (int64_t i = 0; i < n; ++i) {
    const T pivot = lu[i * n + i];
    result.sign *= SignOf(pivot);
    result.log_abs += std::log(std::abs(pivot));
  }
  return result;
}

// Calls store(b, determinant) for each matrix.
template <typename T, typename Store>
absl::Status Determinants(const Tensor& input, const MatrixStack& stack, Store store) {
  const int64_t n = stack.rows;
  const T* const from = input.data<T>();
  return ForMatrices(stack.count(), Cubed(n) / 3, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<T[]> lu(new T[static_cast<size_t>(n * n)]);
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t b = begin; b < end; ++b) {
      std::copy(from + b * n * n, from + (b + 1) * n * n, lu.get());
      const bool odd = FactorLu(n, lu.get(), n, order.data());
      store(b, DeterminantOf(n, lu.get(), odd));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMatrixDeterminant(KernelInit& init) {
  return ByMatrixDType(init, [](auto zero) {
    using T = decltype(zero);
    return KernelFn([](KernelContext& ctx) -> absl::Status {
      const Tensor& input = ctx.input(0);
      FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack,
                                PrepareSquareMatrices(input.shape().dims()));
      FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                                ctx.AllocateOutput(0, input.dtype(), Shape::Trusted(stack.batch)));
      T* const to = output->mutable_data<T>();
      // By its logarithm, as TensorFlow: where factors overflow the product may not.
      return Determinants<T>(input, stack, [to](int64_t b, const Determinant<T>& determinant) {
        to[b] = determinant.sign * std::exp(determinant.log_abs);
      });
    });
  });
}

absl::StatusOr<KernelFn> MakeLogMatrixDeterminant(KernelInit& init) {
  return ByMatrixDType(init, [](auto zero) {
    using T = decltype(zero);
    return KernelFn([](KernelContext& ctx) -> absl::Status {
      const Tensor& input = ctx.input(0);
      FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack,
                                PrepareSquareMatrices(input.shape().dims()));
      const Shape shape = Shape::Trusted(stack.batch);
      FORMWORK_ASSIGN_OR_RETURN(Tensor* const sign, ctx.AllocateOutput(0, input.dtype(), shape));
      FORMWORK_ASSIGN_OR_RETURN(Tensor* const log_abs, ctx.AllocateOutput(1, input.dtype(), shape));
      T* const to_sign = sign->mutable_data<T>();
      T* const to_log_abs = log_abs->mutable_data<T>();
      return Determinants<T>(input, stack,
                             [to_sign, to_log_abs](int64_t b, const Determinant<T>& determinant) {
                               to_sign[b] = determinant.sign;
                               to_log_abs[b] = determinant.log_abs;
                             });
    });
  });
}

}  // namespace

void RegisterLinalgCpuKernels(KernelRegistry& registry) {
  registry.Add("Cholesky", MakeCholesky);
  registry.Add("CholeskyGrad", MakeCholeskyGrad);
  registry.Add("Lu", MakeLu);
  registry.Add("MatrixInverse", MakeMatrixInverse);
  registry.Add("MatrixSolve", MakeMatrixSolve);
  registry.Add("MatrixDeterminant", MakeMatrixDeterminant);
  registry.Add("LogMatrixDeterminant", MakeLogMatrixDeterminant);
  RegisterDecomposeKernels(registry);
  RegisterLeastSquaresKernel(registry);
  RegisterMatrixFunctionKernels(registry);
  RegisterTridiagonalKernels(registry);
  RegisterTriangularSolveKernels(registry);
}

}  // namespace formwork
