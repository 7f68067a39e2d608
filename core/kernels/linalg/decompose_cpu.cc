// Qr, Svd, SelfAdjointEigV2, Eig.

#include <algorithm>
#include <complex>
#include <limits>
#include <memory>
#include <vector>

#include "core/kernels/linalg/decompose.h"
#include "core/kernels/linalg/each_matrix.h"
#include "core/kernels/linalg/reflectors.h"
#include "core/ops/linalg.h"

namespace formwork {

void RegisterDecomposeKernels(KernelRegistry& registry);

namespace {

// An output that is not asked for: a scalar, as TensorFlow's, which leaves it uninitialised.
template <typename T>
absl::Status NoOutput(KernelContext& ctx, int i) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const none, ctx.AllocateOutput(i, DTypeOf<T>::value, Shape()));
  *none->mutable_data<T>() = T(0);
  return absl::OkStatus();
}

// Output i, [batch..., trailing...].
template <typename T>
absl::StatusOr<T*> Output(KernelContext& ctx, int i, const MatrixStack& stack,
                          std::initializer_list<int64_t> trailing) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(stack.With(trailing)));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(i, DTypeOf<T>::value, shape));
  return output->mutable_data<T>();
}

// Multiplications that a matrix takes, for each of its elements `by` times its smaller dimension.
double WorkOf(const MatrixStack& stack, double by) {
  return by * static_cast<double>(stack.rows) * static_cast<double>(stack.cols) *
         static_cast<double>(stack.smaller());
}

// Elements S, computed in T.
template <typename T, typename S>
absl::Status Qr(KernelContext& ctx, bool full) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareMatrices(input.shape().dims()));
  const int64_t m = stack.rows, n = stack.cols, smaller = stack.smaller();
  const int64_t inner = full ? m : smaller;
  FORMWORK_ASSIGN_OR_RETURN(S* const q, Output<S>(ctx, 0, stack, {m, inner}));
  FORMWORK_ASSIGN_OR_RETURN(S* const r, Output<S>(ctx, 1, stack, {inner, n}));
  const S* const from = input.data<S>();
  return ForMatrices(stack.count(), WorkOf(stack, 2), [&](int64_t begin, int64_t end) {
    const std::unique_ptr<T[]> a(new T[static_cast<size_t>(m * n)]);
    const std::unique_ptr<T[]> formed(new T[static_cast<size_t>(m * inner)]);
    const std::unique_ptr<T[]> taus(new T[static_cast<size_t>(smaller)]);
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t i = 0; i < m * n; ++i) a[i] = static_cast<T>(from[b * m * n + i]);
      FactorQr(m, n, a.get(), n, taus.get());
      FormQ(m, smaller, a.get(), n, taus.get(), inner, formed.get(), inner);
      for (int64_t i = 0; i < m * inner; ++i) q[b * m * inner + i] = static_cast<S>(formed[i]);
      S* const to = r + b * inner * n;
      for (int64_t i = 0; i < inner; ++i) {
        for (int64_t j = 0; j < n; ++j) to[i * n + j] = static_cast<S>(j < i ? T(0) : a[i * n + j]);
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeQr(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool full, init.attrs().Get<bool>("full_matrices"));
  if (init.input_dtypes()[0] == DType::kHalf) {
    return KernelFn([full](KernelContext& ctx) { return Qr<float, half>(ctx, full); });
  }
  return ByMatrixDType(init, [full](auto zero) {
    using T = decltype(zero);
    return KernelFn([full](KernelContext& ctx) { return Qr<T, T>(ctx, full); });
  });
}

template <typename T>
void FillIdentity(int64_t rows, int64_t cols, T* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) to[i * cols + j] = T(i == j ? 1 : 0);
  }
}

template <typename T>
absl::Status Svd(KernelContext& ctx, const SvdAttrs& attrs) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareMatrices(input.shape().dims()));
  const int64_t m = stack.rows, n = stack.cols, smaller = stack.smaller();
  FORMWORK_ASSIGN_OR_RETURN(T* const s, Output<T>(ctx, 0, stack, {smaller}));
  T* u = nullptr;
  T* v = nullptr;
  const int64_t u_cols = attrs.full_matrices ? m : smaller;
  const int64_t v_cols = attrs.full_matrices ? n : smaller;
  if (attrs.compute_uv) {
    FORMWORK_ASSIGN_OR_RETURN(u, Output<T>(ctx, 1, stack, {m, u_cols}));
    FORMWORK_ASSIGN_OR_RETURN(v, Output<T>(ctx, 2, stack, {n, v_cols}));
  } else {
    FORMWORK_RETURN_IF_ERROR(NoOutput<T>(ctx, 1));
    FORMWORK_RETURN_IF_ERROR(NoOutput<T>(ctx, 2));
  }
  const T* const from = input.data<T>();
  const T nan = std::numeric_limits<RealOf<T>>::quiet_NaN();
  return ForMatrices(stack.count(), WorkOf(stack, 10), [&](int64_t begin, int64_t end) {
    std::vector<RealOf<T>> values(static_cast<size_t>(smaller));
    for (int64_t b = begin; b < end; ++b) {
      T* const this_u = u == nullptr ? nullptr : u + b * m * u_cols;
      T* const this_v = v == nullptr ? nullptr : v + b * n * v_cols;
      if (smaller == 0) {
        if (u != nullptr) FillIdentity(m, u_cols, this_u);
        if (v != nullptr) FillIdentity(n, v_cols, this_v);
      } else if (DecomposeSingular(m, n, from + b * m * n, attrs.full_matrices, values.data(),
                                   this_u, this_v)) {
        std::copy(values.begin(), values.end(), s + b * smaller);
      } else {
        std::fill_n(s + b * smaller, smaller, nan);
        if (u != nullptr) std::fill_n(this_u, m * u_cols, nan);
        if (v != nullptr) std::fill_n(this_v, n * v_cols, nan);
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSvd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SvdAttrs attrs, SvdAttrs::FromAttrs(init.attrs()));
  return ByMatrixDType(init, [attrs](auto zero) {
    using T = decltype(zero);
    return KernelFn([attrs](KernelContext& ctx) { return Svd<T>(ctx, attrs); });
  });
}

template <typename T>
absl::Status SelfAdjointEig(KernelContext& ctx, bool compute_v) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(input.shape().dims()));
  const int64_t n = stack.rows;
  FORMWORK_ASSIGN_OR_RETURN(T* const e, Output<T>(ctx, 0, stack, {n}));
  T* v = nullptr;
  if (compute_v) {
    FORMWORK_ASSIGN_OR_RETURN(v, Output<T>(ctx, 1, stack, {n, n}));
  } else {
    FORMWORK_RETURN_IF_ERROR(NoOutput<T>(ctx, 1));
  }
  if (n == 0) return absl::OkStatus();
  const T* const from = input.data<T>();
  return ForMatrices(
      stack.count(), WorkOf(stack, 5), [&](int64_t begin, int64_t end) -> absl::Status {
        std::vector<RealOf<T>> values(static_cast<size_t>(n));
        for (int64_t b = begin; b < end; ++b) {
          if (!DecomposeSelfAdjoint(n, from + b * n * n, values.data(),
                                    v == nullptr ? nullptr : v + b * n * n)) {
            return InvalidArgument(
                "Self-adjoint eigen decomposition was not successful. The input might not be "
                "valid.");
          }
          std::copy(values.begin(), values.end(), e + b * n);
        }
        return absl::OkStatus();
      });
}

absl::StatusOr<KernelFn> MakeSelfAdjointEig(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool compute_v, init.attrs().Get<bool>("compute_v"));
  return ByMatrixDType(init, [compute_v](auto zero) {
    using T = decltype(zero);
    return KernelFn([compute_v](KernelContext& ctx) { return SelfAdjointEig<T>(ctx, compute_v); });
  });
}

template <typename T>
absl::Status Eig(KernelContext& ctx, bool compute_v) {
  using C = ComplexOf<T>;
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(input.shape().dims()));
  const int64_t n = stack.rows;
  if (n > kLargestGeneral) {
    return Unimplemented("Eig: matrices of more than ", kLargestGeneral,
                         " rows are not supported: input=", input.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(C* const e, Output<C>(ctx, 0, stack, {n}));
  C* v = nullptr;
  if (compute_v) {
    FORMWORK_ASSIGN_OR_RETURN(v, Output<C>(ctx, 1, stack, {n, n}));
  } else {
    FORMWORK_RETURN_IF_ERROR(NoOutput<C>(ctx, 1));
  }
  if (n == 0) return absl::OkStatus();
  const T* const from = input.data<T>();
  return ForMatrices(
      stack.count(), WorkOf(stack, 25), [&](int64_t begin, int64_t end) -> absl::Status {
        for (int64_t b = begin; b < end; ++b) {
          if (!DecomposeGeneral(n, from + b * n * n, e + b * n,
                                v == nullptr ? nullptr : v + b * n * n)) {
            return InvalidArgument(
                "Eigen decomposition was not successful. The input might not be valid.");
          }
        }
        return absl::OkStatus();
      });
}

absl::StatusOr<KernelFn> MakeEig(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool compute_v, init.attrs().Get<bool>("compute_v"));
  return ByMatrixDType(init, [&init, compute_v](auto zero) -> absl::StatusOr<KernelFn> {
    using T = decltype(zero);
    if (init.output_dtypes()[0] != DTypeOf<ComplexOf<T>>::value) {
      return Unimplemented("Eig: ", DTypeName(init.output_dtypes()[0]), " of ",
                           DTypeName(init.input_dtypes()[0]), " is not supported");
    }
    return KernelFn([compute_v](KernelContext& ctx) { return Eig<T>(ctx, compute_v); });
  });
}

}  // namespace

void RegisterDecomposeKernels(KernelRegistry& registry) {
  registry.Add("Qr", MakeQr);
  registry.Add("Svd", MakeSvd);
  registry.Add("SelfAdjointEigV2", MakeSelfAdjointEig);
  registry.Add("Eig", MakeEig);
}

}  // namespace formwork
