// Writing slices by index: the functions behind scatters of variables, ScatterNd and
// TensorScatter*.

#include <algorithm>
#include <complex>

#include "absl/strings/str_join.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/gather/gather_cpu.h"
#include "core/kernels/gather/index_read.h"
#include "core/ops/dims.h"
#include "core/ops/gather.h"

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
struct Scatter : ScatterGeometry {
  const Rows& to;
};

template <ScatterOp op, typename T>
void Accumulate(const Scatter& s, void* target, const void* updates) {
  T* to = static_cast<T*>(target);
  const T* from = static_cast<const T*>(updates);
  ForEachRow(s.to, s.rows, s.inner, [&](int64_t row, int64_t update) {
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
    ForEachRow(s.to, s.rows, s.inner, [&](int64_t row, int64_t update) {
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

absl::Status ScatterByDepth(ScatterOp op, const ScatterGeometry& geometry, Tensor& target,
                            const Tensor& indices, const Tensor& updates, const BadIndices& bad) {
  if (geometry.count == 0 || geometry.inner == 0) return absl::OkStatus();
  const int64_t depth = geometry.depth;
  const absl::Span<const int64_t> outer =
      indices.shape().dims().first(static_cast<size_t>(indices.rank()) - 1);
  const Shape outer_target = Shape::Trusted(target.shape().dims().first(depth));
  const Dims strides = RowMajorStrides(outer_target);
  Rows rows;
  rows.reserve(static_cast<size_t>(geometry.count));
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    for (int64_t i = 0; i < geometry.count; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const auto* row = index + i * depth;
      int64_t offset = 0;
      for (int64_t d = 0; d < depth && offset >= 0; ++d) {
        const int64_t at = row[d];
        offset =
            at < 0 || at >= outer_target.dim(static_cast<int>(d)) ? -1 : offset + at * strides[d];
      }
      rows.push_back(offset);
      if (offset >= 0 || bad.ignored) continue;
      return InvalidArgument(
          "indices", PositionString(outer, i), " = [",
          absl::StrJoin(absl::MakeConstSpan(row, static_cast<size_t>(depth)), ", "),
          "] does not index into shape ", target.shape().ToString());
    }
    return absl::OkStatus();
  }));
  return Apply(op, {geometry, rows}, target, updates);
}

absl::StatusOr<KernelFn> MakeScatterNd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndices::FromAttrs(init.attrs()));
  return KernelFn([bad](KernelContext& ctx) -> absl::Status {
    const Tensor& indices = ctx.input(0);
    const Tensor& updates = ctx.input(1);
    // Before anything of an absurd size is zeroed.
    FORMWORK_ASSIGN_OR_RETURN(
        const NewScatterGeometry geometry,
        PrepareScatterNd(ctx.input(2), indices.shape().dims(), updates.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                              ZeroTensor(ctx.allocator(), updates.dtype(), geometry.output));
    FORMWORK_RETURN_IF_ERROR(
        ScatterByDepth(ScatterOp::kAdd, geometry.scatter, out, indices, updates, bad));
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

template <ScatterOp op>
absl::StatusOr<KernelFn> MakeTensorScatter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndices::FromAttrs(init.attrs()));
  return KernelFn([bad](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ScatterGeometry geometry,
        PrepareTensorScatter(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims()));
    Tensor result;
    if (ctx.CanOverwrite(0)) {
      result = ctx.TakeInput(0);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(result, ctx.input(0).Clone(ctx.allocator()));
    }
    FORMWORK_RETURN_IF_ERROR(ScatterByDepth(op, geometry, result, ctx.input(1), ctx.input(2), bad));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// InplaceUpdate and its like. The value that they are given stays what it is, and the result is
// another one, in its memory where nobody else holds it. Indices count around: -1 is the last row.
template <ScatterOp op>
absl::StatusOr<KernelFn> MakeInplace(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (dtype == DType::kResource) {
    return Unimplemented(init.op().name, ": dtype resource is not supported");
  }
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& indices = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ScatterGeometry geometry,
                              PrepareInplace(ctx.input(0).shape().dims(), indices.shape().dims(),
                                             ctx.input(2).shape().dims()));
    if (op != ScatterOp::kUpdate && (dtype == DType::kString || dtype == DType::kBool)) {
      return InvalidArgument("Unsupported data type: ", DTypeName(dtype));
    }
    Tensor result;
    if (ctx.CanOverwrite(0)) {
      result = ctx.TakeInput(0);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(result, ctx.input(0).Clone(ctx.allocator()));
    }
    if (result.num_elements() != 0 && geometry.count != 0) {
      Rows rows;
      rows.reserve(static_cast<size_t>(geometry.count));
      for (int64_t i = 0; i < geometry.count; ++i) {
        if (WorkIsCutAt(i)) return WorkStatus();
        const int64_t row = indices.data<int32_t>()[i] % geometry.rows;
        rows.push_back(row < 0 ? row + geometry.rows : row);
      }
      FORMWORK_RETURN_IF_ERROR(Apply(op, {geometry, rows}, result, ctx.input(2)));
    }
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status ScatterNd(ScatterOp op, Tensor& target, const Tensor& indices, const Tensor& updates,
                       const BadIndices& bad) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypes(target, updates));
  FORMWORK_ASSIGN_OR_RETURN(const ScatterGeometry geometry,
                            PrepareScatterNdUpdate(target.shape().dims(), indices.shape().dims(),
                                                   updates.shape().dims()));
  return ScatterByDepth(op, geometry, target, indices, updates, bad);
}

absl::Status ScatterRows(ScatterOp op, Tensor& target, const Tensor& indices,
                         const Tensor& updates) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypes(target, updates));
  FORMWORK_ASSIGN_OR_RETURN(
      const ScatterGeometry geometry,
      PrepareScatterRows(target.shape().dims(), indices.shape().dims(), updates.shape().dims()));
  const int64_t count = geometry.count;
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
  if (count == 0 || geometry.inner == 0) return absl::OkStatus();
  return Apply(op, {geometry, rows}, target, updates);
}

void RegisterGatherScatterKernels(KernelRegistry& registry) {
  registry.Add("ScatterNd", MakeScatterNd);
  registry.Add("InplaceUpdate", MakeInplace<ScatterOp::kUpdate>);
  registry.Add("InplaceAdd", MakeInplace<ScatterOp::kAdd>);
  registry.Add("InplaceSub", MakeInplace<ScatterOp::kSub>);
  registry.Add("TensorScatterUpdate", MakeTensorScatter<ScatterOp::kUpdate>);
  registry.Add("TensorScatterAdd", MakeTensorScatter<ScatterOp::kAdd>);
  registry.Add("TensorScatterSub", MakeTensorScatter<ScatterOp::kSub>);
  registry.Add("TensorScatterMin", MakeTensorScatter<ScatterOp::kMin>);
  registry.Add("TensorScatterMax", MakeTensorScatter<ScatterOp::kMax>);
}

}  // namespace formwork
