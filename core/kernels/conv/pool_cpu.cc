#include "core/kernels/conv/pool_cpu.h"

#include <bit>
#include <limits>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/conv/channel_order.h"
#include "core/kernels/conv/pool_loops.h"
#include "core/kernels/widen.h"
#include "core/ops/pool.h"

namespace formwork {
namespace {

bool IsWidened(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBfloat16; }

bool IsAverageType(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || IsWidened(dtype);
}

bool IsMaxType(DType dtype) {
  return IsAverageType(dtype) || dtype == DType::kQint8 ||
         (IsInteger(dtype) && dtype != DType::kInt4 && dtype != DType::kUint4 &&
          dtype != DType::kInt2 && dtype != DType::kUint2);
}

absl::Status NoSuchType(absl::string_view op, DType dtype) {
  return Unimplemented(op, ": dtype ", DTypeName(dtype), " is not supported");
}

/// The image for the loops: channels last, half and bfloat16 as float.
absl::StatusOr<Tensor> Prepared(const Tensor& image, bool channels_first, Allocator& allocator) {
  Tensor prepared = image;
  if (IsWidened(image.dtype())) {
    FORMWORK_ASSIGN_OR_RETURN(prepared, Widened(allocator, image));
  }
  if (!channels_first) return prepared;
  return ToChannelsLast(prepared, allocator);
}

/// Runs `loops(Tensor& channels_last)` into `result`, which has `last_shape` once its channels are
/// last.
template <typename Loops>
absl::Status RunInto(const Shape& last_shape, bool channels_first, Allocator& allocator,
                     Tensor* result, Loops loops) {
  const bool widened = IsWidened(result->dtype());
  if (!channels_first && !widened) {
    loops(*result);
    return absl::OkStatus();
  }
  const DType dtype = widened ? DType::kFloat : result->dtype();
  FORMWORK_ASSIGN_OR_RETURN(Tensor made, Tensor::Allocate(allocator, dtype, last_shape));
  loops(made);
  if (channels_first && widened) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor first, Tensor::Allocate(allocator, dtype, result->shape()));
    ToChannelsFirst(made, first.mutable_raw());
    made = std::move(first);
  } else if (channels_first) {
    ToChannelsFirst(made, result->mutable_raw());
  }
  if (widened) {
    NarrowTo(result->dtype(), made.data<float>(), made.num_elements(), result->mutable_raw());
  }
  return absl::OkStatus();
}

Shape LastOutput(const ConvShape& s) {
  return Shape({s.batch, s.rows.output, s.cols.output, s.out_channels});
}
Shape LastInput(const ConvShape& s) {
  return Shape({s.batch, s.rows.input, s.cols.input, s.in_channels});
}

/// What a window starts from, which TensorFlow's results show where all is NaN or -inf.
float LowestFloat(DType dtype) {
  if (dtype == DType::kHalf) return -65504.0f;
  if (dtype == DType::kBfloat16)
    return static_cast<float>(std::bit_cast<bfloat16>(static_cast<uint16_t>(0xff7f)));
  return std::numeric_limits<float>::lowest();
}

#define FORMWORK_INTEGER_POOL_CASES(...) \
  case DType::kQint8: {                  \
    using T = int8_t;                    \
    __VA_ARGS__;                         \
  } break;                               \
    FORMWORK_CASE(double, __VA_ARGS__)   \
    FORMWORK_INTEGER_CASES(__VA_ARGS__)

void MaxLoops(const ConvShape& shape, DType dtype, const Tensor& in, Tensor& out) {
  switch (in.dtype()) {
    case DType::kFloat:
      MaxPoolForward(shape, in.data<float>(), LowestFloat(dtype), out.mutable_data<float>());
      break;
      FORMWORK_INTEGER_POOL_CASES(MaxPoolForward<T>(shape, static_cast<const T*>(in.raw()),
                                                    std::numeric_limits<T>::lowest(),
                                                    static_cast<T*>(out.mutable_raw())))
    default:
      break;
  }
}

void MaxGradientLoops(const ConvShape& shape, bool relu, const Tensor& in, const Tensor& gradient,
                      Tensor& out) {
  switch (in.dtype()) {
    case DType::kFloat:
      MaxPoolInputGradient(shape, relu, in.data<float>(), gradient.data<float>(),
                           out.mutable_data<float>());
      break;
      FORMWORK_INTEGER_POOL_CASES(MaxPoolInputGradient<T>(
          shape, relu, static_cast<const T*>(in.raw()), static_cast<const T*>(gradient.raw()),
          static_cast<T*>(out.mutable_raw())))
    default:
      break;
  }
}
#undef FORMWORK_INTEGER_POOL_CASES

/// Pooling over channels is pooling over columns of an image of one channel.
absl::Status MaxOverDepth(const SlidingAttrs& attrs, KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape image, PreparePool(attrs, input.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(image.output_dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), out_shape));
  if (output->num_elements() == 0) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Tensor in,
                            Prepared(input, attrs.layout.channels_first, ctx.allocator()));
  ConvShape shape;
  shape.batch = input.num_elements() / image.in_channels;
  shape.in_channels = shape.out_channels = 1;
  shape.rows = {1, 1, 1, 1, 1, 0, 0};
  shape.cols = {
      image.in_channels, image.out_channels, attrs.depth_window, attrs.depth_window, 1, 0, 0};
  return RunInto(LastOutput(image), attrs.layout.channels_first, ctx.allocator(), output,
                 [&](Tensor& out) { MaxLoops(shape, input.dtype(), in, out); });
}

absl::Status MaxPool(const SlidingAttrs& attrs, KernelContext& ctx) {
  if (attrs.depth_window > 1) return MaxOverDepth(attrs, ctx);
  const Tensor& input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, PreparePool(attrs, input.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(shape.output_dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), out_shape));
  if (output->num_elements() == 0) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Tensor in,
                            Prepared(input, shape.channels_first, ctx.allocator()));
  return RunInto(LastOutput(shape), shape.channels_first, ctx.allocator(), output,
                 [&](Tensor& out) { MaxLoops(shape, input.dtype(), in, out); });
}

absl::StatusOr<KernelFn> MakeMaxPool(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(init.attrs()));
  if (!IsMaxType(init.input_dtypes()[0])) return NoSuchType("MaxPool", init.input_dtypes()[0]);
  return KernelFn([attrs](KernelContext& ctx) { return MaxPool(attrs, ctx); });
}

// Its window and strides are inputs.
absl::StatusOr<KernelFn> MakeMaxPoolV2(KernelInit& init) {
  if (!IsMaxType(init.input_dtypes()[0])) return NoSuchType("MaxPoolV2", init.input_dtypes()[0]);
  return KernelFn([given = init.attrs()](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs,
                              MaxPoolV2Attrs(given, ctx.input(1), ctx.input(2)));
    return MaxPool(attrs, ctx);
  });
}

absl::Status MaxPoolGrad(const SlidingAttrs& attrs, bool relu, KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const Tensor& gradient = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, PrepareMaxPoolGrad(attrs, input.shape().dims(),
                                                                      ctx.input(1).shape().dims(),
                                                                      gradient.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), input.shape()));
  if (output->num_elements() == 0) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Tensor in,
                            Prepared(input, shape.channels_first, ctx.allocator()));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor g,
                            Prepared(gradient, shape.channels_first, ctx.allocator()));
  return RunInto(LastInput(shape), shape.channels_first, ctx.allocator(), output,
                 [&](Tensor& out) { MaxGradientLoops(shape, relu, in, g, out); });
}

absl::StatusOr<KernelFn> MakeMaxPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(init.attrs()));
  if (!IsMaxType(init.input_dtypes()[0])) {
    return NoSuchType("MaxPoolGrad", init.input_dtypes()[0]);
  }
  if (attrs.depth_window > 1) {
    return Unimplemented("MaxPoolingGrad is not yet supported on the depth dimension.");
  }
  const bool relu = OfRelu(init.attrs());
  return KernelFn([attrs, relu](KernelContext& ctx) { return MaxPoolGrad(attrs, relu, ctx); });
}

// Its window and strides are inputs.
absl::StatusOr<KernelFn> MakeMaxPoolGradV2(KernelInit& init) {
  if (!IsMaxType(init.input_dtypes()[0])) {
    return NoSuchType("MaxPoolGradV2", init.input_dtypes()[0]);
  }
  return KernelFn([given = init.attrs()](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs,
                              MaxPoolV2Attrs(given, ctx.input(3), ctx.input(4)));
    if (attrs.depth_window > 1) {
      return Unimplemented("MaxPoolingGrad is not yet supported on the depth dimension.");
    }
    return MaxPoolGrad(attrs, /*relu=*/false, ctx);
  });
}

// Of each window the gradient where the first of its largest elements is; 0 where none is it (NaN).
template <typename T>
void GradientsOfLargest(const ConvShape& s, const T* in, const T* largest, const T* gradient,
                        T* out) {
  const int64_t channels = s.in_channels;
  ParallelFor(s.batch * s.rows.output, 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t image = line / s.rows.output * s.rows.input * s.cols.input;
      const int64_t top = line % s.rows.output * s.rows.stride - s.rows.pad_before;
      const int64_t bottom = std::min(top + s.rows.taps, s.rows.input);
      for (int64_t col = 0; col < s.cols.output; ++col) {
        const int64_t left = col * s.cols.stride - s.cols.pad_before;
        const int64_t right = std::min(left + s.cols.taps, s.cols.input);
        const int64_t at = (line * s.cols.output + col) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          T found = T();
          bool done = false;
          for (int64_t y = std::max<int64_t>(top, 0); y < bottom && !done; ++y) {
            for (int64_t x = std::max<int64_t>(left, 0); x < right && !done; ++x) {
              const int64_t element = (image + y * s.cols.input + x) * channels + c;
              done = in[element] == largest[at + c];
              if (done) found = gradient[element];
            }
          }
          out[at + c] = found;
        }
      }
    }
  });
}

absl::Status MaxPoolGradGrad(const SlidingAttrs& attrs, KernelContext& ctx) {
  const Tensor input = ctx.input(0), largest = ctx.input(1), gradient = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PrepareMaxPoolGrad(attrs, input.shape().dims(), largest.shape().dims(),
                                               largest.shape().dims()));
  if (gradient.shape() != input.shape()) {
    return InvalidArgument("Expected grad shape to be ", input.shape().ToString(), ", but got ",
                           gradient.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), largest.shape()));
  if (output->num_elements() == 0) return absl::OkStatus();
  const bool first = shape.channels_first;
  FORMWORK_ASSIGN_OR_RETURN(const Tensor in, Prepared(input, first, ctx.allocator()));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor top, Prepared(largest, first, ctx.allocator()));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor g, Prepared(gradient, first, ctx.allocator()));
  return RunInto(LastOutput(shape), first, ctx.allocator(), output, [&](Tensor& out) {
    switch (in.dtype()) {
      FORMWORK_CASE(float, GradientsOfLargest(shape, in.data<T>(), top.data<T>(), g.data<T>(),
                                              out.mutable_data<T>()))
      FORMWORK_CASE(double, GradientsOfLargest(shape, in.data<T>(), top.data<T>(), g.data<T>(),
                                               out.mutable_data<T>()))
      FORMWORK_INTEGER_CASES(GradientsOfLargest(shape, in.data<T>(), top.data<T>(), g.data<T>(),
                                                out.mutable_data<T>()))
      default:
        break;
    }
  });
}

// kByInputs: window and strides are inputs.
template <bool kByInputs>
absl::StatusOr<KernelFn> MakeMaxPoolGradGrad(KernelInit& init) {
  if (!IsMaxType(init.input_dtypes()[0])) {
    return NoSuchType(init.op().name, init.input_dtypes()[0]);
  }
  return KernelFn([given = init.attrs()](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs,
                              kByInputs ? MaxPoolV2Attrs(given, ctx.input(3), ctx.input(4))
                                        : SlidingAttrs::OfPool(given));
    if (attrs.depth_window > 1) {
      return Unimplemented("MaxPoolingGradGrad is not yet supported on the depth dimension.");
    }
    return MaxPoolGradGrad(attrs, ctx);
  });
}

absl::Status CheckAverageAttrs(absl::string_view op, const SlidingAttrs& attrs, DType dtype) {
  if (!IsAverageType(dtype)) return NoSuchType(op, dtype);
  if (attrs.depth_window > 1) {
    return Unimplemented("Non-spatial pooling is not yet supported.");
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeAvgPool(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckAverageAttrs("AvgPool", attrs, init.input_dtypes()[0]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, PreparePool(attrs, input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(shape.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), out_shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const Tensor in,
                              Prepared(input, shape.channels_first, ctx.allocator()));
    return RunInto(LastOutput(shape), shape.channels_first, ctx.allocator(), output,
                   [&](Tensor& out) {
                     if (in.dtype() == DType::kDouble) {
                       AvgPoolForward(shape, in.data<double>(), out.mutable_data<double>());
                     } else {
                       AvgPoolForward(shape, in.data<float>(), out.mutable_data<float>());
                     }
                   });
  });
}

absl::StatusOr<KernelFn> MakeAvgPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckAverageAttrs("AvgPoolGrad", attrs, init.input_dtypes()[1]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& gradient = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              PrepareAvgPoolGrad(attrs, ctx.input(0), gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape input_shape, Shape::Make(shape.input_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, gradient.dtype(), input_shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const Tensor g,
                              Prepared(gradient, shape.channels_first, ctx.allocator()));
    return RunInto(LastInput(shape), shape.channels_first, ctx.allocator(), output,
                   [&](Tensor& out) {
                     if (g.dtype() == DType::kDouble) {
                       AvgPoolInputGradient(shape, g.data<double>(), out.mutable_data<double>());
                     } else {
                       AvgPoolInputGradient(shape, g.data<float>(), out.mutable_data<float>());
                     }
                   });
  });
}

}  // namespace

void AddPoolCpuKernels(KernelRegistry& registry) {
  registry.Add("MaxPool", MakeMaxPool);
  registry.Add("MaxPoolV2", MakeMaxPoolV2);
  registry.Add("MaxPoolGrad", MakeMaxPoolGrad);
  registry.Add("MaxPoolGradV2", MakeMaxPoolGradV2);
  registry.Add("MaxPoolGradGrad", MakeMaxPoolGradGrad<false>);
  registry.Add("MaxPoolGradGradV2", MakeMaxPoolGradGrad<true>);
  registry.Add("AvgPool", MakeAvgPool);
  registry.Add("AvgPoolGrad", MakeAvgPoolGrad);
  AddPool3dCpuKernels(registry);
  AddPoolArgmaxCpuKernels(registry);
  AddFractionalPoolCpuKernels(registry);
  AddDilationCpuKernels(registry);
}

}  // namespace formwork
