// Where, OneHot, DynamicStitch and DynamicPartition.

#include <algorithm>
#include <complex>

#include "core/base/checked_math.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather_cpu.h"
#include "core/kernels/gather/index_read.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/gather.h"

namespace formwork {
namespace {

template <typename T>
inline bool IsTrue(T value) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return (value.bits & 0x7fffu) != 0;  // Both zeros are false, NaN is true.
  } else {
    return value != T(0);
  }
}

// Says in `found`, which has room for n, where values[0..n) are true, and returns how many are.
// Without a branch for each, which would often be foreseen wrongly.
template <typename T>
int64_t TrueAmong(const T* values, int64_t n, int32_t* found) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    found[count] = static_cast<int32_t>(i);
    count += IsTrue(values[i]);
  }
  return count;
}

template <typename T>
absl::Status Where(KernelContext& ctx, const T* values) {
  const Shape& shape = ctx.input(0).shape();
  const int64_t n = shape.num_elements();
  const int rank = shape.rank();
  int64_t count = 0;
  ForBlocks(n, kCheapItems, [&](int64_t begin, int64_t end) {
    int64_t found = 0;
    for (int64_t i = begin; i < end; ++i) found += IsTrue(values[i]);
    count += found;
  });
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  FORMWORK_ASSIGN_OR_RETURN(Shape result, Shape::Make({count, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kInt64, result));
  if (count == 0) return absl::OkStatus();
  int64_t* to = out->mutable_data<int64_t>();
  // Row by row; the odometer runs over the dimensions before the last.
  constexpr int64_t kBlock = 1024;
  int32_t found[kBlock];
  const int64_t width = rank == 0 ? 1 : shape.dim(rank - 1);
  Dims position(static_cast<size_t>(std::max(rank - 1, 0)), 0);
  for (int64_t row = 0; row < n / width; ++row) {
    if (WorkIsCutAt(row, kDearItems)) return WorkStatus();
    for (int64_t begin = 0; begin < width; begin += kBlock) {
      if (WorkIsCutAt(begin / kBlock, kDearItems)) return WorkStatus();
      const int64_t trues =
          TrueAmong(values + row * width + begin, std::min(kBlock, width - begin), found);
      for (int64_t i = 0; i < trues && rank > 0; ++i) {
        for (const int64_t index : position) *to++ = index;
        *to++ = begin + found[i];
      }
    }
    for (int d = rank - 1; d-- > 0;) {
      if (++position[d] < shape.dim(d)) break;
      position[d] = 0;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeWhere(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(PrepareWhere(input.shape().dims()).status());
    switch (dtype) {
      FORMWORK_NUMBER_CASES(return Where(ctx, input.data<T>()))
      case DType::kBool:
      case DType::kQint8:
      case DType::kQuint8:
        return Where(ctx, static_cast<const uint8_t*>(input.raw()));
      case DType::kQint16:
      case DType::kQuint16:
        return Where(ctx, static_cast<const uint16_t*>(input.raw()));
      case DType::kQint32:
        return Where(ctx, static_cast<const uint32_t*>(input.raw()));
      default:
        return Unimplemented("Where: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

absl::StatusOr<KernelFn> MakeOneHot(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const OneHotAttrs attrs, OneHotAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& indices = ctx.input(0);
    const Tensor& on = ctx.input(2);
    const Tensor& off = ctx.input(3);
    FORMWORK_ASSIGN_OR_RETURN(const OneHotGeometry geometry,
                              PrepareOneHot(attrs, indices.shape().dims(), &ctx.input(1),
                                            on.shape().dims(), off.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, on.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    FillElements(on.dtype(), off.raw(), shape.num_elements(), out->mutable_raw());
    const int64_t depth = geometry.depth, suffix = geometry.suffix;
    return WithIndices(indices, [&](const auto* index) -> absl::Status {
      ByElement(on.dtype(), [&](auto tag) {
        using E = typename decltype(tag)::type;
        const E& value = *static_cast<const E*>(on.raw());
        E* to = static_cast<E*>(out->mutable_raw());
        const int64_t n = indices.num_elements();
        for (int64_t i = 0; i < n; ++i) {
          if (WorkIsCutAt(i)) return;
          const int64_t d = index[i];
          if (d < 0 || d >= depth) continue;
          to[(i / suffix * depth + d) * suffix + i % suffix] = value;
        }
      });
      return absl::OkStatus();
    });
  });
}

// What follows the dimensions of the indices in one input of DynamicStitch.
absl::Span<const int64_t> SliceDims(const Tensor& data, const Tensor& indices) {
  return data.shape().dims().subspan(static_cast<size_t>(indices.rank()));
}

absl::StatusOr<KernelFn> MakeDynamicStitch(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const int n = ctx.num_inputs() / 2;
    int64_t rows = 0;
    for (int i = 0; i < n; ++i) {
      const Tensor& indices = ctx.input(i);
      const Tensor& data = ctx.input(n + i);
      FORMWORK_RETURN_IF_ERROR(CheckStitched(i, ctx.input(0).shape().dims(),
                                             ctx.input(n).shape().dims(), indices.shape().dims(),
                                             data.shape().dims()));
      const absl::Span<const int32_t> index = indices.span<int32_t>();
      for (size_t j = 0; j < index.size(); ++j) {
        if (WorkIsCutAt(static_cast<int64_t>(j))) return WorkStatus();
        if (index[j] < 0) return InvalidArgument("indices[", j, "] is out of range");
        rows = std::max<int64_t>(rows, int64_t{index[j]} + 1);
      }
    }
    const Tensor& first = ctx.input(n);
    const absl::Span<const int64_t> slice = SliceDims(first, ctx.input(0));
    Dims dims(slice.begin(), slice.end());
    dims.insert(dims.begin(), rows);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    const int64_t inner = ProductOf(slice);
    // Rows that no index names are zeros; TensorFlow leaves them undefined.
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), first.dtype(), shape));
    if (shape.num_elements() != 0) {
      ByElement(first.dtype(), [&](auto tag) {
        using E = typename decltype(tag)::type;
        E* to = static_cast<E*>(out.mutable_raw());
        const int64_t rows_between_looks = std::max<int64_t>(kCheapItems / inner, 1);
        for (int i = 0; i < n; ++i) {
          const int32_t* index = ctx.input(i).data<int32_t>();
          const E* from = static_cast<const E*>(ctx.input(n + i).raw());
          ForBlocks(ctx.input(i).num_elements(), rows_between_looks,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t j = begin; j < end; ++j) {
                        CopyElements(from + j * inner, inner, to + index[j] * inner);
                      }
                    });
        }
      });
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeDynamicPartition(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& data = ctx.input(0);
    const Tensor& partitions = ctx.input(1);
    const int n = ctx.num_outputs();
    FORMWORK_ASSIGN_OR_RETURN(
        Dims dims, PrepareDynamicPartition(data.shape().dims(), partitions.shape().dims()));
    const absl::Span<const int32_t> part = partitions.span<int32_t>();
    Dims counts(static_cast<size_t>(n), 0);
    for (size_t i = 0; i < part.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
      if (part[i] < 0 || part[i] >= n) {
        return InvalidArgument("partitions",
                               PositionString(partitions.shape().dims(), static_cast<int64_t>(i)),
                               " = ", part[i], " is not in [0, ", n, ")");
      }
      ++counts[part[i]];
    }
    const int64_t inner = ProductOf(absl::MakeConstSpan(dims).subspan(1));
    absl::InlinedVector<void*, 8> ends;
    for (int i = 0; i < n; ++i) {
      dims[0] = counts[i];
      FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
      FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i, data.dtype(), shape));
      ends.push_back(out->mutable_raw());
    }
    if (data.num_elements() == 0) return absl::OkStatus();
    ByElement(data.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* from = static_cast<const E*>(data.raw());
      ForBlocks(static_cast<int64_t>(part.size()), std::max<int64_t>(kCheapItems / inner, 1),
                [&](int64_t begin, int64_t end) {
                  for (int64_t j = begin; j < end; ++j) {
                    E* to = static_cast<E*>(ends[part[j]]);
                    CopyElements(from + j * inner, inner, to);
                    ends[part[j]] = to + inner;
                  }
                });
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterGatherSelectKernels(KernelRegistry& registry) {
  registry.Add("Where", MakeWhere);
  registry.Add("OneHot", MakeOneHot);
  registry.Add("DynamicStitch", MakeDynamicStitch);
  registry.Add("ParallelDynamicStitch", MakeDynamicStitch);
  registry.Add("DynamicPartition", MakeDynamicPartition);
}

}  // namespace formwork
