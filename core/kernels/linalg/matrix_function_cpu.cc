// MatrixSquareRoot, MatrixLogarithm.

#include "core/kernels/linalg/matrix_function.h"

#include <complex>
#include <type_traits>
#include <vector>

#include "core/kernels/linalg/each_matrix.h"
#include "core/ops/linalg.h"

namespace formwork {

void RegisterMatrixFunctionKernels(KernelRegistry& registry);

namespace {

// Elements T, computed in Wide, each matrix by function(n, from, to).
template <typename T, typename Wide, typename Function>
absl::Status EachSquare(KernelContext& ctx, absl::string_view op, Function function) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const MatrixStack stack, PrepareSquareMatrices(input.shape().dims()));
  const int64_t n = stack.rows;
  if (n > kLargestFunction) {
    return Unimplemented(op, ": matrices of more than ", kLargestFunction,
                         " rows are not supported: input=", input.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                            ctx.AllocateOutput(0, input.dtype(), input.shape()));
  if (n == 0) return absl::OkStatus();
  const T* const from = input.data<T>();
  T* const to = output->mutable_data<T>();
  return ForMatrices(stack.count(), 30 * Cubed(n), [&](int64_t begin, int64_t end) {
    std::vector<Wide> a(static_cast<size_t>(n * n)), result(a.size());
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t i = 0; i < n * n; ++i) a[i] = static_cast<Wide>(from[b * n * n + i]);
      function(n, a.data(), result.data());
      for (int64_t i = 0; i < n * n; ++i) to[b * n * n + i] = static_cast<T>(result[i]);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMatrixSquareRoot(KernelInit& init) {
  return ByMatrixDType(init, [](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::complex<double>>;
    return KernelFn([](KernelContext& ctx) {
      return EachSquare<T, Wide>(ctx, "MatrixSquareRoot", SquareRootOfMatrix<Wide>);
    });
  });
}

template <typename T>
absl::Status MatrixLogarithm(KernelContext& ctx) {
  return EachSquare<T, std::complex<double>>(ctx, "MatrixLogarithm", LogarithmOfMatrix);
}

absl::StatusOr<KernelFn> MakeMatrixLogarithm(KernelInit& init) {
  if (init.input_dtypes()[0] == DType::kComplex64) {
    return KernelFn(MatrixLogarithm<std::complex<float>>);
  }
  return KernelFn(MatrixLogarithm<std::complex<double>>);
}

}  // namespace

void RegisterMatrixFunctionKernels(KernelRegistry& registry) {
  registry.Add("MatrixSquareRoot", MakeMatrixSquareRoot);
  registry.Add("MatrixLogarithm", MakeMatrixLogarithm);
}

}  // namespace formwork
