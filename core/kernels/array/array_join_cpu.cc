// Pack, Unpack, ConcatV2, Split and SplitV.

#include "core/base/status.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/join.h"
#include "core/ops/split.h"

namespace formwork {
namespace {

using TensorPtrs = absl::InlinedVector<const Tensor*, 8>;

// Sizes of one dimension each, made into a shape: no general machinery.
template <typename E>
bool PackScalars(KernelContext& ctx, DType dtype) {
  const int n = ctx.num_inputs();
  for (int i = 0; i < n; ++i) {
    if (!ctx.input(i).shape().is_scalar()) return false;
  }
  absl::StatusOr<Tensor*> out = ctx.AllocateOutput(0, dtype, Shape{n});
  if (!out.ok()) return false;
  E* to = static_cast<E*>((*out)->mutable_raw());
  for (int i = 0; i < n; ++i) to[i] = *static_cast<const E*>(ctx.input(i).raw());
  return true;
}

absl::StatusOr<KernelFn> MakePack(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PackAttrs attrs, PackAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  const bool words4 =
      IsPlainData(dtype) && DTypeSize(dtype) == 4 && (attrs.axis == 0 || attrs.axis == -1);
  return KernelFn([attrs, dtype, words4](KernelContext& ctx) -> absl::Status {
    if (words4 && PackScalars<Word4>(ctx, dtype)) return absl::OkStatus();
    TensorPtrs tensors;
    for (int i = 0; i < ctx.num_inputs(); ++i) tensors.push_back(&ctx.input(i));
    absl::StatusOr<Tensor> result = StackTensors(ctx.allocator(), tensors, attrs.axis);
    if (!result.ok()) return std::move(result).status();
    if (ctx.num_inputs() == 1) {
      // Let go of the input's hold, so that the next op may write in place.
      const Shape shape = result->shape();
      result = absl::StatusOr<Tensor>();
      ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
      return absl::OkStatus();
    }
    ctx.SetOutput(0, *std::move(result));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeConcatV2(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const int n = ctx.num_inputs() - 1;
    TensorPtrs tensors;
    for (int i = 0; i < n; ++i) tensors.push_back(&ctx.input(i));
    FORMWORK_ASSIGN_OR_RETURN(
        const JoinGeometry geometry,
        PrepareConcat(
            n, [&](int i) { return tensors[i]->shape().dims(); }, ctx.input(n)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, ConcatTensors(ctx.allocator(), tensors, geometry));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeParallelConcat(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, init.attrs().Get<PartialShape>("shape"));
  return KernelFn([shape](KernelContext& ctx) -> absl::Status {
    TensorPtrs tensors;
    for (int i = 0; i < ctx.num_inputs(); ++i) tensors.push_back(&ctx.input(i));
    const auto dims = [&](int i) { return tensors[i]->shape().dims(); };
    FORMWORK_RETURN_IF_ERROR(PrepareParallelConcat(shape, ctx.num_inputs(), dims).status());
    FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry,
                              PrepareConcat(ctx.num_inputs(), dims, /*axis=*/int64_t{0}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, ConcatTensors(ctx.allocator(), tensors, geometry));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// Writes value[..., begin : begin + size, ...] along `axis` to output i, as `shape`.
absl::Status OutputPart(KernelContext& ctx, int i, const Tensor& value, int axis, int64_t begin,
                        int64_t size, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i, value.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const absl::Span<const int64_t> dims = value.shape().dims();
  const int64_t inner = ProductOf(dims.subspan(static_cast<size_t>(axis) + 1));
  const int64_t rows = ProductOf(dims.first(static_cast<size_t>(axis)));
  CopyStrided(value.dtype(), ElementAt(value.dtype(), value.raw(), begin * inner),
              out->mutable_raw(),
              {{rows, value.dim(axis) * inner, size * inner}, {size * inner, 1, 1}});
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeUnpack(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UnpackAttrs attrs, UnpackAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    const int n = ctx.num_outputs();
    FORMWORK_ASSIGN_OR_RETURN(UnpackGeometry geometry,
                              PrepareUnpack(attrs, value.shape().dims(), n));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
    if (n == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
      return absl::OkStatus();
    }
    for (int i = 0; i < n; ++i) {
      FORMWORK_RETURN_IF_ERROR(OutputPart(ctx, i, value, geometry.axis, i, 1, shape));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSplit(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(1);
    const int n = ctx.num_outputs();
    FORMWORK_ASSIGN_OR_RETURN(EqualParts parts,
                              PrepareSplit(value.shape().dims(), ctx.input(0), n));
    if (n == 1) {
      ctx.SetOutput(0, ctx.TakeInput(1));
      return absl::OkStatus();
    }
    Dims dims(value.shape().dims().begin(), value.shape().dims().end());
    dims[parts.axis] = parts.size;
    const Shape shape = Shape::Trusted(dims);
    for (int i = 0; i < n; ++i) {
      FORMWORK_RETURN_IF_ERROR(
          OutputPart(ctx, i, value, parts.axis, i * parts.size, parts.size, shape));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSplitV(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    const int n = ctx.num_outputs();
    FORMWORK_ASSIGN_OR_RETURN(SizedParts parts,
                              PrepareSplitV(value.shape().dims(), &ctx.input(1), ctx.input(2), n));
    if (n == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    Dims dims(value.shape().dims().begin(), value.shape().dims().end());
    int64_t begin = 0;
    for (int i = 0; i < n; ++i) {
      const int64_t size = parts.sizes[i];
      dims[parts.axis] = size;
      FORMWORK_RETURN_IF_ERROR(
          OutputPart(ctx, i, value, parts.axis, begin, size, Shape::Trusted(dims)));
      begin += size;
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayJoinKernels(KernelRegistry& registry) {
  registry.Add("Pack", MakePack);
  registry.Add("Unpack", MakeUnpack);
  registry.Add("ConcatV2", MakeConcatV2);
  registry.Add("ParallelConcat", MakeParallelConcat);
  registry.Add("Split", MakeSplit);
  registry.Add("SplitV", MakeSplitV);
}

}  // namespace formwork
