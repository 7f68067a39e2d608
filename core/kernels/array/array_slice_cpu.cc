// Slice, StridedSlice, its gradient and its updates.

#include <algorithm>

#include "core/base/status.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/slice.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// The strides of a slice within a value of shape `shape`, and the index of its first element.
struct SliceView {
  int64_t offset = 0;
  Dims strides;
};

SliceView ViewOf(const Shape& shape, const SliceBounds& bounds) {
  SliceView view;
  view.strides = RowMajorStrides(shape);
  for (size_t d = 0; d < bounds.dims.size(); ++d) {
    view.offset += bounds.dims[d].begin * view.strides[d];
    // A stride beyond the value is never taken; keep its product from overflowing.
    view.strides[d] = bounds.dims[d].size > 1 ? view.strides[d] * bounds.dims[d].stride : 0;
  }
  return view;
}

bool IsEmpty(const SliceBounds& bounds) {
  return std::any_of(bounds.dims.begin(), bounds.dims.end(),
                     [](const SliceDim& dim) { return dim.size == 0; });
}

absl::Status OutputSlice(KernelContext& ctx, const Tensor& input, const SliceBounds& bounds) {
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(bounds.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
  if (IsEmpty(bounds)) return absl::OkStatus();
  const SliceView view = ViewOf(input.shape(), bounds);
  CopyDims copy(bounds.dims.size());
  int64_t to = 1;
  for (size_t d = bounds.dims.size(); d-- > 0;) {
    copy[d] = {bounds.dims[d].size, view.strides[d], to};
    to *= bounds.dims[d].size;
  }
  CopyStrided(input.dtype(), ElementAt(input.dtype(), input.raw(), view.offset), out->mutable_raw(),
              copy);
  return absl::OkStatus();
}

// x[i] of a vector, as shapes are read: no general machinery. False where it is not that case.
template <typename Index>
bool ElementOfVector(const SliceMasks& masks, const Tensor& input, const Tensor& begin,
                     const Tensor& strides, Tensor& out) {
  if (masks.shrink_axis != 1 || masks.ellipsis != 0 || masks.new_axis != 0) return false;
  if (input.rank() != 1 || begin.num_elements() != 1 || strides.num_elements() != 1) return false;
  if (strides.scalar<Index>() != 1) return false;
  const int64_t n = input.num_elements();
  int64_t at = begin.scalar<Index>();
  if (at < 0) at += n;
  if (at < 0 || at >= n) return false;
  if (input.dtype() == DType::kInt32) {
    out = Tensor::Scalar<int32_t>(input.data<int32_t>()[at]);
    return true;
  }
  if (input.dtype() == DType::kInt64) {
    out = Tensor::Scalar<int64_t>(input.data<int64_t>()[at]);
    return true;
  }
  return false;
}

// x[a:b] of a vector, likewise. False where it is not that case.
bool RangeOfVector(const SliceMasks& masks, const Tensor& input, const KernelContext& ctx,
                   int64_t& begin, int64_t& size) {
  if ((masks.shrink_axis | masks.ellipsis | masks.new_axis) != 0 || input.rank() != 1) return false;
  for (int i = 1; i < 4; ++i) {
    if (ctx.input(i).rank() != 1 || ctx.input(i).num_elements() != 1) return false;
  }
  if (ctx.input(3).scalar<int32_t>() != 1) return false;
  const int64_t n = input.num_elements();
  auto place = [n](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  begin = (masks.begin & 1) != 0 ? 0 : place(ctx.input(1).scalar<int32_t>());
  const int64_t end = (masks.end & 1) != 0 ? n : place(ctx.input(2).scalar<int32_t>());
  size = std::max<int64_t>(end - begin, 0);
  return size != n;
}

absl::StatusOr<KernelFn> MakeStridedSlice(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(init.attrs()));
  const bool int32_index = init.input_dtypes()[1] == DType::kInt32;
  return KernelFn([masks, int32_index](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    if (int32_index && ctx.input(1).rank() == 1 && ctx.input(2).num_elements() == 1) {
      Tensor element;
      if (ElementOfVector<int32_t>(masks, input, ctx.input(1), ctx.input(3), element)) {
        ctx.SetOutput(0, std::move(element));
        return absl::OkStatus();
      }
      int64_t begin, size;
      if (RangeOfVector(masks, input, ctx, begin, size)) {
        FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), Shape{size}));
        CopyStrided(input.dtype(), ElementAt(input.dtype(), input.raw(), begin), out->mutable_raw(),
                    {{size, 1, 1}});
        return absl::OkStatus();
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(
        const SliceBounds bounds,
        PrepareStridedSlice(masks, input.shape().dims(), ctx.input(1), ctx.input(2), ctx.input(3)));
    if (bounds.whole) {
      FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(bounds.output));
      ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
      return absl::OkStatus();
    }
    return OutputSlice(ctx, input, bounds);
  });
}

absl::StatusOr<KernelFn> MakeStridedSliceGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(init.attrs()));
  return KernelFn([masks](KernelContext& ctx) -> absl::Status {
    const Tensor& dy = ctx.input(4);
    FORMWORK_ASSIGN_OR_RETURN(
        const StridedSliceGradGeometry geometry,
        PrepareStridedSliceGrad(masks, ctx.input(0), ctx.input(1), ctx.input(2), ctx.input(3),
                                dy.shape().dims()));
    const Shape& shape = geometry.output;
    const SliceBounds& bounds = geometry.bounds;
    if (bounds.whole) {
      ctx.SetOutput(0, ctx.TakeInput(4).Reshaped(shape));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor dx, ZeroTensor(ctx.allocator(), dy.dtype(), shape));
    FORMWORK_RETURN_IF_ERROR(AssignSlice(dx, bounds, dy));
    ctx.SetOutput(0, std::move(dx));
    return absl::OkStatus();
  });
}

// The input as something that may be written to: taken over where this is its last use.
absl::StatusOr<Tensor> TakeWritable(KernelContext& ctx, int i) {
  if (ctx.CanOverwrite(i)) return ctx.TakeInput(i);
  return ctx.input(i).Clone(ctx.allocator());
}

absl::StatusOr<KernelFn> MakeTensorStridedSliceUpdate(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(init.attrs()));
  return KernelFn([masks](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const SliceBounds bounds,
                              PrepareStridedSlice(masks, ctx.input(0).shape().dims(), ctx.input(1),
                                                  ctx.input(2), ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, TakeWritable(ctx, 0));
    FORMWORK_RETURN_IF_ERROR(AssignSlice(result, bounds, ctx.input(4)));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeXlaDynamicUpdateSlice(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& update = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const SliceBounds bounds,
        PrepareDynamicSlice(ctx.input(0).shape().dims(), ctx.input(2), update.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, TakeWritable(ctx, 0));
    FORMWORK_RETURN_IF_ERROR(AssignSlice(result, bounds, update));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeXlaDynamicSlice(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const SliceBounds bounds,
        PrepareDynamicSlice(input.shape().dims(), ctx.input(1), ctx.input(2)));
    return OutputSlice(ctx, input, bounds);
  });
}

absl::StatusOr<KernelFn> MakeSlice(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const SliceBounds bounds,
                              PrepareSlice(input.shape().dims(), ctx.input(1), ctx.input(2)));
    if (bounds.whole) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    return OutputSlice(ctx, input, bounds);
  });
}

}  // namespace

absl::Status AssignSlice(Tensor& target, const SliceBounds& bounds, const Tensor& value) {
  if (value.dtype() != target.dtype()) {
    return InvalidArgument("slice assignment: dtypes differ: target=", DTypeName(target.dtype()),
                           " value=", DTypeName(value.dtype()));
  }
  FORMWORK_RETURN_IF_ERROR(CheckSliceValue(bounds, value.shape().dims()));
  const int rank = static_cast<int>(bounds.output.size());
  const int pad = rank - value.rank();
  if (IsEmpty(bounds)) return absl::OkStatus();
  const SliceView view = ViewOf(target.shape(), bounds);
  // Dimensions that the slice adds or drops have size 1: both sides run over the same sizes once
  // these are left out.
  Dims value_strides;
  const Dims from = RowMajorStrides(value.shape());
  for (int d = 0; d < rank; ++d) {
    if (bounds.output[d] == 1) continue;
    value_strides.push_back(d < pad || value.dim(d - pad) == 1 ? 0 : from[d - pad]);
  }
  CopyDims copy;
  size_t next = 0;
  for (size_t d = 0; d < bounds.dims.size(); ++d) {
    if (bounds.dims[d].size == 1) continue;
    copy.push_back({bounds.dims[d].size, value_strides[next++], view.strides[d]});
  }
  CopyStrided(target.dtype(), value.raw(),
              ElementAt(target.dtype(), target.mutable_raw(), view.offset), copy);
  return absl::OkStatus();
}

void RegisterArraySliceKernels(KernelRegistry& registry) {
  registry.Add("Slice", MakeSlice);
  registry.Add("StridedSlice", MakeStridedSlice);
  registry.Add("StridedSliceGrad", MakeStridedSliceGrad);
  registry.Add("TensorStridedSliceUpdate", MakeTensorStridedSliceUpdate);
  registry.Add("XlaDynamicSlice", MakeXlaDynamicSlice);
  registry.Add("XlaDynamicUpdateSlice", MakeXlaDynamicUpdateSlice);
}

}  // namespace formwork
