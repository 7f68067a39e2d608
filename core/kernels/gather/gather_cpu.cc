#include "core/kernels/gather/gather_cpu.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_join.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/gather/index_read.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/dims.h"
#include "core/ops/gather.h"

namespace formwork {
namespace {

template <typename E, typename Index>
void GatherSlices(const GatherGeometry& sizes, const E* params, const Index* indices, E* out) {
  const int64_t rows = sizes.batch * sizes.outer * sizes.count;
  const int64_t inner = sizes.inner;
  const int64_t grain = std::max<int64_t>(MoveGrain<E>() / 4 / std::max<int64_t>(inner, 1), 1);
  ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    // One run of indices over one slab of params at a time.
    for (int64_t row = begin; row < end;) {
      const int64_t slab = row / sizes.count;
      const int64_t first = row % sizes.count;
      const int64_t n = std::min(sizes.count - first, end - row);
      const Index* at = indices + (slab / sizes.outer) * sizes.count + first;
      const E* from = params + slab * sizes.dim * inner;
      E* to = out + row * inner;
      if (inner == 1) {
        for (int64_t i = 0; i < n; ++i) to[i] = from[at[i]];
      } else {
        for (int64_t i = 0; i < n; ++i) {
          CopyElements(from + static_cast<int64_t>(at[i]) * inner, inner, to + i * inner);
        }
      }
      row += n;
    }
  });
}

template <typename Index>
absl::Status CheckIndices(const Index* indices, const Shape& shape, int64_t dim) {
  const int64_t n = shape.num_elements();
  bool bad = false;
  ForBlocks(n, kCheapItems, [&bad, indices, dim](int64_t begin, int64_t end) {
    bool found = false;
    for (int64_t i = begin; i < end; ++i) {
      found |=
          static_cast<uint64_t>(static_cast<int64_t>(indices[i])) >= static_cast<uint64_t>(dim);
    }
    bad |= found;
  });
  if (!bad) return WorkStatus();
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const int64_t index = indices[i];
    if (index >= 0 && index < dim) continue;
    return InvalidArgument("indices", PositionString(shape.dims(), i), " = ", index,
                           " is not in [0, ", dim, ")");
  }
  return absl::OkStatus();
}

absl::Status OutputGather(KernelContext& ctx, const GatherGeometry& geometry) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor result,
                            Gather(ctx.allocator(), geometry, ctx.input(0), ctx.input(1)));
  ctx.SetOutput(0, std::move(result));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeGatherV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const GatherAttrs attrs, GatherAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const GatherGeometry geometry,
                              PrepareGather(attrs, ctx.input(0).shape().dims(),
                                            ctx.input(1).shape().dims(), ctx.input(2)));
    return OutputGather(ctx, geometry);
  });
}

// Gather of TensorFlow 1: along the first axis.
absl::StatusOr<KernelFn> MakeGatherV1(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const GatherGeometry geometry,
        PrepareGatherRows({}, ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    return OutputGather(ctx, geometry);
  });
}

// The flat offset of each row of indices, or -1 for one that is out of range.
template <typename Index>
int64_t RowOffset(const Index* row, int64_t depth, const int64_t* dims, const int64_t* strides) {
  int64_t offset = 0;
  for (int64_t d = 0; d < depth; ++d) {
    const int64_t index = row[d];
    if (index < 0 || index >= dims[d]) return -1;
    offset += index * strides[d];
  }
  return offset;
}

absl::StatusOr<KernelFn> MakeGatherNd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BadIndices bad, BadIndices::FromAttrs(init.attrs()));
  return KernelFn([bad](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor result,
                              GatherNd(ctx.allocator(), ctx.input(0), ctx.input(1), bad));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

}  // namespace

std::string PositionString(absl::Span<const int64_t> shape, int64_t flat) {
  if (shape.empty()) return "";
  Dims position(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    position[d] = flat % shape[d];
    flat /= shape[d];
  }
  return absl::StrCat("[", absl::StrJoin(position, ","), "]");
}

absl::StatusOr<Tensor> Gather(Allocator& allocator, const GatherGeometry& geometry,
                              const Tensor& params, const Tensor& indices) {
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
  Tensor result;
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckIndices(index, indices.shape(), geometry.dim));
    FORMWORK_ASSIGN_OR_RETURN(result, Tensor::Allocate(allocator, params.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    ByElement(params.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      GatherSlices(geometry, static_cast<const E*>(params.raw()), index,
                   static_cast<E*>(result.mutable_raw()));
    });
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<Tensor> GatherNd(Allocator& allocator, const Tensor& params, const Tensor& indices,
                                const BadIndices& bad) {
  FORMWORK_ASSIGN_OR_RETURN(const GatherNdGeometry geometry,
                            PrepareGatherNd(params.shape().dims(), indices.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
  const int64_t depth = geometry.depth, rows = geometry.rows, inner = geometry.inner;
  const absl::Span<const int64_t> outer =
      indices.shape().dims().first(static_cast<size_t>(indices.rank()) - 1);
  FORMWORK_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(allocator, params.dtype(), shape));
  if (shape.num_elements() == 0) return result;
  const int64_t* const dims = params.shape().dims().data();
  const Dims strides = RowMajorStrides(params.shape());
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    std::atomic<bool> any_bad = false;
    ByElement(params.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* src = static_cast<const E*>(params.raw());
      E* dst = static_cast<E*>(result.mutable_raw());
      ParallelFor(
          rows, std::max<int64_t>(MoveGrain<E>() / 8 / inner, 1), [&](int64_t begin, int64_t end) {
            bool all_good = true;
            for (int64_t row = begin; row < end; ++row) {
              const int64_t offset = RowOffset(index + row * depth, depth, dims, strides.data());
              if (offset >= 0) {
                CopyElements(src + offset, inner, dst + row * inner);
              } else {
                std::fill_n(dst + row * inner, inner, E());
                all_good = false;
              }
            }
            if (!all_good) any_bad.store(true, std::memory_order_relaxed);
          });
    });
    if (bad.ignored || !any_bad) return absl::OkStatus();
    // Which is the first.
    for (int64_t row = 0; row < rows; ++row) {
      if (WorkIsCutAt(row)) return WorkStatus();
      if (RowOffset(index + row * depth, depth, dims, strides.data()) >= 0) continue;
      return InvalidArgument(
          "indices", PositionString(outer, row), " = [",
          absl::StrJoin(absl::MakeConstSpan(index + row * depth, static_cast<size_t>(depth)), ", "),
          "] does not index into param shape ", params.shape().ToString());
    }
    return absl::OkStatus();
  }));
  return result;
}

void RegisterGatherCpuKernels(KernelRegistry& registry) {
  registry.Add("GatherV2", MakeGatherV2);
  registry.Add("Gather", MakeGatherV1);
  registry.Add("GatherNd", MakeGatherNd);
  RegisterGatherScatterKernels(registry);
  RegisterGatherSelectKernels(registry);
  RegisterGatherSearchKernels(registry);
}

}  // namespace formwork
