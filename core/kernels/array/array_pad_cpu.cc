// Pad, PadV2, MirrorPad and MirrorPadGrad.

#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/device/host_allocator.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/dims.h"
#include "core/ops/pad.h"

namespace formwork {
namespace {

// Copies the input into the middle of `out` and returns the index of its first element there.
int64_t CopyInside(const Tensor& input, const PadGeometry& paddings, const Dims& to, Tensor& out) {
  const Dims from = RowMajorStrides(input.shape());
  CopyDims copy;
  int64_t first = 0;
  for (int d = 0; d < input.rank(); ++d) {
    copy.push_back({input.dim(d), from[d], to[d]});
    first += paddings.before[d] * to[d];
  }
  CopyStrided(input.dtype(), input.raw(), ElementAt(out.dtype(), out.mutable_raw(), first), copy);
  return first;
}

absl::Status Pad(KernelContext& ctx, const Tensor& value) {
  const Tensor& input = ctx.input(0);
  const int rank = input.rank();
  FORMWORK_ASSIGN_OR_RETURN(const PadGeometry paddings,
                            PreparePad(input.shape().dims(), ctx.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(paddings.output));
  if (shape == input.shape()) {
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  if (input.num_elements() == 0) {
    FillElements(input.dtype(), value.raw(), shape.num_elements(), out->mutable_raw());
    return absl::OkStatus();
  }
  const Dims to = RowMajorStrides(shape);
  CopyInside(input, paddings, to, *out);
  // Each dimension's margins, within the inside of the dimensions before it: every element of the
  // result is written once.
  CopyDims slab;
  for (int d = 0; d < rank; ++d) slab.push_back({shape.dim(d), 0, to[d]});
  int64_t first = 0;
  for (int d = 0; d < rank; ++d) {
    auto fill = [&](int64_t at, int64_t size) {
      if (size == 0) return;
      slab[d].size = size;
      CopyStrided(input.dtype(), value.raw(),
                  ElementAt(input.dtype(), out->mutable_raw(), first + at * to[d]), slab);
    };
    fill(0, paddings.before[d]);
    fill(paddings.before[d] + input.dim(d), paddings.after[d]);
    slab[d].size = input.dim(d);
    first += paddings.before[d] * to[d];
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakePad(KernelInit& init) {
  // Made here, once: the value that the margins get.
  FORMWORK_ASSIGN_OR_RETURN(Tensor zero,
                            ZeroTensor(ProcessAllocator(), init.input_dtypes()[0], Shape()));
  return KernelFn(
      [zero = std::move(zero)](KernelContext& ctx) -> absl::Status { return Pad(ctx, zero); });
}

absl::StatusOr<KernelFn> MakePadV2(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    if (!ctx.input(2).shape().is_scalar()) {
      return InvalidArgument("constant_values must be a scalar. Found: ",
                             ctx.input(2).shape().ToString());
    }
    return Pad(ctx, ctx.input(2));
  });
}

absl::StatusOr<KernelFn> MakeMirrorPad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const PadGeometry paddings,
                              PrepareMirrorPad(attrs, input.shape().dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(paddings.output));
    if (shape == input.shape()) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const Dims to = RowMajorStrides(shape);
    int64_t first = CopyInside(input, paddings, to, *out);
    // From the last dimension on, the margins mirror what is complete already.
    CopyDims slab;
    for (int d = 0; d < input.rank(); ++d) slab.push_back({input.dim(d), to[d], to[d]});
    for (int d = input.rank(); d-- > 0;) {
      auto mirror = [&](int64_t from, int64_t at, int64_t size) {
        slab[d] = {size, -to[d], to[d]};
        void* base = out->mutable_raw();
        CopyStrided(input.dtype(), ElementAt(input.dtype(), base, first + from * to[d]),
                    ElementAt(input.dtype(), base, first + at * to[d]), slab);
      };
      const int64_t n = input.dim(d);
      const int64_t before = paddings.before[d];
      // Entry -1 - i mirrors entry i + offset; entry n + i mirrors n - 1 - offset - i.
      if (before > 0) mirror(before - 1 + attrs.offset, -before, before);
      if (paddings.after[d] > 0) mirror(n - 1 - attrs.offset, n, paddings.after[d]);
      slab[d] = {shape.dim(d), to[d], to[d]};
      first -= before * to[d];
    }
    return absl::OkStatus();
  });
}

// Adds what lies at `from` to what lies at `to`, over the same dims.
template <typename T>
void AddMirrored(T* base, int64_t from, int64_t to, absl::Span<const CopyDim> dims) {
  if (dims.empty()) {
    base[to] = math::Add(base[to], base[from]);
    return;
  }
  for (int64_t i = 0; i < dims[0].size; ++i) {
    if (WorkIsCutAt(i)) return;
    AddMirrored(base, from + i * dims[0].src, to + i * dims[0].dst, dims.subspan(1));
  }
}

template <typename T>
absl::Status MirrorPadGrad(KernelContext& ctx, const PadGeometry& paddings, const Shape& shape,
                           int64_t offset) {
  const Tensor& dy = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor folded, dy.Clone(ctx.allocator()));
  const Dims strides = RowMajorStrides(dy.shape());
  CopyDims dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back({dy.dim(d), strides[d], strides[d]});
  // From the first dimension on, the margins are folded inwards; what is folded is done with.
  int64_t first = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t n = shape.dim(d);
    const int64_t before = paddings.before[d];
    first += before * strides[d];
    auto fold = [&](int64_t from, int64_t to, int64_t size) {
      dims[d] = {size, strides[d], -strides[d]};
      AddMirrored(folded.mutable_data<T>(), first + from * strides[d], first + to * strides[d],
                  dims);
    };
    if (before > 0) fold(-before, before - 1 + offset, before);
    if (paddings.after[d] > 0) fold(n, n - 1 - offset, paddings.after[d]);
    dims[d] = {n, strides[d], strides[d]};
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dy.dtype(), shape));
  const Dims to = RowMajorStrides(shape);
  for (int d = 0; d < shape.rank(); ++d) dims[d].dst = to[d];
  CopyStrided(dy.dtype(), ElementAt(dy.dtype(), folded.raw(), first), out->mutable_raw(), dims);
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeMirrorPadGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& dy = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const PadGeometry paddings,
                              PrepareMirrorPadGrad(attrs, dy.shape().dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(paddings.output));
    if (dy.num_elements() == 0 || shape.num_elements() == 0) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dy.dtype(), shape));
      ctx.SetOutput(0, std::move(zeros));
      return absl::OkStatus();
    }
    switch (dy.dtype()) {
      FORMWORK_NUMBER_CASES(return MirrorPadGrad<T>(ctx, paddings, shape, attrs.offset))
      default:
        return Unimplemented("MirrorPadGrad: dtype ", DTypeName(dy.dtype()), " is not supported");
    }
  });
}

}  // namespace

void RegisterArrayPadKernels(KernelRegistry& registry) {
  registry.Add("Pad", MakePad);
  registry.Add("PadV2", MakePadV2);
  registry.Add("MirrorPad", MakeMirrorPad);
  registry.Add("MirrorPadGrad", MakeMirrorPadGrad);
}

}  // namespace formwork
