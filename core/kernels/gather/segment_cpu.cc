#include <algorithm>
#include <complex>
#include <limits>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather_cpu.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/segment.h"

namespace formwork {
namespace {

enum class SegmentOp : uint8_t { kSum, kProd, kMax, kMin };

constexpr int64_t kTask = 64 * 1024;  // Elements worth a task.

template <SegmentOp kOp, typename T>
T Combine(T a, T b) {
  if constexpr (kOp == SegmentOp::kSum) {
    return math::Add(a, b);
  } else if constexpr (kOp == SegmentOp::kProd) {
    return math::Mul(a, b);
  } else if constexpr (math::kIsSmallFloat<T>) {
    return T(Combine<kOp, float>(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (kOp == SegmentOp::kMax) {
    return a > b ? a : b;  // A NaN stays until the next number, as in TensorFlow.
  } else {
    return a < b ? a : b;
  }
}

// What an empty segment holds.
template <SegmentOp kOp, typename T>
T First() {
  if constexpr (kOp == SegmentOp::kSum || kOp == SegmentOp::kProd) {
    const int value = kOp == SegmentOp::kSum ? 0 : 1;
    if constexpr (math::kIsSmallFloat<T>) {
      return T(static_cast<float>(value));
    } else {
      return T(value);
    }
  } else if constexpr (math::kIsSmallFloat<T>) {
    // The largest finite number.
    T bound;
    bound.bits = std::is_same_v<T, half> ? 0x7bff : 0x7f7f;
    if (kOp == SegmentOp::kMax) bound.bits |= 0x8000;
    return bound;
  } else {
    return kOp == SegmentOp::kMax ? std::numeric_limits<T>::lowest()
                                  : std::numeric_limits<T>::max();
  }
}

int64_t IdAt(const Tensor& ids, int64_t i) {
  switch (ids.dtype()) {
    case DType::kInt16:
      return ids.data<int16_t>()[i];
    case DType::kInt32:
      return ids.data<int32_t>()[i];
    default:
      return ids.data<int64_t>()[i];
  }
}

// Rows [begin, end), and columns [first, last) of them.
template <SegmentOp kOp, typename T, typename Id>
void CombineRows(const T* from, const Id* ids, int64_t begin, int64_t end, int64_t width,
                 int64_t first, int64_t last, T* to) {
  for (int64_t r = begin; r < end; ++r) {
    if (ids[r] < 0) continue;
    const T* const row = from + r * width;
    T* const segment = to + static_cast<int64_t>(ids[r]) * width;
    for (int64_t c = first; c < last; ++c) segment[c] = Combine<kOp, T>(segment[c], row[c]);
  }
}

// Of so few columns that a segment stays in registers while rows are of it.
template <SegmentOp kOp, typename T, typename Id, int kWidth>
void CombineNarrowRows(const T* from, const Id* ids, int64_t begin, int64_t end, T* to) {
  T sums[kWidth] = {};
  Id at = -1;
  const auto store = [&] {
    if (at >= 0) std::copy_n(sums, kWidth, to + static_cast<int64_t>(at) * kWidth);
  };
  for (int64_t r = begin; r < end; ++r) {
    if (ids[r] < 0) continue;
    if (ids[r] != at) {
      store();
      at = ids[r];
      std::copy_n(to + static_cast<int64_t>(at) * kWidth, kWidth, sums);
    }
    const T* const row = from + r * kWidth;
    for (int c = 0; c < kWidth; ++c) sums[c] = Combine<kOp, T>(sums[c], row[c]);
  }
  store();
}

template <SegmentOp kOp, typename T, typename Id>
void CombineSegments(const T* from, const Id* ids, int64_t rows, int64_t width, T* to) {
  // Tasks take columns: rows of one segment must be added in order.
  constexpr int64_t kFewest = 16;
  const int64_t grain = std::max<int64_t>(kTask / std::max<int64_t>(rows, 1), kFewest);
  ParallelFor(width, grain, [&](int64_t first, int64_t last) {
    const int64_t rows_between_looks = std::max<int64_t>(kTask / (last - first), 1);
    for (int64_t r = 0; r < rows && !WorkIsCut(); r += rows_between_looks) {
      const int64_t end = std::min(r + rows_between_looks, rows);
      // Each copy costs code: for the types that most is computed in.
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        if (width == 1) {
          CombineNarrowRows<kOp, T, Id, 1>(from, ids, r, end, to);
          continue;
        }
        if (width == 4) {
          CombineNarrowRows<kOp, T, Id, 4>(from, ids, r, end, to);
          continue;
        }
      }
      CombineRows<kOp>(from, ids, r, end, width, first, last, to);
    }
  });
}

// out[ids[r], :] op= data[r, :]. Ids below 0 are left out; the others have been checked.
using SegmentFn = void (*)(const Tensor& data, const Tensor& ids, int64_t width, Tensor& out);

template <SegmentOp kOp, typename T>
void Segments(const Tensor& data, const Tensor& ids, int64_t width, Tensor& out) {
  const T* from = data.data<T>();
  T* to = out.mutable_data<T>();
  const T first = First<kOp, T>();
  FillElements(data.dtype(), &first, out.num_elements(), to);
  const int64_t rows = ids.num_elements();
  if (width == 0) return;
  switch (ids.dtype()) {
    case DType::kInt16:
      return CombineSegments<kOp>(from, ids.data<int16_t>(), rows, width, to);
    case DType::kInt32:
      return CombineSegments<kOp>(from, ids.data<int32_t>(), rows, width, to);
    default:
      return CombineSegments<kOp>(from, ids.data<int64_t>(), rows, width, to);
  }
}

template <SegmentOp kOp>
SegmentFn FindSegments(DType dtype) {
  switch (dtype) {
    FORMWORK_REAL_CASES(return (Segments<kOp, T>))
    default:
      break;
  }
  if constexpr (kOp == SegmentOp::kSum || kOp == SegmentOp::kProd) {
    switch (dtype) {
      FORMWORK_COMPLEX_CASES(return (Segments<kOp, T>))
      default:
        break;
    }
  }
  return nullptr;
}

template <SegmentOp kOp>
absl::StatusOr<KernelFn> MakeUnsortedSegment(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const SegmentFn segments = FindSegments<kOp>(dtype);
  if (segments == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([segments](KernelContext& ctx) -> absl::Status {
    const Tensor& data = ctx.input(0);
    const Tensor& ids = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const SegmentGeometry geometry,
        PrepareUnsortedSegment(data.shape().dims(), ids.shape().dims(), &ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    const int64_t count = shape.dim(0);
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t id = IdAt(ids, i);
      if (id >= count) {
        return InvalidArgument("segment_ids[", i, "] = ", id, " is out of range [0, ", count, ")");
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, data.dtype(), shape));
    segments(data, ids, geometry.width, *out);
    return absl::OkStatus();
  });
}

// What TensorFlow's SegmentMax and SegmentMin give where there is no row.
template <typename T>
void ZeroEmpty(const Tensor& ids, int64_t width, Tensor& out) {
  int64_t next = 0;
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return;
    const int64_t id = IdAt(ids, i);
    if (id > next) {
      const T zero{};
      FillElements(out.dtype(), &zero, (id - next) * width, out.mutable_data<T>() + next * width);
    }
    next = id + 1;
  }
}

// The sums of segments to their means.
template <typename T>
void DivideByCounts(const Tensor& ids, int64_t width, Tensor& out) {
  const int64_t rows = ids.num_elements();
  for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
    const int64_t id = IdAt(ids, begin);
    while (end < rows && IdAt(ids, end) == id) ++end;
    if (WorkIsCutAt(begin, kDearItems)) return;
    T* segment = out.mutable_data<T>() + id * width;
    for (int64_t c = 0; c < width; ++c) {
      if constexpr (math::kIsSmallFloat<T>) {
        segment[c] = T(static_cast<float>(segment[c]) / static_cast<float>(end - begin));
      } else {
        segment[c] = segment[c] / static_cast<T>(end - begin);
      }
    }
  }
}

using FinishFn = void (*)(const Tensor& ids, int64_t width, Tensor& out);

template <SegmentOp kOp, bool kMean>
FinishFn FindFinish(DType dtype) {
  if constexpr (kMean) {
    switch (dtype) {
      FORMWORK_NUMBER_CASES(return DivideByCounts<T>)
      default:
        return nullptr;
    }
  } else if constexpr (kOp == SegmentOp::kMax || kOp == SegmentOp::kMin) {
    switch (dtype) {
      FORMWORK_REAL_CASES(return ZeroEmpty<T>)
      default:
        return nullptr;
    }
  }
  return nullptr;
}

template <SegmentOp kOp, bool kMean = false>
absl::StatusOr<KernelFn> MakeSegment(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const SegmentFn segments = FindSegments<kOp>(dtype);
  const FinishFn finish = FindFinish<kOp, kMean>(dtype);
  if (segments == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([segments, finish](KernelContext& ctx) -> absl::Status {
    const Tensor& data = ctx.input(0);
    const Tensor& ids = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(SegmentGeometry geometry,
                              PrepareSegment(data.shape().dims(), ids.shape().dims()));
    const int64_t rows = ids.num_elements();
    int64_t last = -1;
    for (int64_t i = 0; i < rows; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t id = IdAt(ids, i);
      if (id < 0) return InvalidArgument("segment ids must be >= 0");
      if (id < last) return InvalidArgument("segment ids are not increasing");
      last = id;
    }
    // An id of the largest int64 overflows the count; no memory would hold so many segments.
    if (last == std::numeric_limits<int64_t>::max()) {
      return InvalidArgument("segment id is too large: ", last);
    }
    geometry.output[0] = last + 1;
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, data.dtype(), shape));
    segments(data, ids, geometry.width, *out);
    if (finish != nullptr) finish(ids, geometry.width, *out);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSegmentCpuKernels(KernelRegistry& registry) {
  registry.Add("UnsortedSegmentSum", MakeUnsortedSegment<SegmentOp::kSum>);
  registry.Add("UnsortedSegmentProd", MakeUnsortedSegment<SegmentOp::kProd>);
  registry.Add("UnsortedSegmentMax", MakeUnsortedSegment<SegmentOp::kMax>);
  registry.Add("UnsortedSegmentMin", MakeUnsortedSegment<SegmentOp::kMin>);
  registry.Add("SegmentSum", MakeSegment<SegmentOp::kSum>);
  registry.Add("SegmentProd", MakeSegment<SegmentOp::kProd>);
  registry.Add("SegmentMax", MakeSegment<SegmentOp::kMax>);
  registry.Add("SegmentMin", MakeSegment<SegmentOp::kMin>);
  registry.Add("SegmentMean", MakeSegment<SegmentOp::kSum, /*kMean=*/true>);
  AddSparseSegmentCpuKernels(registry);
}

}  // namespace formwork
