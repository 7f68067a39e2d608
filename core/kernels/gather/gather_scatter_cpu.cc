// Writing slices by index: the functions behind scatters of variables, ScatterNd and
// TensorScatter*.

#include <algorithm>
#include <complex>

#include "absl/strings/str_join.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/gather/gather_cpu.h"
#include "core/kernels/gather/index_read.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

// Which slices of the target the updates go to; -1: nowhere.
using Rows = absl::InlinedVector<int64_t, 16>;

template <ScatterOp op, typename T>
inline T Combine(T a, T b) {
  if constexpr (std::is_same_v<T, std::string>) {
    return a + b;
  } else if constexpr (op == ScatterOp::kAdd) {
    return math::Add(a, b);
  } else if constexpr (op == ScatterOp::kSub) {
    return math::Sub(a, b);
  } else if constexpr (op == ScatterOp::kMul) {
    return math::Mul(a, b);
  } else if constexpr (math::kIsSmallFloat<T>) {
    return T(Combine<op, float>(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (op == ScatterOp::kDiv) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      // The one quotient that overflows.
      if (b == T{-1}) return math::Sub(T{0}, a);
    }
    return static_cast<T>(a / b);
  } else if constexpr (op == ScatterOp::kMin) {
    return b < a ? b : a;
  } else {
    return a < b ? b : a;
  }
}

constexpr int64_t kWideRow = 1 << 16;

// Calls f(row of target, row of updates) for all rows in order. Large scatters are split by the
// target's rows, so that no two threads meet and every row sees its updates in order.
template <typename F>
void ForEachRow(const Rows& rows, int64_t target_rows, int64_t inner, F&& f) {
  const size_t rows_between_looks = static_cast<size_t>(std::max<int64_t>(kCheapItems / inner, 1));
  auto run = [&](int64_t low, int64_t high) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if ((i + 1) % rows_between_looks == 0 && WorkIsCut()) return;
      if (rows[i] >= low && rows[i] < high) f(rows[i], static_cast<int64_t>(i));
    }
  };
  const int64_t work = static_cast<int64_t>(rows.size()) * inner;
  const int64_t parts =
      work < (1 << 17) || inner < 8 ? 1 : std::min<int64_t>(ParallelThreads(), target_rows);
  if (parts <= 1) return run(0, target_rows);
  const int64_t step = (target_rows + parts - 1) / parts;
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    run(begin * step, std::min(end * step, target_rows));
  });
}

// One scatter that has passed all checks.
struct Scatter {
  const Rows& rows;
  int64_t target_rows;
  int64_t inner;
  bool scalar_update;  // One element goes to all.
};

template <ScatterOp op, typename T>
void Accumulate(const Scatter& s, void* target, const void* updates) {
  T* to = static_cast<T*>(target);
  const T* from = static_cast<const T*>(updates);
  ForEachRow(s.rows, s.target_rows, s.inner, [&](int64_t row, int64_t update) {
    T* a = to + row * s.inner;
    const T* b = s.scalar_update ? from : from + update * s.inner;
    auto combine = [&](int64_t begin, int64_t end) {
      if (s.scalar_update) {
        for (int64_t i = begin; i < end; ++i) a[i] = Combine<op, T>(a[i], *b);
      } else {
        for (int64_t i = begin; i < end; ++i) a[i] = Combine<op, T>(a[i], b[i]);
      }
    };
    if (s.inner <= kWideRow) {
      combine(0, s.inner);
    } else {
      ForBlocks(s.inner, kWideRow, combine);
    }
  });
}

void Overwrite(const Scatter& s, DType dtype, void* target, const void* updates) {
  ByElement(dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    E* to = static_cast<E*>(target);
    const E* from = static_cast<const E*>(updates);
    ForEachRow(s.rows, s.target_rows, s.inner, [&](int64_t row, int64_t update) {
      if (s.scalar_update) {
        std::fill_n(to + row * s.inner, s.inner, *from);
      } else {
        CopyElements(from + update * s.inner, s.inner, to + row * s.inner);
      }
    });
  });
}

absl::Status Unsupported(DType dtype) {
  return Unimplemented("scatter: dtype ", DTypeName(dtype), " is not supported");
}

template <ScatterOp op>
absl::Status AccumulateNumbers(const Scatter& s, DType dtype, void* to, const void* from) {
  switch (dtype) {
    FORMWORK_NUMBER_CASES(Accumulate<op, T>(s, to, from); return absl::OkStatus())
    default:
      return Unsupported(dtype);
  }
}

template <ScatterOp op>
absl::Status AccumulateReals(const Scatter& s, DType dtype, void* to, const void* from) {
  switch (dtype) {
    FORMWORK_REAL_CASES(Accumulate<op, T>(s, to, from); return absl::OkStatus())
    default:
      return Unsupported(dtype);
  }
}

template <typename T>
bool HasZero(const Tensor& tensor) {
  const absl::Span<const T> values = tensor.span<T>();
  return std::find(values.begin(), values.end(), T{0}) != values.end();
}

absl::Status CheckDivisors(const Tensor& updates) {
  bool zero = false;
  switch (updates.dtype()) {
    FORMWORK_INTEGER_CASES(zero = HasZero<T>(updates))
    default:
      break;
  }
  return zero ? InvalidArgument("Integer division by zero") : absl::OkStatus();
}

absl::Status Apply(ScatterOp op, const Scatter& s, Tensor& target, const Tensor& updates) {
  const DType dtype = target.dtype();
  void* to = target.mutable_raw();
  const void* from = updates.raw();
  switch (op) {
    case ScatterOp::kUpdate:
      Overwrite(s, dtype, to, from);
      return absl::OkStatus();
    case ScatterOp::kAdd:
      if (dtype == DType::kString) {
        Accumulate<ScatterOp::kAdd, std::string>(s, to, from);
        return absl::OkStatus();
      }
      if (dtype == DType::kBool) {
        Accumulate<ScatterOp::kMax, bool>(s, to, from);
        return absl::OkStatus();
      }
      return AccumulateNumbers<ScatterOp::kAdd>(s, dtype, to, from);
    case ScatterOp::kSub:
      return AccumulateNumbers<ScatterOp::kSub>(s, dtype, to, from);
    case ScatterOp::kMul:
      return AccumulateNumbers<ScatterOp::kMul>(s, dtype, to, from);
    case ScatterOp::kDiv:
      FORMWORK_RETURN_IF_ERROR(CheckDivisors(updates));
      return AccumulateNumbers<ScatterOp::kDiv>(s, dtype, to, from);
    case ScatterOp::kMin:
      return AccumulateReals<ScatterOp::kMin>(s, dtype, to, from);
    case ScatterOp::kMax:
      return AccumulateReals<ScatterOp::kMax>(s, dtype, to, from);
  }
  return Internal("scatter: unknown operation ", static_cast<int>(op));
}

absl::Status CheckDTypes(const Tensor& target, const Tensor& updates) {
  if (target.dtype() == updates.dtype()) return absl::OkStatus();
  return InvalidArgument("scatter: dtypes differ: target=", DTypeName(target.dtype()),
                         " updates=", DTypeName(updates.dtype()));
}

absl::Status CheckNdShapes(const Shape& target, const Shape& indices, const Shape& updates) {
  if (indices.rank() < 1) {
    return InvalidArgument("Indices shape must have rank at least one. Found:", indices.ToString());
  }
  if (updates.rank() < 1) {
    return InvalidArgument("Updates shape must have rank at least one. Found:", updates.ToString());
  }
  const int64_t depth = indices.dim(indices.rank() - 1);
  const int batch = indices.rank() - 1;
  const auto outer = indices.dims().first(static_cast<size_t>(batch));
  const bool outer_fits =
      updates.rank() >= batch && updates.dims().first(static_cast<size_t>(batch)) == outer;
  if (!outer_fits) {
    return InvalidArgument("Dimensions [0,", batch, ") of indices[shape=", indices.ToString(),
                           "] must match dimensions [0,", batch,
                           ") of updates[shape=", updates.ToString(), "]");
  }
  const bool inner_fits =
      depth <= target.rank() && updates.dims().subspan(static_cast<size_t>(batch)) ==
                                    target.dims().subspan(static_cast<size_t>(depth));
  if (!inner_fits) {
    return InvalidArgument("Dimensions [", depth, ",", target.rank(),
                           ") of input[shape=", target.ToString(), "] must match dimensions [",
                           batch, ",", updates.rank(), ") of updates[shape=", updates.ToString(),
                           "]");
  }
  return absl::OkStatus();
}

absl::Status ScatterNdPolicy(ScatterOp op, Tensor& target, const Tensor& indices,
                             const Tensor& updates, bool ignore_bad) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypes(target, updates));
  FORMWORK_RETURN_IF_ERROR(CheckNdShapes(target.shape(), indices.shape(), updates.shape()));
  const int64_t depth = indices.dim(indices.rank() - 1);
  const absl::Span<const int64_t> outer =
      indices.shape().dims().first(static_cast<size_t>(indices.rank()) - 1);
  const int64_t count = ProductOf(outer);
  if (target.num_elements() == 0 && count > 0) {
    return InvalidArgument("Indices and updates specified for empty output.  indices shape: ",
                           indices.shape().ToString());
  }
  const int64_t inner = ProductOf(target.shape().dims().subspan(static_cast<size_t>(depth)));
  if (count == 0 || inner == 0) return absl::OkStatus();
  const Shape outer_target = Shape::Trusted(target.shape().dims().first(depth));
  const Dims strides = RowMajorStrides(outer_target);
  Rows rows;
  rows.reserve(static_cast<size_t>(count));
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    for (int64_t i = 0; i < count; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const auto* row = index + i * depth;
      int64_t offset = 0;
      for (int64_t d = 0; d < depth && offset >= 0; ++d) {
        const int64_t at = row[d];
        offset =
            at < 0 || at >= outer_target.dim(static_cast<int>(d)) ? -1 : offset + at * strides[d];
      }
      rows.push_back(offset);
      if (offset >= 0 || ignore_bad) continue;
      return InvalidArgument(
          "indices", PositionString(outer, i), " = [",
          absl::StrJoin(absl::MakeConstSpan(row, static_cast<size_t>(depth)), ", "),
          "] does not index into shape ", target.shape().ToString());
    }
    return absl::OkStatus();
  }));
  return Apply(op, {rows, outer_target.num_elements(), inner, false}, target, updates);
}

// TensorFlow's rule: either there is nothing to scatter, or something in each of the three; so
// indices of no columns, which would name the whole target, are refused. ScatterNd's target is its
// shape operand here.
absl::Status CheckNothingEmpty(const Shape& target, const Shape& indices, const Shape& updates) {
  const bool nothing = indices.num_elements() == 0 && updates.num_elements() == 0;
  const bool something =
      target.num_elements() > 0 && indices.num_elements() > 0 && updates.num_elements() > 0;
  if (nothing || something) return absl::OkStatus();
  return InvalidArgument("Indices and updates specified for empty output shape");
}

absl::StatusOr<KernelFn> MakeScatterNd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(bool ignore_bad, IgnoresBadIndices(init.attrs()));
  return KernelFn([ignore_bad](KernelContext& ctx) -> absl::Status {
    if (ctx.input(2).rank() != 1) return InvalidArgument("Shape must be a vector");
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(2), "shape"));
    // Before anything of an absurd size is zeroed.
    FORMWORK_RETURN_IF_ERROR(CheckNdShapes(shape, ctx.input(0).shape(), ctx.input(1).shape()));
    FORMWORK_RETURN_IF_ERROR(
        CheckNothingEmpty(ctx.input(2).shape(), ctx.input(0).shape(), ctx.input(1).shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), ctx.input(1).dtype(), shape));
    FORMWORK_RETURN_IF_ERROR(
        ScatterNdPolicy(ScatterOp::kAdd, out, ctx.input(0), ctx.input(1), ignore_bad));
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

// In the words of TensorScatter*, which differ from ScatterNd's.
absl::Status CheckTensorScatter(const Shape& target, const Shape& indices, const Shape& updates) {
  if (indices.rank() < 1 || updates.rank() < 1) return CheckNdShapes(target, indices, updates);
  FORMWORK_RETURN_IF_ERROR(CheckNothingEmpty(target, indices, updates));
  const size_t batch = static_cast<size_t>(indices.rank()) - 1;
  if (updates.dims().size() < batch || updates.dims().first(batch) != indices.dims().first(batch)) {
    return InvalidArgument("Outer dimensions of indices and update must match. Indices shape: ",
                           indices.ToString(), ", updates shape:", updates.ToString());
  }
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > target.rank() ||
      updates.dims().subspan(batch) != target.dims().subspan(static_cast<size_t>(depth))) {
    return InvalidArgument("Inner dimensions of output shape must match inner dimensions of ",
                           "updates shape. Output: ", target.ToString(),
                           " updates: ", updates.ToString());
  }
  return absl::OkStatus();
}

template <ScatterOp op>
absl::StatusOr<KernelFn> MakeTensorScatter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(bool ignore_bad, IgnoresBadIndices(init.attrs()));
  return KernelFn([ignore_bad](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(
        CheckTensorScatter(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape()));
    Tensor result;
    if (ctx.CanOverwrite(0)) {
      result = ctx.TakeInput(0);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(result, ctx.input(0).Clone(ctx.allocator()));
    }
    FORMWORK_RETURN_IF_ERROR(ScatterNdPolicy(op, result, ctx.input(1), ctx.input(2), ignore_bad));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status ScatterNd(ScatterOp op, Tensor& target, const Tensor& indices, const Tensor& updates) {
  return ScatterNdPolicy(op, target, indices, updates, false);
}

absl::Status ScatterRows(ScatterOp op, Tensor& target, const Tensor& indices,
                         const Tensor& updates) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypes(target, updates));
  if (target.rank() < 1) {
    return InvalidArgument("params must be at least 1-D, got shape ", target.shape().ToString());
  }
  const absl::Span<const int64_t> slice = target.shape().dims().subspan(1);
  const bool scalar = updates.shape().is_scalar();
  const size_t index_rank = static_cast<size_t>(indices.rank());
  const absl::Span<const int64_t> dims = updates.shape().dims();
  if (!scalar &&
      (dims.size() != index_rank + slice.size() ||
       dims.first(index_rank) != indices.shape().dims() || dims.subspan(index_rank) != slice)) {
    return InvalidArgument("Must have updates.shape = indices.shape + params.shape[1:] or ",
                           "updates.shape = [], got updates.shape ", updates.shape().ToString(),
                           ", indices.shape ", indices.shape().ToString(), ", params.shape ",
                           target.shape().ToString());
  }
  const int64_t count = indices.num_elements();
  Rows rows;
  rows.reserve(static_cast<size_t>(count));
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    for (int64_t i = 0; i < count; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      rows.push_back(index[i]);
      if (rows[i] >= 0 && rows[i] < target.dim(0)) continue;
      return InvalidArgument("indices", PositionString(indices.shape().dims(), i), " = ", rows[i],
                             " is not in [0, ", target.dim(0), ")");
    }
    return absl::OkStatus();
  }));
  const int64_t inner = ProductOf(slice);
  if (count == 0 || inner == 0) return absl::OkStatus();
  return Apply(op, {rows, target.dim(0), inner, scalar}, target, updates);
}

void RegisterGatherScatterKernels(KernelRegistry& registry) {
  registry.Add("ScatterNd", MakeScatterNd);
  registry.Add("TensorScatterUpdate", MakeTensorScatter<ScatterOp::kUpdate>);
  registry.Add("TensorScatterAdd", MakeTensorScatter<ScatterOp::kAdd>);
  registry.Add("TensorScatterSub", MakeTensorScatter<ScatterOp::kSub>);
  registry.Add("TensorScatterMin", MakeTensorScatter<ScatterOp::kMin>);
  registry.Add("TensorScatterMax", MakeTensorScatter<ScatterOp::kMax>);
}

}  // namespace formwork
