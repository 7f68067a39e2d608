#include <algorithm>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/reduction/reduction.h"

namespace formwork {
namespace {

// Counts values[0..n) into bins[0..size); values of size and more are left out.
template <typename I, typename T>
void Count(const I* values, const T* weights, int64_t n, int64_t size, bool binary, T* bins) {
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    if (values[i] >= size) continue;
    T& bin = bins[values[i]];
    if (binary) {
      bin = T(1);
    } else {
      bin += weights == nullptr ? T(1) : weights[i];
    }
  }
}

template <typename I>
absl::Status DenseBincount(KernelContext& ctx, const BincountAttrs& attrs) {
  const Tensor& values = ctx.input(0);
  const Tensor& weights = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount(values.shape().dims(), &ctx.input(1)));
  if (weights.num_elements() != 0 && weights.shape() != values.shape()) {
    return InvalidArgument(
        "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts "
        "as all weights equal to 1. Received ",
        weights.shape().ToString());
  }
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (values.data<I>()[i] < 0) return InvalidArgument("Input arr must be non-negative!");
  }
  const int64_t rows = values.rank() == 2 ? values.dim(0) : 1;
  const int64_t n = values.rank() == 2 ? values.dim(1) : values.num_elements();
  const int64_t size = dims.back();
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, weights.dtype(), shape));
  auto fill = [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    T* bins = out->mutable_data<T>();
    FillElements(out->dtype(), &zero, out->num_elements(), bins);
    ForBlocks(rows, std::max<int64_t>(kCheapItems / std::max<int64_t>(n, 1), 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r) {
                  const T* row_weights =
                      weights.num_elements() == 0 ? nullptr : weights.data<T>() + r * n;
                  Count(values.data<I>() + r * n, row_weights, n, size, attrs.binary_output,
                        bins + r * size);
                }
              });
    return absl::OkStatus();
  };
  switch (weights.dtype()) {
    FORMWORK_CASE(float, return fill(T(0)))
    FORMWORK_CASE(double, return fill(T(0)))
    case DType::kInt32:
      return fill(uint32_t{0});  // Counts wrap around.
    case DType::kInt64:
      return fill(uint64_t{0});
    default:
      return Unimplemented("DenseBincount: dtype ", DTypeName(weights.dtype()),
                           " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeDenseBincount(KernelInit& init) {
  const bool wide = init.input_dtypes()[0] == DType::kInt64;
  FORMWORK_ASSIGN_OR_RETURN(const BincountAttrs attrs, BincountAttrs::FromAttrs(init.attrs()));
  return KernelFn([wide, attrs](KernelContext& ctx) -> absl::Status {
    return wide ? DenseBincount<int64_t>(ctx, attrs) : DenseBincount<int32_t>(ctx, attrs);
  });
}

// --- RaggedBincount, SparseBincount: a row of bins for each row of values
// --------------------------

// Checks values, and allocates zeros for `rows` of them; `rows` below 0: one row, a vector.
template <typename I>
absl::StatusOr<Tensor> EmptyBins(KernelContext& ctx, const Tensor& values, const Tensor& weights,
                                 const Tensor& size, int64_t rows) {
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount({-1}, &size));
  if (rows >= 0) dims.insert(dims.begin(), rows);
  if (weights.num_elements() != 0 && weights.shape() != values.shape()) {
    return InvalidArgument(
        "`weights` must be the same shape as `values` or a length-0 `Tensor`, in which case it "
        "acts as all weights equal to 1. Received ",
        weights.shape().ToString());
  }
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (values.data<I>()[i] < 0) return InvalidArgument("Input must be non-negative");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor bins, Tensor::Allocate(ctx.allocator(), weights.dtype(), shape));
  ZeroElements(bins);
  return bins;
}

// Calls count(zero) with a zero of the type that the bins are counted in.
template <typename F>
absl::Status WithBinType(DType dtype, F&& count) {
  switch (dtype) {
    FORMWORK_CASE(float, return count(T(0)))
    FORMWORK_CASE(double, return count(T(0)))
    case DType::kInt32:
      return count(uint32_t{0});  // Counts wrap around.
    case DType::kInt64:
      return count(uint64_t{0});
    default:
      return Unimplemented("Bincount: dtype ", DTypeName(dtype), " is not supported");
  }
}

template <typename I>
absl::Status RaggedBincount(KernelContext& ctx, const BincountAttrs& attrs) {
  const Tensor& splits = ctx.input(0);
  const Tensor& values = ctx.input(1);
  const Tensor& weights = ctx.input(3);
  if (splits.rank() != 1 || splits.num_elements() == 0) {
    return InvalidArgument("Splits must be a vector of at least one element, not ",
                           splits.shape().ToString());
  }
  const int64_t* begins = splits.data<int64_t>();
  const int64_t rows = splits.num_elements() - 1;
  if (begins[0] != 0) return InvalidArgument("Splits must start with 0, not with ", begins[0]);
  for (int64_t i = 0; i < rows; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (begins[i + 1] < begins[i]) return InvalidArgument("Splits must not decrease");
  }
  if (begins[rows] != values.num_elements()) {
    return InvalidArgument("Splits must end with the number of values, got ", begins[rows],
                           " instead of ", values.num_elements());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor bins, EmptyBins<I>(ctx, values, weights, ctx.input(2), rows));
  const int64_t size = bins.dim(1);
  FORMWORK_RETURN_IF_ERROR(WithBinType(bins.dtype(), [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    for (int64_t r = 0; r < rows; ++r) {
      if (WorkIsCutAt(r, kDearItems)) return WorkStatus();
      const T* row = weights.num_elements() == 0 ? nullptr : weights.data<T>() + begins[r];
      Count(values.data<I>() + begins[r], row, begins[r + 1] - begins[r], size, attrs.binary_output,
            bins.mutable_data<T>() + r * size);
    }
    return absl::OkStatus();
  }));
  ctx.SetOutput(0, std::move(bins));
  return absl::OkStatus();
}

template <typename I>
absl::Status SparseBincount(KernelContext& ctx, const BincountAttrs& attrs) {
  const Tensor& indices = ctx.input(0);
  const Tensor& values = ctx.input(1);
  const Tensor& dense = ctx.input(2);
  const Tensor& weights = ctx.input(4);
  if (indices.rank() != 2 || values.rank() != 1 || dense.rank() != 1 ||
      indices.dim(0) != values.dim(0) || indices.dim(1) != dense.dim(0)) {
    return InvalidArgument(
        "Number of values must match first dimension of indices, and sizes its "
        "second. Got ",
        values.shape().ToString(), " values, ", dense.shape().ToString(),
        " sizes, indices shape: ", indices.shape().ToString());
  }
  const int64_t rank = indices.dim(1);
  if (rank < 1 || rank > 2) {
    return InvalidArgument("SparseBincount: the rank must be 1 or 2, not ", rank);
  }
  const int64_t rows = rank == 1 ? -1 : dense.data<int64_t>()[0];
  if (rank == 2 && rows < 0) return InvalidArgument("dense_shape must not be negative: ", rows);
  FORMWORK_ASSIGN_OR_RETURN(Tensor bins, EmptyBins<I>(ctx, values, weights, ctx.input(3), rows));
  const int64_t size = bins.shape().dims().back();
  FORMWORK_RETURN_IF_ERROR(WithBinType(bins.dtype(), [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t row = rank == 1 ? 0 : indices.data<int64_t>()[2 * i];
      if (row < 0 || (rank == 2 && row >= rows)) {
        return InvalidArgument("Index out of bound. `batch` (", row,
                               ") must be less than the dimension size (", rows, ").");
      }
      const T* weight = weights.num_elements() == 0 ? nullptr : weights.data<T>() + i;
      Count(values.data<I>() + i, weight, 1, size, attrs.binary_output,
            bins.mutable_data<T>() + row * size);
    }
    return absl::OkStatus();
  }));
  ctx.SetOutput(0, std::move(bins));
  return absl::OkStatus();
}

template <bool kSparse>
absl::StatusOr<KernelFn> MakeRowBincount(KernelInit& init) {
  const bool wide = init.input_dtypes()[1] == DType::kInt64;
  FORMWORK_ASSIGN_OR_RETURN(const BincountAttrs attrs, BincountAttrs::FromAttrs(init.attrs()));
  return KernelFn([wide, attrs](KernelContext& ctx) -> absl::Status {
    if constexpr (kSparse) {
      return wide ? SparseBincount<int64_t>(ctx, attrs) : SparseBincount<int32_t>(ctx, attrs);
    } else {
      return wide ? RaggedBincount<int64_t>(ctx, attrs) : RaggedBincount<int32_t>(ctx, attrs);
    }
  });
}

}  // namespace

void RegisterBincountKernels(KernelRegistry& registry) {
  registry.Add("DenseBincount", MakeDenseBincount);
  registry.Add("RaggedBincount", MakeRowBincount<false>);
  registry.Add("SparseBincount", MakeRowBincount<true>);
}

}  // namespace formwork
