// SparseDenseCwiseMul, -Div and -Add: each entry with the element of a dense tensor that stands
// where it does.

#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/ops/dims.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

enum class Cwise { kMul, kDiv, kAdd };

template <typename T>
using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;

template <Cwise kOp, typename T>
T Apply(T a, T b) {
  if constexpr (kOp == Cwise::kMul) return math::Mul(a, b);
  if constexpr (kOp == Cwise::kAdd) return math::Add(a, b);
  if constexpr (kOp == Cwise::kDiv) {
    // The smallest integer's quotient by -1 wraps around.
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      if (b == T(-1)) return math::Sub(T(0), a);
    }
    return T(static_cast<Wide<T>>(a) / static_cast<Wide<T>>(b));
  }
}

template <Cwise kOp, typename T>
absl::Status Run(KernelContext& ctx, const Shape& shape) {
  const Tensor& dense = ctx.input(3);
  const int rank = shape.rank();
  // How far apart the dense side's elements are along the sparse side's dimensions.
  const Dims own = RowMajorStrides(dense.shape());
  Dims strides(static_cast<size_t>(rank), 0);
  for (int d = 0; d < dense.rank(); ++d) {
    if (dense.dim(d) == 1) continue;
    strides[static_cast<size_t>(d + rank - dense.rank())] = own[static_cast<size_t>(d)];
  }
  const int64_t n = ctx.input(1).num_elements();
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dense.dtype(), Shape{n}));
  const int64_t* index = ctx.input(0).data<int64_t>();
  const T* values = ctx.input(1).data<T>();
  const T* from = dense.data<T>();
  T* to = out.mutable_data<T>();
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    int64_t flat = 0;
    for (int d = 0; d < rank; ++d, ++index) {
      if (*index < 0 || *index >= shape.dim(d)) {
        return InvalidArgument(
            "Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape");
      }
      flat += *index * strides[static_cast<size_t>(d)];
    }
    if (kOp == Cwise::kDiv && static_cast<Wide<T>>(from[flat]) == Wide<T>(0)) {
      return InvalidArgument(
          "SparseDenseCwiseDiv cannot divide by zero,but input dense tensor contains zero ");
    }
    to[i] = Apply<kOp>(values[i], from[flat]);
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

template <Cwise kOp>
absl::StatusOr<KernelFn> MakeCwise(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const Shape shape,
        PrepareSparseDenseCwise(
            {ctx.input(0).shape().dims(), ctx.input(1).shape().dims(), ctx.input(2).shape().dims()},
            ctx.input(2), ctx.input(3).shape().dims()));
    switch (ctx.input(1).dtype()) {
      FORMWORK_REAL_CASES(return (Run<kOp, T>(ctx, shape)))
      default:
        return Unimplemented("dtype ", DTypeName(ctx.input(1).dtype()), " is not supported");
    }
  });
}

}  // namespace

void AddSparseCwiseCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseDenseCwiseMul", MakeCwise<Cwise::kMul>);
  registry.Add("SparseDenseCwiseDiv", MakeCwise<Cwise::kDiv>);
  registry.Add("SparseDenseCwiseAdd", MakeCwise<Cwise::kAdd>);
}

}  // namespace formwork
