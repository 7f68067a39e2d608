#include "core/kernels/gather/gather_cpu.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/gather/index_read.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

// params as [batch, outer, dim, inner], indices as [batch, count], the result as
// [batch, outer, count, inner].
struct GatherSizes {
  int64_t batch = 1;
  int64_t outer = 1;
  int64_t dim = 1;
  int64_t inner = 1;
  int64_t count = 1;
};

template <typename E, typename Index>
void GatherSlices(const GatherSizes& sizes, const E* params, const Index* indices, E* out) {
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

absl::StatusOr<KernelFn> MakeGatherV2(KernelInit& init) {
  const int64_t batch_dims = init.attrs().GetOr<int64_t>("batch_dims", 0);
  return KernelFn([batch_dims](KernelContext& ctx) -> absl::Status {
    if (!ctx.input(2).shape().is_scalar()) return InvalidArgument("axis must be scalar");
    FORMWORK_ASSIGN_OR_RETURN(int64_t axis, IntegerFromTensor(ctx.input(2), "axis"));
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor result, Gather(ctx.allocator(), ctx.input(0), ctx.input(1), axis, batch_dims));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// Gather of TensorFlow 1: along the first axis.
absl::StatusOr<KernelFn> MakeGatherV1(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor result,
                              Gather(ctx.allocator(), ctx.input(0), ctx.input(1), 0, 0));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// The flat offset of each row of indices, or -1 for one that is out of range.
template <typename Index>
int64_t RowOffset(const Index* row, int64_t depth, const Shape& shape, const Dims& strides) {
  int64_t offset = 0;
  for (int64_t d = 0; d < depth; ++d) {
    const int64_t index = row[d];
    if (index < 0 || index >= shape.dim(static_cast<int>(d))) return -1;
    offset += index * strides[d];
  }
  return offset;
}

absl::StatusOr<Tensor> GatherNdPolicy(Allocator& allocator, const Tensor& params,
                                      const Tensor& indices, bool ignore_bad) {
  if (params.rank() < 1) return InvalidArgument("params must be at least a vector");
  if (indices.rank() < 1) return InvalidArgument("indices must be at least a vector");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > params.rank()) {
    return InvalidArgument("index innermost dimension length must be <= params rank; saw: ", depth,
                           " vs. ", params.rank());
  }
  const absl::Span<const int64_t> outer =
      indices.shape().dims().first(static_cast<size_t>(indices.rank()) - 1);
  const absl::Span<const int64_t> slice = params.shape().dims().subspan(static_cast<size_t>(depth));
  Dims dims(outer.begin(), outer.end());
  dims.insert(dims.end(), slice.begin(), slice.end());
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  const int64_t rows = ProductOf(outer);
  if (rows > 0 && params.num_elements() == 0) {
    return InvalidArgument("Requested more than 0 entries, but params is empty.  Params shape: ",
                           params.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(allocator, params.dtype(), shape));
  if (shape.num_elements() == 0) return result;
  const int64_t inner = ProductOf(slice);
  const Dims strides = RowMajorStrides(params.shape());
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    if (!ignore_bad) {
      for (int64_t row = 0; row < rows; ++row) {
        if (WorkIsCutAt(row)) return WorkStatus();
        if (RowOffset(index + row * depth, depth, params.shape(), strides) >= 0) continue;
        return InvalidArgument(
            "indices", PositionString(outer, row), " = [",
            absl::StrJoin(absl::MakeConstSpan(index + row * depth, static_cast<size_t>(depth)),
                          ", "),
            "] does not index into param shape ", params.shape().ToString());
      }
    }
    ByElement(params.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* src = static_cast<const E*>(params.raw());
      E* dst = static_cast<E*>(result.mutable_raw());
      ParallelFor(
          rows, std::max<int64_t>(MoveGrain<E>() / 8 / inner, 1), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
              const int64_t offset = RowOffset(index + row * depth, depth, params.shape(), strides);
              if (offset >= 0) {
                CopyElements(src + offset, inner, dst + row * inner);
              } else {
                std::fill_n(dst + row * inner, inner, E());
              }
            }
          });
    });
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<KernelFn> MakeGatherNd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(bool ignore_bad, IgnoresBadIndices(init.attrs()));
  return KernelFn([ignore_bad](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor result, GatherNdPolicy(ctx.allocator(), ctx.input(0), ctx.input(1), ignore_bad));
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

absl::StatusOr<bool> IgnoresBadIndices(const AttrMap& attrs) {
  const std::string policy = attrs.GetOr<std::string>("bad_indices_policy", "");
  if (policy == "IGNORE") return true;
  if (policy.empty() || policy == "DEFAULT" || policy == "ERROR") return false;
  return InvalidArgument("Unknown bad_indices_policy: ", policy);
}

absl::StatusOr<Tensor> Gather(Allocator& allocator, const Tensor& params, const Tensor& indices,
                              int64_t axis, int64_t batch_dims) {
  if (params.rank() < 1) return InvalidArgument("params must be at least 1 dimensional");
  const int rank = params.rank();
  if (axis < -rank || axis >= rank) {
    return InvalidArgument("Shape must be at least rank ",
                           axis < 0 ? -static_cast<uint64_t>(axis) : axis + uint64_t{1},
                           " but is rank ", rank);
  }
  if (axis < 0) axis += rank;
  if (batch_dims != 0) {
    if (batch_dims < -indices.rank() || batch_dims > indices.rank()) {
      return InvalidArgument("Expected batch_dims in the range [", -indices.rank(), ", ",
                             indices.rank(), "], but got ", batch_dims);
    }
    if (batch_dims < 0) batch_dims += indices.rank();
    if (batch_dims >= rank) {
      return InvalidArgument("batch_dims (", batch_dims, ") must be less than rank(params) (", rank,
                             ").");
    }
    if (axis < batch_dims) {
      return InvalidArgument("batch_dims (", batch_dims, ") must be less than or equal to axis (",
                             axis, ").");
    }
    for (int d = 0; d < batch_dims; ++d) {
      if (params.dim(d) == indices.dim(d)) continue;
      return InvalidArgument("params.shape[", d, "]: ", params.dim(d),
                             " should be equal to indices.shape[", d, "]: ", indices.dim(d));
    }
  }
  const absl::Span<const int64_t> from = params.shape().dims();
  const absl::Span<const int64_t> picked =
      indices.shape().dims().subspan(static_cast<size_t>(batch_dims));
  Dims dims(from.begin(), from.begin() + axis);
  dims.insert(dims.end(), picked.begin(), picked.end());
  dims.insert(dims.end(), from.begin() + axis + 1, from.end());
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  GatherSizes sizes;
  sizes.batch = ProductOf(from.first(static_cast<size_t>(batch_dims)));
  sizes.outer = ProductOf(
      from.subspan(static_cast<size_t>(batch_dims), static_cast<size_t>(axis - batch_dims)));
  sizes.dim = from[axis];
  sizes.inner = ProductOf(from.subspan(static_cast<size_t>(axis) + 1));
  sizes.count = ProductOf(picked);
  Tensor result;
  FORMWORK_RETURN_IF_ERROR(WithIndices(indices, [&](const auto* index) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckIndices(index, indices.shape(), sizes.dim));
    FORMWORK_ASSIGN_OR_RETURN(result, Tensor::Allocate(allocator, params.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    ByElement(params.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      GatherSlices(sizes, static_cast<const E*>(params.raw()), index,
                   static_cast<E*>(result.mutable_raw()));
    });
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<Tensor> GatherNd(Allocator& allocator, const Tensor& params, const Tensor& indices) {
  return GatherNdPolicy(allocator, params, indices, false);
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
