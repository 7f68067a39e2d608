// Blocks of space that become batch or depth, and back.

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/blocks.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// Copies between the large image (batch, space, depth) and the one whose batch holds the blocks:
// one strided copy for each place within a block. Entry p of space is before + p of the blocks.
// All sizes are positive here, so that the places are bounded by the elements.
void CopyBlocks(const BlocksGeometry& blocks, DType dtype, const Shape& space, const Shape& batched,
                bool to_batch, const void* src, void* dst) {
  const size_t n = blocks.size.size();
  const Dims space_strides = RowMajorStrides(space);
  const Dims batch_strides = RowMajorStrides(batched);
  const int64_t batch = space.dim(0);
  Dims place(n, 0);
  for (int64_t index = 0; index < blocks.product; ++index) {
    if (WorkIsCutAt(index, kDearItems)) return;
    int64_t in_space = 0;
    int64_t in_batch = index * batch * batch_strides[0];
    CopyDims copy;
    copy.push_back({batch, space_strides[0], batch_strides[0]});
    bool any = true;
    for (size_t d = 0; d < n; ++d) {
      const int at = static_cast<int>(d) + 1;
      const int64_t block = blocks.size[d];
      // Entries b of the blocks with 0 <= b * block + place - before < space.dim.
      const int64_t offset = blocks.before[d] - place[d];
      const int64_t low = offset > 0 ? (offset + block - 1) / block : 0;
      const int64_t last = space.dim(at) - 1 + offset;
      const int64_t high = last < 0 ? 0 : std::min(last / block + 1, batched.dim(at));
      any = any && high > low;
      in_space += (low * block - offset) * space_strides[at];
      in_batch += low * batch_strides[at];
      // One entry takes no step: a block beyond the space would overflow it.
      const int64_t step = high - low > 1 ? block * space_strides[at] : 0;
      copy.push_back({high - low, step, batch_strides[at]});
    }
    for (int d = static_cast<int>(n) + 1; d < space.rank(); ++d) {
      copy.push_back({space.dim(d), space_strides[d], batch_strides[d]});
    }
    if (any) {
      int64_t from = in_space;
      int64_t to = in_batch;
      if (!to_batch) {
        std::swap(from, to);
        for (CopyDim& dim : copy) std::swap(dim.src, dim.dst);
      }
      CopyStrided(dtype, ElementAt(dtype, src, from), ElementAt(dtype, dst, to), copy);
    }
    for (size_t d = n; d-- > 0;) {
      if (++place[d] < blocks.size[d]) break;
      place[d] = 0;
    }
  }
}

// The block of SpaceToBatch and BatchToSpace; that of the ND forms is an input.
absl::StatusOr<Tensor> SquareOf(const KernelInit& init) {
  if (init.input_dtypes().size() == 3) return Tensor();
  return SquareBlock(init.attrs());
}

template <typename Prepare>
absl::StatusOr<BlocksGeometry> BlocksOf(KernelContext& ctx, const Tensor& square, Prepare prepare) {
  const absl::Span<const int64_t> input = ctx.input(0).shape().dims();
  if (ctx.num_inputs() == 3) return prepare(input, ctx.input(1), ctx.input(2));
  FORMWORK_RETURN_IF_ERROR(CheckImages(input));
  return prepare(input, square, ctx.input(1));
}

absl::StatusOr<KernelFn> MakeSpaceToBatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Tensor square, SquareOf(init));
  return KernelFn([square](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const BlocksGeometry blocks,
                              BlocksOf(ctx, square, PrepareSpaceToBatch));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(blocks.output));
    const auto is_zero = [](int64_t size) { return size == 0; };
    const bool padded = !std::all_of(blocks.before.begin(), blocks.before.end(), is_zero) ||
                        !std::all_of(blocks.after.begin(), blocks.after.end(), is_zero);
    if (shape == input.shape() && blocks.product == 1 && !padded) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    Tensor out;
    if (padded) {
      FORMWORK_ASSIGN_OR_RETURN(out, ZeroTensor(ctx.allocator(), input.dtype(), shape));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(out, Tensor::Allocate(ctx.allocator(), input.dtype(), shape));
    }
    if (input.num_elements() != 0 && shape.num_elements() != 0) {
      CopyBlocks(blocks, input.dtype(), input.shape(), shape, true, input.raw(), out.mutable_raw());
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBatchToSpace(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Tensor square, SquareOf(init));
  return KernelFn([square](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const BlocksGeometry blocks,
                              BlocksOf(ctx, square, PrepareBatchToSpace));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(blocks.output));
    if (shape == input.shape() && blocks.product == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (input.num_elements() == 0 || shape.num_elements() == 0) return absl::OkStatus();
    CopyBlocks(blocks, input.dtype(), shape, input.shape(), false, input.raw(), out->mutable_raw());
    return absl::OkStatus();
  });
}

// Depth is (block row, block column, depth of space) from the outside in. Copies between the two
// forms, whose dimensions are n, h, w, and depth of space.
void CopyDepth(const DepthAttrs& attrs, const Tensor& input, bool to_depth, int64_t h, int64_t w,
               int64_t depth, Tensor& out) {
  const int64_t b = attrs.block;
  const int64_t n = input.dim(0);
  // Strides of (n, h, block row, w, block column, depth) on both sides.
  const int64_t wide = w * b;
  const int64_t tall = h * b;
  int64_t space[6], deep[6];
  if (attrs.channels_first) {
    const int64_t s[6] = {depth * tall * wide, b * wide, wide, b, 1, tall * wide};
    const int64_t d[6] = {b * b * depth * h * w, w, b * depth * h * w, 1, depth * h * w, h * w};
    std::copy_n(s, 6, space);
    std::copy_n(d, 6, deep);
  } else {
    const int64_t s[6] = {tall * wide * depth, b * wide * depth, wide * depth, b * depth, depth, 1};
    const int64_t d[6] = {
        h * w * b * b * depth, w * b * b * depth, b * depth, b * b * depth, depth, 1};
    std::copy_n(s, 6, space);
    std::copy_n(d, 6, deep);
  }
  const int64_t sizes[6] = {n, h, b, w, b, depth};
  CopyDims copy;
  // The order that the destination is written in.
  constexpr int kSpaceLast[6] = {0, 1, 2, 3, 4, 5}, kSpaceFirst[6] = {0, 5, 1, 2, 3, 4};
  constexpr int kDepthLast[6] = {0, 1, 3, 2, 4, 5}, kDepthFirst[6] = {0, 2, 4, 5, 1, 3};
  const int* order = to_depth ? (attrs.channels_first ? kDepthFirst : kDepthLast)
                              : (attrs.channels_first ? kSpaceFirst : kSpaceLast);
  for (int i = 0; i < 6; ++i) {
    const int d = order[i];
    copy.push_back({sizes[d], to_depth ? space[d] : deep[d], to_depth ? deep[d] : space[d]});
  }
  CopyStrided(input.dtype(), input.raw(), out.mutable_raw(), copy);
}

absl::StatusOr<KernelFn> MakeSpaceToDepth(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DepthAttrs attrs, DepthAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareSpaceToDepth(attrs, input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    CopyDepth(attrs, input, true, dims[attrs.rows()], dims[attrs.cols()],
              input.dim(attrs.channels()), *out);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeDepthToSpace(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DepthAttrs attrs, DepthAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDepthToSpace(attrs, input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    CopyDepth(attrs, input, false, input.dim(attrs.rows()), input.dim(attrs.cols()),
              dims[attrs.channels()], *out);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayBlockKernels(KernelRegistry& registry) {
  registry.Add("SpaceToBatch", MakeSpaceToBatch);
  registry.Add("SpaceToBatchND", MakeSpaceToBatch);
  registry.Add("BatchToSpace", MakeBatchToSpace);
  registry.Add("BatchToSpaceND", MakeBatchToSpace);
  registry.Add("SpaceToDepth", MakeSpaceToDepth);
  registry.Add("DepthToSpace", MakeDepthToSpace);
}

}  // namespace formwork
