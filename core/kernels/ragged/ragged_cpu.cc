// Ragged tensors: ranges, rows that are gathered, and their sparse form.

#include "core/kernels/ragged/ragged_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/index_read.h"
#include "core/kernels/index_values.h"
#include "core/kernels/ragged/row_splits.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/ragged.h"

namespace formwork {
namespace {

constexpr int64_t kMaxLength = std::numeric_limits<int64_t>::max();

template <typename T>
absl::StatusOr<int64_t> RangeLength(T from, T to, T by) {
  if (by == 0) return InvalidArgument("Requires delta != 0");
  if ((by > 0 && to < from) || (by < 0 && to > from)) return 0;
  if constexpr (std::is_integral_v<T>) {
    const auto ahead = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
    const uint64_t distance = by > 0 ? ahead : -ahead;
    const uint64_t step = by > 0 ? static_cast<uint64_t>(by) : -static_cast<uint64_t>(by);
    const uint64_t length = distance / step + (distance % step != 0 ? 1 : 0);
    if (length <= static_cast<uint64_t>(kMaxLength)) return static_cast<int64_t>(length);
  } else {
    const double length = std::ceil(std::abs((to - from) / by));
    if (length < static_cast<double>(kMaxLength)) return static_cast<int64_t>(length);
  }
  return InvalidArgument("Requires ((limit - start) / delta) <= ", kMaxLength);
}

template <typename T>
absl::Status RaggedRange(KernelContext& ctx, int64_t rows, DType splits_dtype) {
  const T* in[3];
  int64_t step[3];
  for (int i = 0; i < 3; ++i) {
    in[i] = ctx.input(i).data<T>();
    step[i] = ctx.input(i).rank();
  }
  const auto at = [&](int i, int64_t row) { return in[i][row * step[i]]; };
  std::vector<int64_t> splits = {0};
  const int64_t limit =
      splits_dtype == DType::kInt64 ? kMaxLength : int64_t{std::numeric_limits<int32_t>::max()};
  for (int64_t row = 0; row < rows; ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const int64_t length,
                              RangeLength<T>(at(0, row), at(1, row), at(2, row)));
    const std::optional<int64_t> end = CheckedAdd(splits.back(), length);
    if (!end || *end > limit) {
      return InvalidArgument("Cannot represent the number of values of ", row + 1,
                             " rows: splits are limited to ", limit);
    }
    splits.push_back(*end);
  }
  // The inputs are read until the end: what is made of them is set only then.
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor values, Tensor::Allocate(ctx.allocator(), DTypeOf<T>::value, Shape{splits.back()}));
  T* to = values.mutable_data<T>();
  for (int64_t row = 0; row < rows; ++row) {
    T value = at(0, row);
    const T delta = at(2, row);
    const int64_t end = splits[static_cast<size_t>(row) + 1];
    for (int64_t i = splits[static_cast<size_t>(row)]; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      to[i] = value;
      // What follows the last one may not be there.
      if (i + 1 < end) value = math::Add(value, delta);
    }
  }
  FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, 0, splits_dtype, splits));
  ctx.SetOutput(1, std::move(values));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeRaggedRange(KernelInit& init) {
  const DType splits = init.output_dtypes()[0];
  return KernelFn([splits](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t rows, PrepareRaggedRange(ctx.input(0).shape().dims(),
                                                                     ctx.input(1).shape().dims(),
                                                                     ctx.input(2).shape().dims()));
    switch (ctx.input(0).dtype()) {
      FORMWORK_CASE(float, return RaggedRange<T>(ctx, rows, splits))
      FORMWORK_CASE(double, return RaggedRange<T>(ctx, rows, splits))
      FORMWORK_CASE(int32_t, return RaggedRange<T>(ctx, rows, splits))
      FORMWORK_CASE(int64_t, return RaggedRange<T>(ctx, rows, splits))
      default:
        return Unimplemented("RaggedRange: dtype ", DTypeName(ctx.input(0).dtype()),
                             " is not supported");
    }
  });
}

// --- RaggedGather -------------------------------------------------------------------------------

// As RaggedGather looks at splits: they may begin anywhere and leave values out.
absl::StatusOr<std::vector<IndexValues>> ParamsSplits(KernelContext& ctx, int count, int64_t rows) {
  std::vector<IndexValues> nested;
  nested.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    nested.emplace_back(ctx.input(i));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
  }
  for (size_t i = 0; i < nested.size(); ++i) {
    const IndexValues& splits = nested[i];
    if (splits.size() == 0) return InvalidArgument("Ragged splits may not be empty");
    if (splits[0] < 0) return InvalidArgument("Ragged splits must be non-negative");
    const int64_t last = i + 1 < nested.size() ? nested[i + 1].size() - 1 : rows;
    if (splits.back() > last) return InvalidArgument("Ragged splits must not point past values");
    for (int64_t k = 1; k < splits.size(); ++k) {
      if (WorkIsCutAt(k)) return WorkStatus();
      if (splits[k] < splits[k - 1]) return InvalidArgument("Ragged splits must be sorted");
    }
  }
  return nested;
}

struct RowRange {
  int64_t begin;
  int64_t end;
};

absl::Status RaggedGather(KernelContext& ctx, DType splits_dtype) {
  const int count = ctx.num_inputs() - 2;
  const Tensor& values = ctx.input(count);
  const Tensor& indices = ctx.input(count + 1);
  if (values.rank() == 0) return InvalidArgument("params.rank must be nonzero");
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<IndexValues> params,
                            ParamsSplits(ctx, count, values.dim(0)));
  const IndexValues chosen(indices);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const int64_t rows = params[0].size() - 1;
  for (int64_t i = 0; i < chosen.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (chosen[i] < 0 || chosen[i] >= rows) {
      return InvalidArgument("indices", PositionString(indices.shape().dims(), i), " = ", chosen[i],
                             " is not in [0, ", rows, ")");
    }
  }
  // Splits of the indices' own dimensions, then those of the rows that are gathered.
  const int outer = indices.rank() - 1;
  std::vector<std::vector<int64_t>> splits(static_cast<size_t>(std::max(outer + count, 0)), {0});
  int64_t slices = 1;
  for (int d = 0; d < outer; ++d) {
    slices *= indices.dim(d);
    for (int64_t i = 1; i <= slices; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      splits[static_cast<size_t>(d)].push_back(i * indices.dim(d + 1));
    }
  }
  std::vector<RowRange> ranges;
  int64_t total = 0;
  for (int64_t i = 0; i < chosen.size(); ++i) {
    RowRange range = {chosen[i], chosen[i] + 1};
    for (int p = 0; p < count; ++p) {
      const IndexValues& from = params[static_cast<size_t>(p)];
      if (p + outer >= 0) {
        std::vector<int64_t>& to = splits[static_cast<size_t>(p + outer)];
        const int64_t shift = to.back() - from[range.begin];
        for (int64_t k = range.begin; k < range.end; ++k) {
          if (WorkIsCutAt(k)) return WorkStatus();
          to.push_back(from[k + 1] + shift);
        }
      }
      range = {from[range.begin], from[range.end]};
    }
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    ranges.push_back(range);
    total += range.end - range.begin;
  }
  Dims dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = total;
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor gathered,
                            Tensor::Allocate(ctx.allocator(), values.dtype(), shape));
  const int64_t width = ProductOf(values.shape().dims().subspan(1));
  ByElement(values.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E* from = static_cast<const E*>(values.raw());
    E* to = static_cast<E*>(gathered.mutable_raw());
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return;
      const int64_t n = (ranges[i].end - ranges[i].begin) * width;
      CopyElements(from + ranges[i].begin * width, n, to);
      to += n;
    }
  });
  for (size_t i = 0; i < splits.size(); ++i) {
    FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, static_cast<int>(i), splits_dtype, splits[i]));
  }
  ctx.SetOutput(ctx.num_outputs() - 1, std::move(gathered));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeRaggedGather(KernelInit& init) {
  const DType splits = init.input_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const int64_t rank, init.attrs().Get<int64_t>("OUTPUT_RAGGED_RANK"));
  const int64_t params = static_cast<int64_t>(init.input_dtypes().size()) - 2;
  return KernelFn([splits, rank, params](KernelContext& ctx) -> absl::Status {
    const int64_t outer = ctx.input(ctx.num_inputs() - 1).rank() - 1;
    if (rank != std::max<int64_t>(params + outer, 0)) {
      return InvalidArgument("RaggedGather: OUTPUT_RAGGED_RANK is ", rank, ", not ",
                             params + outer);
    }
    return RaggedGather(ctx, splits);
  });
}

// --- RaggedTensorToSparse -----------------------------------------------------------------------

absl::Status RaggedToSparse(KernelContext& ctx) {
  const int count = ctx.num_inputs() - 1;
  const Tensor values = ctx.input(count);
  if (values.rank() == 0) return InvalidArgument("rt_dense_values must have rank 1 or more");
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<IndexValues> splits,
                            NestedSplits(ctx, 0, count, values.dim(0)));
  const int rank = count + values.rank();
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({values.num_elements(), rank}));
  Dims dense = {splits[0].size() - 1};
  for (const IndexValues& rows : splits) {
    int64_t longest = 0;
    for (int64_t i = 1; i < rows.size(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      longest = std::max(longest, rows[i] - rows[i - 1]);
    }
    dense.push_back(longest);
  }
  dense.insert(dense.end(), values.shape().dims().begin() + 1, values.shape().dims().end());
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, shape));
  int64_t* to = indices.mutable_data<int64_t>();
  // Where each ragged dimension is: the row, of all rows of that depth.
  Dims row(static_cast<size_t>(count), 0);
  const int64_t width = ProductOf(values.shape().dims().subspan(1));
  int64_t written = 0;
  for (int64_t v = 0; v < values.dim(0) && width > 0; ++v) {
    int64_t inside = v;
    for (int d = count - 1; d >= 0; --d) {
      const size_t at = static_cast<size_t>(d);
      while (splits[at][row[at] + 1] <= inside) ++row[at];
      inside = row[at];
    }
    for (int64_t w = 0; w < width; ++w, to += rank) {
      if (WorkIsCutAt(written++)) return WorkStatus();
      to[0] = row[0];
      for (int d = 0; d < count; ++d) {
        const size_t at = static_cast<size_t>(d);
        to[d + 1] = (d + 1 < count ? row[at + 1] : v) - splits[at][row[at]];
      }
      int64_t rest = w;
      for (int d = values.rank() - 1; d > 0; --d) {
        to[count + d] = rest % values.dim(d);
        rest /= values.dim(d);
      }
    }
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, values.Reshaped(Shape{values.num_elements()}));
  return OutputIntegers(ctx, 2, DType::kInt64, dense);
}

absl::StatusOr<KernelFn> MakeRaggedToSparse(KernelInit& init) {
  if (init.input_dtypes().size() < 2) {
    return InvalidArgument("rt_nested_splits must be non empty");
  }
  return KernelFn([](KernelContext& ctx) { return RaggedToSparse(ctx); });
}

}  // namespace

void RegisterRaggedCpuKernels(KernelRegistry& registry) {
  registry.Add("RaggedRange", MakeRaggedRange);
  registry.Add("RaggedGather", MakeRaggedGather);
  registry.Add("RaggedTensorToSparse", MakeRaggedToSparse);
  AddRaggedToTensorCpuKernel(registry);
  AddRaggedVariantCpuKernels(registry);
}

}  // namespace formwork
