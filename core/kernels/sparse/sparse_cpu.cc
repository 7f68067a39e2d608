// Sparse tensors: to dense ones, in order, in other shapes, with rows that were empty filled.

#include "core/kernels/sparse/sparse_cpu.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/index_values.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/shape_tensor.h"
#include "core/ops/dims.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

SparseShapes PartsOf(KernelContext& ctx, int first) {
  return {ctx.input(first).shape().dims(), ctx.input(first + 1).shape().dims(),
          ctx.input(first + 2).shape().dims()};
}

absl::Span<const int64_t> IndexAt(const IndexValues& indices, int64_t row, int64_t rank) {
  return indices.span().subspan(static_cast<size_t>(row * rank), static_cast<size_t>(rank));
}

bool IsWithin(absl::Span<const int64_t> index, absl::Span<const int64_t> dims) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (index[d] < 0 || index[d] >= dims[d]) return false;
  }
  return true;
}

// In bounds, in order and without repetition, as SparseToDense with validate_indices wants.
absl::Status CheckOrder(const IndexValues& indices, int64_t rows, absl::Span<const int64_t> dims) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < rows; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const absl::Span<const int64_t> index = IndexAt(indices, i, rank);
    if (!IsWithin(index, dims)) {
      return InvalidArgument("indices[", i, "] = [", absl::StrJoin(index, ","),
                             "] is out of bounds: need 0 <= index < [", absl::StrJoin(dims, ","),
                             "]");
    }
    if (i == 0) continue;
    const absl::Span<const int64_t> before = IndexAt(indices, i - 1, rank);
    if (before < index) continue;
    if (before == index) {
      return InvalidArgument("indices[", i, "] = [", absl::StrJoin(index, ","), "] is repeated");
    }
    return InvalidArgument("indices[", i, "] = [", absl::StrJoin(index, ","),
                           "] is out of order. Many sparse ops require sorted indices.\n    Use "
                           "`tf.sparse.reorder` to create a correctly ordered copy.\n\n");
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSparseToDense(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool validate, init.attrs().Get<bool>("validate_indices"));
  return KernelFn([validate](KernelContext& ctx) -> absl::Status {
    const Tensor values = ctx.input(2);
    const Tensor fill = ctx.input(3);
    FORMWORK_ASSIGN_OR_RETURN(
        const Dims dims, PrepareSparseToDense({ctx.input(0).shape().dims(), values.shape().dims(),
                                               ctx.input(1).shape().dims()},
                                              &ctx.input(1), fill.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    const IndexValues indices(ctx.input(0));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const int64_t rank = shape.rank();
    const int64_t rows = ctx.input(0).rank() == 0 ? 1 : ctx.input(0).dim(0);
    if (validate) FORMWORK_RETURN_IF_ERROR(CheckOrder(indices, rows, shape.dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor dense,
                              Tensor::Allocate(ctx.allocator(), values.dtype(), shape));
    FillElements(dense.dtype(), fill.raw(), shape.num_elements(), dense.mutable_raw());
    const Dims strides = RowMajorStrides(shape);
    FORMWORK_RETURN_IF_ERROR(ByElement(values.dtype(), [&](auto tag) -> absl::Status {
      using E = typename decltype(tag)::type;
      const E* from = static_cast<const E*>(values.raw());
      E* to = static_cast<E*>(dense.mutable_raw());
      for (int64_t i = 0; i < rows; ++i) {
        if (WorkIsCutAt(i)) return WorkStatus();
        const absl::Span<const int64_t> index = IndexAt(indices, i, rank);
        if (!IsWithin(index, shape.dims())) {
          return InvalidArgument("Indices are not valid (out of bounds).  Shape: ",
                                 shape.ToString());
        }
        to[std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0})] =
            from[values.rank() == 0 ? 0 : i];
      }
      return absl::OkStatus();
    }));
    ctx.SetOutput(0, std::move(dense));
    return absl::OkStatus();
  });
}

// --- SparseReorder ------------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeSparseReorder(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckSparse(PartsOf(ctx, 0)));
    const Tensor values = ctx.input(1);
    const IndexValues indices(ctx.input(0));
    const IndexValues dims(ctx.input(2));
    const int64_t rank = dims.size();
    const int64_t rows = values.num_elements();
    std::vector<int64_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    bool sorted = true;
    for (int64_t i = 0; i < rows; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (!IsWithin(IndexAt(indices, i, rank), dims.span())) {
        return InvalidArgument("Index ", IndexText(IndexAt(indices, i, rank)),
                               " is out of range of shape ", IndexText(dims.span()));
      }
      if (i > 0 && IndexAt(indices, i, rank) < IndexAt(indices, i - 1, rank)) sorted = false;
    }
    if (!sorted) {
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return IndexAt(indices, a, rank) < IndexAt(indices, b, rank);
      });
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor ordered,
                              Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{rows, rank}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor moved,
                              Tensor::Allocate(ctx.allocator(), values.dtype(), Shape{rows}));
    int64_t* to = ordered.mutable_data<int64_t>();
    for (int64_t i = 0; i < rows; ++i, to += rank) {
      if (WorkIsCutAt(i)) return WorkStatus();
      absl::c_copy(IndexAt(indices, order[static_cast<size_t>(i)], rank), to);
    }
    ByElement(values.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* from = static_cast<const E*>(values.raw());
      E* out = static_cast<E*>(moved.mutable_raw());
      for (int64_t i = 0; i < rows; ++i) {
        if (WorkIsCutAt(i)) return;
        out[i] = from[order[static_cast<size_t>(i)]];
      }
    });
    ctx.SetOutput(0, std::move(ordered));
    ctx.SetOutput(1, std::move(moved));
    return absl::OkStatus();
  });
}

// --- SparseReshape ------------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeSparseReshape(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Shape& shape = ctx.input(0).shape();
    if (shape.rank() != 2) {
      return InvalidArgument("Input indices should be a matrix but received shape ",
                             shape.ToString());
    }
    for (int i = 1; i < 3; ++i) {
      if (ctx.input(i).rank() == 1) continue;
      return InvalidArgument(i == 1 ? "Input" : "Target",
                             " shape should be a vector but received shape ",
                             ctx.input(i).shape().ToString());
    }
    const IndexValues indices(ctx.input(0));
    const IndexValues from(ctx.input(1));
    if (shape.dim(1) != from.size()) {
      return InvalidArgument("Input tensor rank must match input shape length.");
    }
    FORMWORK_ASSIGN_OR_RETURN(const Dims to, PrepareSparseReshape(from.span(), ctx.input(2)));
    const int64_t rows = shape.dim(0);
    const int64_t rank = static_cast<int64_t>(to.size());
    FORMWORK_ASSIGN_OR_RETURN(Tensor reshaped,
                              Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{rows, rank}));
    int64_t* out = reshaped.mutable_data<int64_t>();
    for (int64_t i = 0; i < rows; ++i, out += rank) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const absl::Span<const int64_t> index = IndexAt(indices, i, from.size());
      if (!IsWithin(index, from.span())) {
        return InvalidArgument("Index ", IndexText(index), " is out of range of shape ",
                               IndexText(from.span()));
      }
      int64_t flat = 0;
      for (int64_t d = 0; d < from.size(); ++d) {
        flat = flat * from[d] + index[static_cast<size_t>(d)];
      }
      for (int64_t d = rank - 1; d >= 0; --d) {
        out[d] = flat % to[static_cast<size_t>(d)];
        flat /= to[static_cast<size_t>(d)];
      }
    }
    ctx.SetOutput(0, std::move(reshaped));
    return OutputIntegers(ctx, 1, DType::kInt64, to);
  });
}

// --- SparseFillEmptyRows, RaggedFillEmptyRows ----------------------------------------------------

// kRagged: of rows alone, which are a vector.
template <bool kRagged>
absl::StatusOr<KernelFn> MakeFillEmptyRows(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    if constexpr (kRagged) {
      FORMWORK_RETURN_IF_ERROR(
          CheckRaggedFillEmptyRows(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                   ctx.input(2).shape().dims(), ctx.input(3).shape().dims()));
    } else {
      FORMWORK_RETURN_IF_ERROR(
          CheckSparseFillEmptyRows(PartsOf(ctx, 0), ctx.input(3).shape().dims()));
    }
    const Tensor values = ctx.input(1);
    const Tensor fill = ctx.input(3);
    const IndexValues indices(ctx.input(0));
    const IndexValues dims(ctx.input(2));
    const int64_t rank = dims.size();
    const int64_t n = values.num_elements();
    const int64_t rows = dims[0];
    if (rows < 0) {
      return InvalidArgument(kRagged ? "nrows" : "dense_shape[0]", " must not be negative: ", rows);
    }
    if (rows == 0 && n > 0) {
      return InvalidArgument(
          "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ", n);
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor empty,
                              Tensor::Allocate(ctx.allocator(), DType::kBool, Shape{rows}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor map,
                              Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{n}));
    // Where the next element of each row goes.
    std::vector<int64_t> next(static_cast<size_t>(rows) + 1);
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t row = indices[i * rank];
      if (row < 0 || row >= rows) {
        return InvalidArgument("indices(", i, ", 0) is invalid: ", row, " >= ", rows);
      }
      ++next[static_cast<size_t>(row) + 1];
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (WorkIsCutAt(row)) return WorkStatus();
      int64_t& count = next[static_cast<size_t>(row) + 1];
      empty.mutable_data<bool>()[row] = count == 0;
      count = std::max<int64_t>(count, 1) + next[static_cast<size_t>(row)];
    }
    const int64_t total = next.back();
    FORMWORK_ASSIGN_OR_RETURN(const Shape indices_shape, Shape::Make({total, rank}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor filled,
                              Tensor::Allocate(ctx.allocator(), DType::kInt64, indices_shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                              Tensor::Allocate(ctx.allocator(), values.dtype(), Shape{total}));
    FillElements(out.dtype(), fill.raw(), total, out.mutable_raw());
    int64_t* to = filled.mutable_data<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
      if (WorkIsCutAt(row)) return WorkStatus();
      if (!empty.data<bool>()[row]) continue;
      int64_t* index = to + next[static_cast<size_t>(row)] * rank;
      std::fill_n(index, rank, 0);
      index[0] = row;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t place = next[static_cast<size_t>(indices[i * rank])]++;
      map.mutable_data<int64_t>()[i] = place;
      absl::c_copy(IndexAt(indices, i, rank), to + place * rank);
    }
    ByElement(values.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* from = static_cast<const E*>(values.raw());
      E* at = static_cast<E*>(out.mutable_raw());
      for (int64_t i = 0; i < n; ++i) {
        if (WorkIsCutAt(i)) return;
        at[map.data<int64_t>()[i]] = from[i];
      }
    });
    ctx.SetOutput(0, kRagged ? std::move(filled).Reshaped(Shape{total}) : std::move(filled));
    ctx.SetOutput(1, std::move(out));
    ctx.SetOutput(2, std::move(empty));
    ctx.SetOutput(3, std::move(map));
    return absl::OkStatus();
  });
}

template <typename T>
absl::Status FillEmptyRowsGrad(const Tensor& map, const Tensor& grad, Tensor& values,
                               Tensor& fill) {
  const int64_t n = grad.num_elements();
  std::vector<bool> taken(static_cast<size_t>(n));
  for (int64_t i = 0; i < map.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const int64_t place = map.data<int64_t>()[i];
    if (place < 0 || place >= n) {
      return InvalidArgument("Elements in reverse index must be in [0, ", n, ") but got ", place);
    }
    values.mutable_data<T>()[i] = grad.data<T>()[place];
    taken[static_cast<size_t>(place)] = true;
  }
  T sum{};
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (!taken[static_cast<size_t>(i)]) sum = math::Add(sum, grad.data<T>()[i]);
  }
  *fill.mutable_data<T>() = sum;
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeFillEmptyRowsGrad(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor map = ctx.input(0);
    const Tensor grad = ctx.input(1);
    if (map.rank() != 1) {
      return InvalidArgument("reverse_index_map must be a vector, saw: ", map.shape().ToString());
    }
    if (grad.rank() != 1) {
      return InvalidArgument("grad_values must be a vector, saw: ", grad.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor values,
                              Tensor::Allocate(ctx.allocator(), grad.dtype(), map.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor fill,
                              Tensor::Allocate(ctx.allocator(), grad.dtype(), Shape()));
    const auto run = [&]() -> absl::Status {
      switch (grad.dtype()) {
        FORMWORK_NUMBER_CASES(return FillEmptyRowsGrad<T>(map, grad, values, fill))
        default:
          return Unimplemented("gradient of filled rows: dtype ", DTypeName(grad.dtype()),
                               " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(values));
    ctx.SetOutput(1, std::move(fill));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSparseCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseToDense", MakeSparseToDense);
  registry.Add("SparseReorder", MakeSparseReorder);
  registry.Add("SparseReshape", MakeSparseReshape);
  registry.Add("SparseFillEmptyRows", MakeFillEmptyRows<false>);
  registry.Add("SparseFillEmptyRowsGrad", MakeFillEmptyRowsGrad);
  registry.Add("RaggedFillEmptyRows", MakeFillEmptyRows<true>);
  registry.Add("RaggedFillEmptyRowsGrad", MakeFillEmptyRowsGrad);
  AddSparseArithmeticCpuKernels(registry);
  AddSparseSerialCpuKernels(registry);
  AddSparseCwiseCpuKernels(registry);
  AddSparseReductionCpuKernels(registry);
  AddSparsePartsCpuKernels(registry);
  AddCrossCpuKernels(registry);
  AddEditDistanceCpuKernel(registry);
  AddSetCpuKernels(registry);
}

}  // namespace formwork
