#include "core/kernels/conv/depthwise_cpu.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/channel_order.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/depthwise_loops.h"
#include "core/kernels/elements.h"
#include "core/kernels/widen.h"
#include "core/ops/conv.h"

namespace formwork {
namespace {

absl::Status CheckDType(absl::string_view op, DType dtype) {
  if (dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kHalf ||
      dtype == DType::kBfloat16) {
    return absl::OkStatus();
  }
  return Unimplemented(op, ": dtype ", DTypeName(dtype), " is not supported");
}

/// The shape as the loops want it: as many channels in as out.
ConvShape LoopShape(const ConvShape& shape) {
  ConvShape loop = shape;
  loop.in_channels = shape.out_channels;
  loop.groups = shape.out_channels;
  loop.channels_first = false;
  return loop;
}

/// An image for the loops: channels last, float or double, each channel repeated `times` times.
absl::StatusOr<Tensor> Prepared(const Tensor& image, bool channels_first, int64_t times,
                                Allocator& allocator) {
  Tensor prepared = image;
  if (prepared.dtype() != DType::kDouble) {
    FORMWORK_ASSIGN_OR_RETURN(prepared, Widened(allocator, prepared));
  }
  if (channels_first) {
    FORMWORK_ASSIGN_OR_RETURN(prepared, ToChannelsLast(prepared, allocator));
  }
  if (times == 1) return prepared;
  const Shape& s = prepared.shape();
  FORMWORK_ASSIGN_OR_RETURN(const Shape wide,
                            Shape::Make({s.dim(0), s.dim(1), s.dim(2), s.dim(3) * times}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor repeated, Tensor::Allocate(allocator, prepared.dtype(), wide));
  const auto repeat = [&](const auto* from, auto* to) {
    ParallelFor(prepared.num_elements(), std::max<int64_t>(1, 65536 / times),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    for (int64_t q = 0; q < times; ++q) to[i * times + q] = from[i];
                  }
                });
  };
  if (prepared.dtype() == DType::kDouble) {
    repeat(prepared.data<double>(), repeated.mutable_data<double>());
  } else {
    repeat(prepared.data<float>(), repeated.mutable_data<float>());
  }
  return repeated;
}

/// Rounds what the loops gave to the result's dtype and layout.
absl::Status Deliver(Tensor from, bool to_channels_first, Allocator& allocator, Tensor* result) {
  if (to_channels_first) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor first,
                              Tensor::Allocate(allocator, from.dtype(), result->shape()));
    ToChannelsFirst(from, first.mutable_raw());
    from = std::move(first);
  }
  if (from.dtype() == DType::kDouble) {
    CopyElements(from.data<double>(), from.num_elements(), result->mutable_data<double>());
  } else {
    NarrowTo(result->dtype(), from.data<float>(), from.num_elements(), result->mutable_raw());
  }
  return absl::OkStatus();
}

/// Runs `loops(T*)` into `result`, by way of a tensor of `loop_shape` where dtype or layout differ.
template <typename Loops>
absl::Status RunInto(const Shape& loop_shape, bool channels_first, Allocator& allocator,
                     Tensor* result, Loops loops) {
  const DType dtype = result->dtype();
  if (!channels_first && (dtype == DType::kFloat || dtype == DType::kDouble)) {
    return loops(*result);
  }
  const DType made_in = dtype == DType::kDouble ? DType::kDouble : DType::kFloat;
  FORMWORK_ASSIGN_OR_RETURN(Tensor made, Tensor::Allocate(allocator, made_in, loop_shape));
  FORMWORK_RETURN_IF_ERROR(loops(made));
  return Deliver(std::move(made), channels_first, allocator, result);
}

absl::Status Forward(const ConvShape& shape, int64_t multiplier, const Tensor& input,
                     const Tensor& filter, const EpilogueOperands& operands, Allocator& allocator,
                     Tensor* output) {
  if (shape.output_elements() == 0) return absl::OkStatus();
  const ConvShape loop = LoopShape(shape);
  FORMWORK_ASSIGN_OR_RETURN(const Tensor in,
                            Prepared(input, shape.channels_first, multiplier, allocator));
  FORMWORK_ASSIGN_OR_RETURN(Tensor weights, Prepared(filter, false, 1, allocator));
  if (operands.scale != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(weights, ScaledFilter(weights, *operands.scale, allocator));
  }
  return RunInto(Shape({shape.batch, shape.rows.output, shape.cols.output, shape.out_channels}),
                 shape.channels_first, allocator, output, [&](Tensor& out) {
                   if (in.dtype() == DType::kDouble) {
                     DepthwiseForward(loop, in.data<double>(), weights.data<double>(), {},
                                      out.mutable_data<double>());
                   } else {
                     DepthwiseForward(loop, in.data<float>(), weights.data<float>(),
                                      DepthwiseEpilogueOf(operands), out.mutable_data<float>());
                   }
                   return absl::OkStatus();
                 });
}

template <typename T>
void SumOverMultiplier(const T* from, int64_t n, int64_t multiplier, T* to) {
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    T sum = T(0);
    for (int64_t q = 0; q < multiplier; ++q) sum += from[i * multiplier + q];
    to[i] = sum;
  }
}

template <typename T>
absl::Status InputGradientLoops(const ConvShape& loop, int64_t multiplier, const Tensor& weights,
                                const Tensor& gradient, Allocator& allocator, Tensor& out) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor flipped,
                            Tensor::Allocate(allocator, weights.dtype(), weights.shape()));
  if (multiplier == 1) {
    DepthwiseInputGradient(loop, weights.data<T>(), gradient.data<T>(), out.mutable_data<T>(),
                           flipped.mutable_data<T>());
    return absl::OkStatus();
  }
  // An image at a time, so that the repeated channels take little memory.
  const int64_t image = loop.rows.input * loop.cols.input * loop.in_channels;
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(allocator, out.dtype(), Shape({image})));
  ConvShape one = loop;
  one.batch = 1;
  const int64_t out_image = loop.rows.output * loop.cols.output * loop.in_channels;
  for (int64_t n = 0; n < loop.batch && !WorkIsCut(); ++n) {
    DepthwiseInputGradient(one, weights.data<T>(), gradient.data<T>() + n * out_image,
                           wide.mutable_data<T>(), flipped.mutable_data<T>());
    SumOverMultiplier(wide.data<T>(), image / multiplier, multiplier,
                      out.mutable_data<T>() + n * (image / multiplier));
  }
  return absl::OkStatus();
}

absl::Status InputGradient(const ConvShape& shape, int64_t multiplier, const Tensor& filter,
                           const Tensor& out_backprop, Allocator& allocator, Tensor* result) {
  if (shape.input_elements() == 0) return absl::OkStatus();
  if (multiplier == 0) {
    // No output looks at the input.
    ZeroElements(*result);
    return absl::OkStatus();
  }
  const ConvShape loop = LoopShape(shape);
  FORMWORK_ASSIGN_OR_RETURN(const Tensor gradient,
                            Prepared(out_backprop, shape.channels_first, 1, allocator));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor weights, Prepared(filter, false, 1, allocator));
  return RunInto(
      Shape({shape.batch, shape.rows.input, shape.cols.input, shape.in_channels}),
      shape.channels_first, allocator, result, [&](Tensor& out) {
        return out.dtype() == DType::kDouble
                   ? InputGradientLoops<double>(loop, multiplier, weights, gradient, allocator, out)
                   : InputGradientLoops<float>(loop, multiplier, weights, gradient, allocator, out);
      });
}

template <typename T>
absl::Status FilterGradientLoops(const ConvShape& loop, const Tensor& input, const Tensor& gradient,
                                 Allocator& allocator, Tensor& out) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Shape sums_shape,
      Shape::Make({DepthwiseFilterSums(loop), std::max<int64_t>(out.num_elements(), 1)}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor sums, Tensor::Allocate(allocator, out.dtype(), sums_shape));
  DepthwiseFilterGradient(loop, input.data<T>(), gradient.data<T>(), out.mutable_data<T>(),
                          sums.mutable_data<T>());
  return absl::OkStatus();
}

absl::Status FilterGradient(const ConvShape& shape, int64_t multiplier, const Tensor& input,
                            const Tensor& out_backprop, Allocator& allocator, Tensor* result) {
  if (result->num_elements() == 0) return absl::OkStatus();
  if (shape.output_elements() == 0) {
    ZeroElements(*result);
    return absl::OkStatus();
  }
  const ConvShape loop = LoopShape(shape);
  FORMWORK_ASSIGN_OR_RETURN(const Tensor in,
                            Prepared(input, shape.channels_first, multiplier, allocator));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor gradient,
                            Prepared(out_backprop, shape.channels_first, 1, allocator));
  return RunInto(result->shape(), false, allocator, result, [&](Tensor& out) {
    return out.dtype() == DType::kDouble
               ? FilterGradientLoops<double>(loop, in, gradient, allocator, out)
               : FilterGradientLoops<float>(loop, in, gradient, allocator, out);
  });
}

absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("DepthwiseConv2dNative", init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  return KernelFn([attrs, epilogue](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              PrepareDepthwise(attrs, input.shape().dims(), filter.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(shape.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(const EpilogueOperands operands,
                              EpilogueOperands::Of(ctx, epilogue, out_shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), out_shape));
    return Forward(shape, filter.dim(3), input, filter, operands, ctx.allocator(), output);
  });
}

absl::StatusOr<KernelFn> MakeInputGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(
      CheckDType("DepthwiseConv2dNativeBackpropInput", init.input_dtypes()[1]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& filter = ctx.input(1);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const ConvGradient geometry,
        PrepareDepthwiseInputGradient(attrs, ctx.input(0), filter.shape().dims(),
                                      gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape input_shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, gradient.dtype(), input_shape));
    return InputGradient(geometry.shape, filter.dim(3), filter, gradient, ctx.allocator(), output);
  });
}

absl::StatusOr<KernelFn> MakeFilterGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(
      CheckDType("DepthwiseConv2dNativeBackpropFilter", init.input_dtypes()[0]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const ConvGradient geometry,
        PrepareDepthwiseFilterGradient(attrs, input.shape().dims(), ctx.input(1),
                                       gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape filter_shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), filter_shape));
    return FilterGradient(geometry.shape, filter_shape.dim(3), input, gradient, ctx.allocator(),
                          output);
  });
}

}  // namespace

DepthwiseEpilogue<float> DepthwiseEpilogueOf(const EpilogueOperands& operands) {
  DepthwiseEpilogue<float> epilogue;
  if (operands.bias != nullptr) epilogue.bias = operands.bias->data<float>();
  epilogue.clamp = operands.steps.activation != Activation::kNone;
  epilogue.high = operands.steps.activation == Activation::kRelu6
                      ? 6.0f
                      : std::numeric_limits<float>::infinity();
  return epilogue;
}

void AddDepthwiseCpuKernels(KernelRegistry& registry) {
  registry.Add("DepthwiseConv2dNative", MakeForward);
  registry.Add("DepthwiseConv2dNativeBackpropInput", MakeInputGradient);
  registry.Add("DepthwiseConv2dNativeBackpropFilter", MakeFilterGradient);
}

}  // namespace formwork
