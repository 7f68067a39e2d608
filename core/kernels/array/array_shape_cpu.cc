// Ops that look at shapes or change nothing but the shape: no element is touched.

#include <algorithm>
#include <limits>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/ops/reshape.h"
#include "core/ops/shape_arithmetic.h"

namespace formwork {
namespace {

absl::Status OutputShape(KernelContext& ctx, int i, DType dtype, const Shape& shape) {
  if (dtype == DType::kInt32) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) > std::numeric_limits<int32_t>::max()) {
        return InvalidArgument("Shape output type is 32-bit but dim ", d, " is ", shape.dim(d));
      }
    }
  }
  return OutputIntegers(ctx, i, dtype, shape.dims());
}

// Shape and ShapeN: one vector for each input.
absl::StatusOr<KernelFn> MakeShape(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      FORMWORK_RETURN_IF_ERROR(OutputShape(ctx, i, dtype, ctx.input(i).shape()));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSize(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const int64_t size = ctx.input(0).num_elements();
    if (dtype == DType::kInt64) {
      ctx.SetOutput(0, Tensor::Scalar<int64_t>(size));
    } else if (size > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument(
          "Number of elements was larger than representable by 32-bit output "
          "type: ",
          size);
    } else {
      ctx.SetOutput(0, Tensor::Scalar<int32_t>(static_cast<int32_t>(size)));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeRank(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    ctx.SetOutput(0, Tensor::Scalar<int32_t>(ctx.input(0).rank()));
    return absl::OkStatus();
  });
}

// Output 0: input 0 as `dims`, which have as many elements.
absl::Status OutputReshaped(KernelContext& ctx, const Dims& dims) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeReshape(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareReshape(ctx.input(0).shape().dims(), ctx.input(1)));
    return OutputReshaped(ctx, dims);
  });
}

absl::StatusOr<KernelFn> MakeSqueeze(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(SqueezeAttrs attrs, SqueezeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareSqueeze(attrs, ctx.input(0).shape().dims()));
    return OutputReshaped(ctx, dims);
  });
}

absl::StatusOr<KernelFn> MakeExpandDims(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareExpandDims(ctx.input(0).shape().dims(), ctx.input(1)));
    return OutputReshaped(ctx, dims);
  });
}

absl::StatusOr<KernelFn> MakeBitcast(KernelInit& init) {
  const DType from = init.input_dtypes()[0];
  const DType to = init.output_dtypes()[0];
  if (!IsPlainData(from) || !IsPlainData(to)) {
    return Unimplemented("Bitcast: dtypes ", DTypeName(from), " to ", DTypeName(to),
                         " are not supported");
  }
  return KernelFn([from, to](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareBitcast(ctx.input(0).shape().dims(), from, to));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape).Recast(to));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeConcatOffset(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const std::vector<Dims> offsets,
        PrepareConcatOffset(ctx.input(0), ctx.num_inputs() - 1,
                            [&](int i) -> const Tensor& { return ctx.input(i + 1); }));
    for (size_t i = 0; i < offsets.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, static_cast<int>(i), dtype, offsets[i]));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBroadcastGradientArgs(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const BroadcastAxes axes,
                              PrepareBroadcastGradientArgs(ctx.input(0), ctx.input(1)));
    FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, 0, dtype, axes.r0));
    return OutputIntegers(ctx, 1, dtype, axes.r1);
  });
}

absl::StatusOr<KernelFn> MakeBroadcastArgs(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareBroadcastArgs(ctx.input(0), ctx.input(1)));
    return OutputIntegers(ctx, 0, dtype, dims);
  });
}

template <typename T>
absl::Status InvertPermutation(KernelContext& ctx, const Tensor& x) {
  const int64_t n = x.num_elements();
  const T* from = x.data<T>();
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, x.dtype(), x.shape()));
  T* to = out->mutable_data<T>();
  const T none{-1};
  FillElements(x.dtype(), &none, n, to);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const T at = from[i];
    if (at < 0 || at >= n) return InvalidArgument(at, " is not between 0 and ", n);
    if (to[at] != -1) return InvalidArgument(at, " is duplicated in the input.");
    to[at] = static_cast<T>(i);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeInvertPermutation(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    if (x.rank() != 1) return InvalidArgument("invert_permutation expects a 1D vector.");
    if (x.dtype() == DType::kInt32) return InvertPermutation<int32_t>(ctx, x);
    return InvertPermutation<int64_t>(ctx, x);
  });
}

}  // namespace

void RegisterArrayShapeKernels(KernelRegistry& registry) {
  registry.Add("Shape", MakeShape);
  registry.Add("ShapeN", MakeShape);
  registry.Add("Size", MakeSize);
  registry.Add("Rank", MakeRank);
  registry.Add("Reshape", MakeReshape);
  registry.Add("Squeeze", MakeSqueeze);
  registry.Add("ExpandDims", MakeExpandDims);
  registry.Add("Bitcast", MakeBitcast);
  registry.Add("ConcatOffset", MakeConcatOffset);
  registry.Add("BroadcastGradientArgs", MakeBroadcastGradientArgs);
  registry.Add("BroadcastArgs", MakeBroadcastArgs);
  registry.Add("InvertPermutation", MakeInvertPermutation);
}

}  // namespace formwork
