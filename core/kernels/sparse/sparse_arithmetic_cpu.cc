// Sums and products of sparse tensors, with dense ones and with each other.

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/index_values.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/ops/dims.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

SparseShapes PartsOf(KernelContext& ctx, int first) {
  return {ctx.input(first).shape().dims(), ctx.input(first + 1).shape().dims(),
          ctx.input(first + 2).shape().dims()};
}

// --- SparseTensorDenseMatMul --------------------------------------------------------------------

template <typename T>
using Total = std::conditional_t<math::kIsSmallFloat<T>, float, T>;

template <typename T>
T Conjugate(const T& value, bool conjugate) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return conjugate ? std::conj(value) : value;
  } else {
    return value;
  }
}

struct Adjoints {
  bool a;
  bool b;
};

// Adds the products of all entries of `a` to `out`, columns [begin, end).
template <typename T>
void AddProducts(const IndexValues& indices, const T* a, const T* b, Adjoints adjoint,
                 const SparseMatMulGeometry& s, int64_t begin, int64_t end, Total<T>* out) {
  const int64_t n = indices.size() / 2;
  const int64_t between_looks = std::max<int64_t>(64 * 1024 / (end - begin), 1);
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i, between_looks)) return;
    const int64_t row = indices[2 * i + (adjoint.a ? 1 : 0)];
    const int64_t k = indices[2 * i + (adjoint.a ? 0 : 1)];
    const auto factor = static_cast<Total<T>>(Conjugate(a[i], adjoint.a));
    for (int64_t c = begin; c < end; ++c) {
      const T& other = adjoint.b ? b[c * s.inner + k] : b[k * s.cols + c];
      Total<T>& sum = out[row * s.cols + c];
      sum = math::Add(sum, math::Mul(factor, static_cast<Total<T>>(Conjugate(other, adjoint.b))));
    }
  }
}

template <typename T>
absl::Status MatMul(KernelContext& ctx, const IndexValues& indices, Adjoints adjoint,
                    const SparseMatMulGeometry& s, Tensor& out) {
  const T* a = ctx.input(1).data<T>();
  const T* b = ctx.input(3).data<T>();
  Tensor wide;
  if constexpr (math::kIsSmallFloat<T>) {
    FORMWORK_ASSIGN_OR_RETURN(wide, Tensor::Allocate(ctx.allocator(), DType::kFloat, out.shape()));
    ZeroElements(wide);
  }
  auto* to =
      static_cast<Total<T>*>(math::kIsSmallFloat<T> ? wide.mutable_raw() : out.mutable_raw());
  const int64_t n = std::max<int64_t>(indices.size() / 2, 1);
  ParallelFor(s.cols, std::max<int64_t>(64 * 1024 / n, 16), [&](int64_t begin, int64_t end) {
    AddProducts<T>(indices, a, b, adjoint, s, begin, end, to);
  });
  if constexpr (math::kIsSmallFloat<T>) {
    ForBlocks(out.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out.mutable_data<T>()[i] = T(to[i]);
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeMatMul(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool adjoint_a, init.attrs().Get<bool>("adjoint_a"));
  FORMWORK_ASSIGN_OR_RETURN(const bool adjoint_b, init.attrs().Get<bool>("adjoint_b"));
  return KernelFn([adjoint = Adjoints{adjoint_a, adjoint_b}](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const SparseMatMulGeometry s,
        PrepareSparseMatMul(PartsOf(ctx, 0), &ctx.input(2), ctx.input(3).shape().dims(), adjoint.a,
                            adjoint.b));
    const IndexValues indices(ctx.input(0));
    for (int64_t i = 0; i < indices.size() / 2; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t row = indices[2 * i + (adjoint.a ? 1 : 0)];
      const int64_t k = indices[2 * i + (adjoint.a ? 0 : 1)];
      if (k < 0 || k >= s.inner) {
        return InvalidArgument("k (", k, ") from index[", i, ",", adjoint.a ? 0 : 1,
                               "] out of bounds (>=", s.inner, ")");
      }
      if (row < 0 || row >= s.rows) {
        return InvalidArgument("m (", row, ") from index[", i, ",", adjoint.a ? 1 : 0,
                               "] out of bounds (>=", s.rows, ")");
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({s.rows, s.cols}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                              Tensor::Allocate(ctx.allocator(), ctx.input(1).dtype(), shape));
    ZeroElements(out);
    const auto run = [&]() -> absl::Status {
      switch (out.dtype()) {
        FORMWORK_FLOAT_CASES(return MatMul<T>(ctx, indices, adjoint, s, out))
        FORMWORK_COMPLEX_CASES(return MatMul<T>(ctx, indices, adjoint, s, out))
        FORMWORK_CASE(int32_t, return MatMul<T>(ctx, indices, adjoint, s, out))
        default:
          return Unimplemented("SparseTensorDenseMatMul: dtype ", DTypeName(out.dtype()),
                               " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

// --- SparseTensorDenseAdd -----------------------------------------------------------------------

absl::Status CheckDenseAdd(KernelContext& ctx) {
  const Shape& dense = ctx.input(3).shape();
  if (ctx.input(0).rank() != 2) {
    return InvalidArgument("Input a_indices should be a matrix but received shape: ",
                           ctx.input(0).shape().ToString());
  }
  if (ctx.input(1).rank() != 1 || ctx.input(2).rank() != 1) {
    return InvalidArgument("Inputs a_values and a_shape should be vectors but received shapes: ",
                           ctx.input(1).shape().ToString(), " and ",
                           ctx.input(2).shape().ToString());
  }
  if (ctx.input(2).dim(0) != dense.rank()) {
    return InvalidArgument("Two operands have different ranks; received: ", ctx.input(2).dim(0),
                           " and ", dense.rank());
  }
  FORMWORK_RETURN_IF_ERROR(CheckSparse(PartsOf(ctx, 0)));
  const IndexValues sizes(ctx.input(2));
  for (int d = 0; d < dense.rank(); ++d) {
    if (sizes[d] == dense.dim(d)) continue;
    return InvalidArgument("Dimension ", d,
                           " does not equal (no broadcasting is supported): ", "sparse side ",
                           sizes[d], " vs dense side ", dense.dim(d));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status AddEntries(const IndexValues& indices, const T* values, Tensor& out) {
  const Dims strides = RowMajorStrides(out.shape());
  const int rank = out.rank();
  const int64_t n = rank == 0 ? 0 : indices.size() / rank;
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    int64_t flat = 0;
    for (int d = 0; d < rank; ++d) {
      const int64_t index = indices[i * rank + d];
      if (index < 0 || index >= out.dim(d)) {
        return InvalidArgument("Sparse tensor has an invalid index on dimension ", d,
                               ": a_indices(", i, ",", d, ") = ", index,
                               ", dense tensor shape: ", absl::StrJoin(out.shape().dims(), ","));
      }
      flat += index * strides[static_cast<size_t>(d)];
    }
    T& at = out.mutable_data<T>()[flat];
    at = math::Add(at, values[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDenseAdd(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckDenseAdd(ctx));
    const IndexValues indices(ctx.input(0));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const Tensor values = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ctx.input(3).Clone(ctx.allocator()));
    const auto run = [&]() -> absl::Status {
      switch (out.dtype()) {
        FORMWORK_NUMBER_CASES(return AddEntries<T>(indices, values.data<T>(), out))
        default:
          return Unimplemented("SparseTensorDenseAdd: dtype ", DTypeName(out.dtype()),
                               " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

// --- SparseAdd ----------------------------------------------------------------------------------

absl::Status CheckAdd(KernelContext& ctx) {
  if (ctx.input(0).rank() != 2 || ctx.input(3).rank() != 2) {
    return InvalidArgument(
        "Input indices should be matrices but received shapes: ", ctx.input(0).shape().ToString(),
        " and ", ctx.input(3).shape().ToString());
  }
  if (ctx.input(1).rank() != 1 || ctx.input(4).rank() != 1) {
    return InvalidArgument(
        "Input values should be vectors but received shapes: ", ctx.input(1).shape().ToString(),
        " and ", ctx.input(4).shape().ToString());
  }
  if (ctx.input(2).rank() != 1 || ctx.input(5).rank() != 1) {
    return InvalidArgument("Input shapes should be a vector but received shapes ",
                           ctx.input(2).shape().ToString(), " and ",
                           ctx.input(5).shape().ToString());
  }
  if (ctx.input(2).shape() != ctx.input(5).shape()) {
    return InvalidArgument("Ranks of input tensors must match, but saw ranks: ",
                           ctx.input(2).dim(0), " and ", ctx.input(5).dim(0));
  }
  const IndexValues a(ctx.input(2));
  const IndexValues b(ctx.input(5));
  for (int64_t d = 0; d < a.size(); ++d) {
    if (a[d] == b[d]) continue;
    return InvalidArgument("Operands' shapes do not match: got ", a[d], " and ", b[d],
                           " for dimension ", d);
  }
  if (ctx.input(6).rank() != 0) {
    return InvalidArgument("The magnitude threshold must be a scalar: got shape ",
                           ctx.input(6).shape().ToString());
  }
  FORMWORK_RETURN_IF_ERROR(CheckSparse(PartsOf(ctx, 0)));
  return CheckSparse(PartsOf(ctx, 3));
}

// Lexicographic order of two indices.
int Compare(const int64_t* a, const int64_t* b, int64_t rank) {
  for (int64_t d = 0; d < rank; ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};

template <typename T>
bool Reaches(const T& value, const typename RealOf<T>::Type& threshold) {
  if constexpr (math::kIsSmallFloat<T>) {
    return static_cast<float>(threshold) <= std::abs(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return threshold <= (value < 0 ? math::Sub(T(0), value) : value);
    return threshold <= value;
  } else {
    return threshold <= std::abs(value);
  }
}

template <typename T>
absl::Status Add(KernelContext& ctx) {
  const Tensor a_indices = ctx.input(0), b_indices = ctx.input(3);
  const Tensor a_values = ctx.input(1), b_values = ctx.input(4);
  const Tensor shape = ctx.input(2);
  const auto threshold = ctx.input(6).scalar<typename RealOf<T>::Type>();
  const int64_t rank = shape.num_elements();
  const int64_t* a = a_indices.data<int64_t>();
  const int64_t* b = b_indices.data<int64_t>();
  const T* a_value = a_values.data<T>();
  const T* b_value = b_values.data<T>();
  int64_t left_a = a_values.num_elements();
  int64_t left_b = b_values.num_elements();
  std::vector<const int64_t*> kept;
  std::vector<T> sums;
  while (left_a > 0 || left_b > 0) {
    if (WorkIsCutAt(left_a + left_b)) return WorkStatus();
    const int order = left_a == 0 ? 1 : (left_b == 0 ? -1 : Compare(a, b, rank));
    const int64_t* index = order <= 0 ? a : b;
    T sum = order <= 0 ? *a_value : *b_value;
    if (order == 0) sum = math::Add(sum, *b_value);
    if (order <= 0) {
      a += rank;
      ++a_value;
      --left_a;
    }
    if (order >= 0) {
      b += rank;
      ++b_value;
      --left_b;
    }
    // As TensorFlow: what only one of them has stays, however small.
    if (order == 0 && !Reaches<T>(sum, threshold)) continue;
    kept.push_back(index);
    sums.push_back(sum);
  }
  const int64_t n = static_cast<int64_t>(kept.size());
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{n, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values,
                            Tensor::Allocate(ctx.allocator(), a_values.dtype(), Shape{n}));
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    std::copy_n(kept[static_cast<size_t>(i)], rank, indices.mutable_data<int64_t>() + i * rank);
    values.mutable_data<T>()[i] = sums[static_cast<size_t>(i)];
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  ctx.SetOutput(2, shape);
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeAdd(KernelInit& init) {
  const DType real = init.input_dtypes()[6];
  return KernelFn([real](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckAdd(ctx));
    switch (ctx.input(1).dtype()) {
      FORMWORK_NUMBER_CASES(if (real != DTypeOf<typename RealOf<T>::Type>::value) break;
                            return Add<T>(ctx))
      default:
        break;
    }
    return Unimplemented("SparseAdd: dtypes ", DTypeName(ctx.input(1).dtype()), " and ",
                         DTypeName(real), " are not supported");
  });
}

// --- SparseSparseMaximum, SparseSparseMinimum ---------------------------------------------------

absl::Status CheckPair(KernelContext& ctx) {
  FORMWORK_RETURN_IF_ERROR(CheckSparse(PartsOf(ctx, 0)));
  FORMWORK_RETURN_IF_ERROR(CheckSparse(PartsOf(ctx, 3)));
  const IndexValues a(ctx.input(2));
  const IndexValues b(ctx.input(5));
  if (a.size() != b.size()) {
    return InvalidArgument("Operands should have the same ranks; got ", a.size(), " and ",
                           b.size());
  }
  for (int64_t d = 0; d < a.size(); ++d) {
    if (a[d] == b[d]) continue;
    return InvalidArgument("Operands' shapes do not match: got ", a[d], " and ", b[d],
                           " for dimension ", d);
  }
  if (a.size() == 0) return InvalidArgument("Tensors must not be empty");
  FORMWORK_RETURN_IF_ERROR(CheckIndexTuples(ctx.input(0), a.span()));
  return CheckIndexTuples(ctx.input(3), b.span());
}

// What only one of them has is compared with 0.
template <typename T, bool kMax>
absl::Status Extremes(KernelContext& ctx) {
  using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;
  const Tensor a_indices = ctx.input(0), b_indices = ctx.input(3);
  const int64_t rank = ctx.input(2).num_elements();
  const int64_t* a = a_indices.data<int64_t>();
  const int64_t* b = b_indices.data<int64_t>();
  const T* a_value = ctx.input(1).data<T>();
  const T* b_value = ctx.input(4).data<T>();
  int64_t left_a = ctx.input(1).num_elements();
  int64_t left_b = ctx.input(4).num_elements();
  std::vector<const int64_t*> kept;
  std::vector<T> chosen;
  while (left_a > 0 || left_b > 0) {
    if (WorkIsCutAt(left_a + left_b)) return WorkStatus();
    const int order = left_a == 0 ? 1 : (left_b == 0 ? -1 : Compare(a, b, rank));
    const Wide x = order <= 0 ? static_cast<Wide>(*a_value) : Wide(0);
    const Wide y = order >= 0 ? static_cast<Wide>(*b_value) : Wide(0);
    kept.push_back(order <= 0 ? a : b);
    chosen.push_back(T(kMax ? std::max(x, y) : std::min(x, y)));
    if (order <= 0) {
      a += rank;
      ++a_value;
      --left_a;
    }
    if (order >= 0) {
      b += rank;
      ++b_value;
      --left_b;
    }
  }
  const int64_t n = static_cast<int64_t>(kept.size());
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{n, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values,
                            Tensor::Allocate(ctx.allocator(), ctx.input(1).dtype(), Shape{n}));
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    std::copy_n(kept[static_cast<size_t>(i)], rank, indices.mutable_data<int64_t>() + i * rank);
    values.mutable_data<T>()[i] = chosen[static_cast<size_t>(i)];
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  return absl::OkStatus();
}

template <bool kMax>
absl::StatusOr<KernelFn> MakeExtremes(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckPair(ctx));
    switch (ctx.input(1).dtype()) {
      FORMWORK_REAL_CASES(return (Extremes<T, kMax>(ctx)))
      default:
        return Unimplemented("SparseSparseMaximum: dtype ", DTypeName(ctx.input(1).dtype()),
                             " is not supported");
    }
  });
}

// --- SparseAddGrad ------------------------------------------------------------------------------

// The gradients of the values of `input`, whose indices are among those of the sum, in order.
template <typename T>
absl::StatusOr<Tensor> PickGradients(Allocator& allocator, const Tensor& grad, const Tensor& input,
                                     const Tensor& sum) {
  const int64_t rank = input.dim(1);
  const int64_t n = input.dim(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor picked, Tensor::Allocate(allocator, grad.dtype(), Shape{n}));
  ZeroElements(picked);
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const int64_t* index = input.data<int64_t>() + i * rank;
    while (at < sum.dim(0) && Compare(sum.data<int64_t>() + at * rank, index, rank) < 0) ++at;
    // What was below the threshold has no gradient.
    if (at == sum.dim(0) || Compare(sum.data<int64_t>() + at * rank, index, rank) != 0) continue;
    picked.mutable_data<T>()[i] = grad.data<T>()[at];
  }
  return picked;
}

absl::Status CheckAddGrad(KernelContext& ctx) {
  for (int i = 1; i < 4; ++i) {
    if (ctx.input(i).rank() == 2 && ctx.input(i).dim(1) == ctx.input(1).dim(1)) continue;
    return InvalidArgument(
        "Input indices should be matrices but received shapes: ", ctx.input(1).shape().ToString(),
        ", ", ctx.input(2).shape().ToString(), " and ", ctx.input(3).shape().ToString());
  }
  if (ctx.input(0).rank() != 1) {
    return InvalidArgument("Input backprop_val_grad should be a vector but received shape: ",
                           ctx.input(0).shape().ToString());
  }
  if (ctx.input(0).num_elements() != ctx.input(3).dim(0)) {
    return InvalidArgument(
        "# elements of backprop_val_grad and # rows of sum_indices should match "
        "(#nnz of sum): got ",
        ctx.input(0).num_elements(), " and ", ctx.input(3).dim(0));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status AddGrad(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor a, PickGradients<T>(ctx.allocator(), ctx.input(0), ctx.input(1), ctx.input(3)));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor b, PickGradients<T>(ctx.allocator(), ctx.input(0), ctx.input(2), ctx.input(3)));
  ctx.SetOutput(0, std::move(a));
  ctx.SetOutput(1, std::move(b));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeAddGrad(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckAddGrad(ctx));
    switch (ctx.input(0).dtype()) {
      FORMWORK_NUMBER_CASES(return AddGrad<T>(ctx))
      default:
        return Unimplemented("SparseAddGrad: dtype ", DTypeName(ctx.input(0).dtype()),
                             " is not supported");
    }
  });
}

}  // namespace

void AddSparseArithmeticCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseTensorDenseMatMul", MakeMatMul);
  registry.Add("SparseTensorDenseAdd", MakeDenseAdd);
  registry.Add("SparseAdd", MakeAdd);
  registry.Add("SparseAddGrad", MakeAddGrad);
  registry.Add("SparseSparseMaximum", MakeExtremes<true>);
  registry.Add("SparseSparseMinimum", MakeExtremes<false>);
}

}  // namespace formwork
