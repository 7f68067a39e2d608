// Sums, means and the like over segments of rows that indices choose, and their gradients.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather_cpu.h"
#include "core/kernels/index_values.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/segment.h"

namespace formwork {
namespace {

enum class SparseSegmentOp : uint8_t { kSum, kMean, kSqrtN };

constexpr int64_t kTask = 64 * 1024;  // Elements worth a task.

// What rows are added up in.
template <typename T>
using Total = std::conditional_t<math::kIsSmallFloat<T>, float, T>;

// What a segment of `count` rows is multiplied by.
double ScaleOf(SparseSegmentOp op, int64_t count) {
  const double rows = static_cast<double>(count);
  return op == SparseSegmentOp::kSum ? 1
                                     : 1 / (op == SparseSegmentOp::kMean ? rows : std::sqrt(rows));
}

absl::Status CheckRows(const IndexValues& indices, int64_t rows) {
  for (int64_t i = 0; i < indices.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (indices[i] < 0 || indices[i] >= rows) {
      return InvalidArgument("Bad: indices[", i, "] == ", indices[i], " out of range [0, ", rows,
                             ")");
    }
  }
  return absl::OkStatus();
}

// Ids do not decrease; at most `count` segments, where it is not negative.
absl::Status CheckIds(const IndexValues& ids, int64_t count) {
  for (int64_t i = 0; i < ids.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (ids[i] < 0) return InvalidArgument("segment ids must be >= 0");
    if (i > 0 && ids[i] < ids[i - 1]) return InvalidArgument("segment ids are not increasing");
    if (count >= 0 && ids[i] >= count) {
      return InvalidArgument("segment ids must be < num_segments");
    }
  }
  return absl::OkStatus();
}

template <typename T>
void ReduceSegments(SparseSegmentOp op, const T* data, int64_t width, const IndexValues& indices,
                    const IndexValues& ids, T* out) {
  const int64_t n = ids.size();
  const int64_t grain = std::max<int64_t>(kTask / std::max<int64_t>(n, 1), 16);
  ParallelFor(width, grain, [&](int64_t begin, int64_t end) {
    std::vector<Total<T>> total(static_cast<size_t>(end - begin));
    const int64_t between_looks = std::max<int64_t>(kTask / (end - begin), 1);
    for (int64_t first = 0, last = 0; first < n; first = last) {
      std::fill(total.begin(), total.end(), Total<T>());
      for (; last < n && ids[last] == ids[first]; ++last) {
        if (WorkIsCutAt(last, between_looks)) return;
        const T* row = data + indices[last] * width + begin;
        for (size_t c = 0; c < total.size(); ++c) {
          total[c] = math::Add(total[c], static_cast<Total<T>>(row[c]));
        }
      }
      T* to = out + ids[first] * width + begin;
      for (size_t c = 0; c < total.size(); ++c) {
        if constexpr (std::is_integral_v<T>) {
          to[c] = total[c];
        } else {
          const auto scale = static_cast<Total<T>>(ScaleOf(op, last - first));
          to[c] = T(op == SparseSegmentOp::kSum ? total[c] : total[c] * scale);
        }
      }
    }
  });
}

template <SparseSegmentOp kOp>
absl::StatusOr<KernelFn> MakeSparseSegment(KernelInit& init) {
  const bool counted = init.input_dtypes().size() > 3;
  return KernelFn([counted](KernelContext& ctx) -> absl::Status {
    const Tensor data = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        SegmentGeometry geometry,
        PrepareSparseSegment(data.shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims(), counted ? &ctx.input(3) : nullptr));
    const IndexValues indices(ctx.input(1));
    const IndexValues ids(ctx.input(2));
    FORMWORK_RETURN_IF_ERROR(CheckIds(ids, geometry.output[0]));
    FORMWORK_RETURN_IF_ERROR(CheckRows(indices, data.dim(0)));
    if (!counted) {
      const int64_t last = ids.size() == 0 ? -1 : ids.back();
      if (last == std::numeric_limits<int64_t>::max()) {
        return InvalidArgument("segment id is too large: ", last);
      }
      geometry.output[0] = last + 1;
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), data.dtype(), shape));
    ZeroElements(out);
    const auto reduce = [&]() -> absl::Status {
      switch (data.dtype()) {
        FORMWORK_REAL_CASES(ReduceSegments(kOp, data.data<T>(), geometry.width, indices, ids,
                                           out.mutable_data<T>());
                            return absl::OkStatus())
        default:
          return Unimplemented("SparseSegment: dtype ", DTypeName(data.dtype()),
                               " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(reduce());
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

// --- Gradients ----------------------------------------------------------------------------------

absl::Status CheckGradIds(const IndexValues& ids, int64_t segments) {
  for (int64_t i = 0; i < ids.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (ids[i] < 0 || ids[i] >= segments) {
      return InvalidArgument("Segment id ", ids[i], " out of range [0, ", segments, ").");
    }
  }
  return absl::OkStatus();
}

// out[rows[i], :] += grad[ids[i], :] * scale of the segment.
template <typename T>
void SpreadGradient(SparseSegmentOp op, const T* grad, int64_t width, int64_t segments,
                    absl::Span<const int64_t> rows, const IndexValues& ids, int64_t out_rows,
                    T* out) {
  const int64_t n = ids.size();
  std::vector<int64_t> counts(static_cast<size_t>(segments));
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    ++counts[static_cast<size_t>(ids[i])];
  }
  const int64_t grain = std::max<int64_t>(kTask / std::max<int64_t>(n, 1), 16);
  ParallelFor(width, grain, [&](int64_t begin, int64_t end) {
    const int64_t between_looks = std::max<int64_t>(kTask / (end - begin), 1);
    // Small floats are added up in float, and rounded once.
    std::vector<float> wide;
    if constexpr (math::kIsSmallFloat<T>)
      wide.resize(static_cast<size_t>(out_rows * (end - begin)));
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i, between_looks)) return;
      const auto scale = static_cast<Total<T>>(ScaleOf(op, counts[static_cast<size_t>(ids[i])]));
      const T* from = grad + ids[i] * width;
      const int64_t row = rows[static_cast<size_t>(i)];
      for (int64_t c = begin; c < end; ++c) {
        const Total<T> share = static_cast<Total<T>>(from[c]) * scale;
        if constexpr (math::kIsSmallFloat<T>) {
          wide[static_cast<size_t>(row * (end - begin) + c - begin)] += share;
        } else {
          out[row * width + c] += share;
        }
      }
    }
    if constexpr (math::kIsSmallFloat<T>) {
      for (int64_t r = 0; r < out_rows; ++r) {
        if (WorkIsCutAt(r, between_looks)) return;
        for (int64_t c = begin; c < end; ++c) {
          out[r * width + c] = T(wide[static_cast<size_t>(r * (end - begin) + c - begin)]);
        }
      }
    }
  });
}

// The different indices in order, and which of them each is.
struct UniqueRows {
  std::vector<int64_t> rows;
  std::vector<int64_t> which;
};
UniqueRows SortUnique(const IndexValues& indices) {
  UniqueRows unique;
  unique.rows.assign(indices.span().begin(), indices.span().end());
  std::sort(unique.rows.begin(), unique.rows.end());
  unique.rows.erase(std::unique(unique.rows.begin(), unique.rows.end()), unique.rows.end());
  for (int64_t i = 0; i < indices.size(); ++i) {
    if (WorkIsCutAt(i)) break;
    unique.which.push_back(std::lower_bound(unique.rows.begin(), unique.rows.end(), indices[i]) -
                           unique.rows.begin());
  }
  return unique;
}

template <SparseSegmentOp kOp>
absl::StatusOr<KernelFn> MakeSparseSegmentGrad(KernelInit& init) {
  const bool unique = init.output_dtypes().size() > 1;
  return KernelFn([unique](KernelContext& ctx) -> absl::Status {
    const Tensor grad = ctx.input(0);
    const DType index_dtype = ctx.input(1).dtype();
    FORMWORK_ASSIGN_OR_RETURN(
        SegmentGeometry geometry,
        PrepareSparseSegmentGrad(grad.shape().dims(), ctx.input(1).shape().dims(),
                                 ctx.input(2).shape().dims(), &ctx.input(3)));
    const IndexValues indices(ctx.input(1));
    const IndexValues ids(ctx.input(2));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    FORMWORK_RETURN_IF_ERROR(CheckGradIds(ids, grad.dim(0)));
    const int64_t rows = geometry.output[0];
    for (int64_t i = 0; i < indices.size(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (indices[i] < 0 || indices[i] >= rows) {
        return InvalidArgument("Index ", indices[i], " out of range [0, ", rows, ").");
      }
    }
    UniqueRows chosen;
    if (unique) {
      chosen = SortUnique(indices);
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      geometry.output[0] = static_cast<int64_t>(chosen.rows.size());
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), grad.dtype(), shape));
    ZeroElements(out);
    const absl::Span<const int64_t> places =
        unique ? absl::MakeConstSpan(chosen.which) : indices.span();
    const auto spread = [&]() -> absl::Status {
      switch (grad.dtype()) {
        FORMWORK_FLOAT_CASES(SpreadGradient(kOp, grad.data<T>(), geometry.width, grad.dim(0),
                                            places, ids, geometry.output[0], out.mutable_data<T>());
                             return absl::OkStatus())
        default:
          return Unimplemented("SparseSegmentGrad: dtype ", DTypeName(grad.dtype()),
                               " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(spread());
    ctx.SetOutput(0, std::move(out));
    if (unique) return OutputIntegers(ctx, 1, index_dtype, chosen.rows);
    return absl::OkStatus();
  });
}

}  // namespace

void AddSparseSegmentCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseSegmentSum", MakeSparseSegment<SparseSegmentOp::kSum>);
  registry.Add("SparseSegmentMean", MakeSparseSegment<SparseSegmentOp::kMean>);
  registry.Add("SparseSegmentSqrtN", MakeSparseSegment<SparseSegmentOp::kSqrtN>);
  registry.Add("SparseSegmentSumWithNumSegments", MakeSparseSegment<SparseSegmentOp::kSum>);
  registry.Add("SparseSegmentMeanWithNumSegments", MakeSparseSegment<SparseSegmentOp::kMean>);
  registry.Add("SparseSegmentSqrtNWithNumSegments", MakeSparseSegment<SparseSegmentOp::kSqrtN>);
  registry.Add("SparseSegmentSumGrad", MakeSparseSegmentGrad<SparseSegmentOp::kSum>);
  registry.Add("SparseSegmentMeanGrad", MakeSparseSegmentGrad<SparseSegmentOp::kMean>);
  registry.Add("SparseSegmentSqrtNGrad", MakeSparseSegmentGrad<SparseSegmentOp::kSqrtN>);
  registry.Add("SparseSegmentSumGradV2", MakeSparseSegmentGrad<SparseSegmentOp::kSum>);
  registry.Add("SparseSegmentMeanGradV2", MakeSparseSegmentGrad<SparseSegmentOp::kMean>);
  registry.Add("SparseSegmentSqrtNGradV2", MakeSparseSegmentGrad<SparseSegmentOp::kSqrtN>);
}

}  // namespace formwork
