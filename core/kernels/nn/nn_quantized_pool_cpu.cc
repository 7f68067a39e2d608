// Quantized values of ranges put together, in other shapes, pooled, and convolved.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/nn/nn_quantized.h"
#include "core/ops/join.h"
#include "core/ops/pool.h"
#include "core/ops/quantized.h"
#include "core/ops/reshape.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 1 << 14;

// Of a range of more numbers TensorFlow's kernels below take the first.
absl::StatusOr<float> FirstOf(const Tensor& numbers, absl::string_view name) {
  if (numbers.num_elements() == 0) return InvalidArgument(name, " must not be empty");
  return numbers.data<float>()[0];
}

absl::Status OutputRange(KernelContext& ctx, QuantizedRange range) {
  ctx.SetOutput(1, Tensor::Scalar(range.min));
  ctx.SetOutput(2, Tensor::Scalar(range.max));
  return absl::OkStatus();
}

absl::StatusOr<QuantizedRange> ScalarRange(KernelContext& ctx, int min, absl::string_view name) {
  for (const int i : {min, min + 1}) {
    if (ctx.input(i).rank() == 0) continue;
    return InvalidArgument(i == min ? "min_" : "max_", name, " must be rank 0 but is rank ",
                           ctx.input(i).rank());
  }
  return QuantizedRange{ctx.input(min).scalar<float>(), ctx.input(min + 1).scalar<float>()};
}

// --- QuantizedConcat -----------------------------------------------------------------------------

// Values of one range as such of another, rows of `width` that lie `step` apart there.
template <typename T>
void CopyRows(const Tensor& from, QuantizedRange of_from, QuantizedRange of_to, int64_t width,
              int64_t step, T* to) {
  const T* src = static_cast<const T*>(from.raw());
  const bool same = of_from.min == of_to.min && of_from.max == of_to.max;
  const Dequantizer<T> dequantize(of_from);
  const Quantizer<T> quantize(of_to);
  ParallelFor(from.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i / width * step + i % width] = same ? src[i] : quantize(dequantize(src[i]));
    }
  });
}

template <typename T>
absl::Status Concat(KernelContext& ctx, DType dtype) {
  const int n = (ctx.num_inputs() - 1) / 3;
  if (ctx.input(0).rank() != 0) {
    return InvalidArgument("Concat dim tensor should be a scalar integer, but got shape ",
                           ctx.input(0).shape().ToString());
  }
  const int64_t axis = ctx.input(0).scalar<int32_t>();
  if (axis < 0) {
    return InvalidArgument("ConcatOp : Expected concatenating dimensions in the range [0, ",
                           ctx.input(1).rank(), "), but got ", axis);
  }
  FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry,
                            PrepareConcat(
                                n, [&](int i) { return ctx.input(1 + i).shape().dims(); }, axis));
  // 0 is in the range, and in the middle of one of integers that have a sign.
  QuantizedRange range = {0.0f, std::numeric_limits<float>::lowest()};
  std::vector<QuantizedRange> ranges;
  for (int i = 0; i < n; ++i) {
    QuantizedRange& of_input = ranges.emplace_back();
    FORMWORK_ASSIGN_OR_RETURN(of_input.min, FirstOf(ctx.input(1 + n + i), "input_mins"));
    FORMWORK_ASSIGN_OR_RETURN(of_input.max, FirstOf(ctx.input(1 + 2 * n + i), "input_maxes"));
    range.min = std::min(range.min, of_input.min);
    range.max = std::max(range.max, of_input.max);
  }
  if (std::is_signed_v<T>) {
    range.max = std::max(std::abs(range.min), std::abs(range.max));
    range.min = -range.max;
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(ctx.allocator(), dtype, shape));
  const auto row_of = [&](absl::Span<const int64_t> dims) {
    int64_t row = 1;
    for (const int64_t size : dims.subspan(static_cast<size_t>(axis))) row *= size;
    return row;
  };
  if (shape.num_elements() > 0) {
    T* to = static_cast<T*>(joined.mutable_raw());
    const int64_t step = row_of(shape.dims());
    for (int i = 0; i < n; ++i) {
      const Tensor& value = ctx.input(1 + i);
      if (value.num_elements() == 0) continue;
      const int64_t width = row_of(value.shape().dims());
      CopyRows<T>(value, ranges[static_cast<size_t>(i)], range, width, step, to);
      to += width;
    }
  }
  ctx.SetOutput(0, std::move(joined));
  return OutputRange(ctx, range);
}

absl::StatusOr<KernelFn> MakeConcat(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (dtype == DType::kQuint8) {
    return KernelFn([dtype](KernelContext& ctx) { return Concat<uint8_t>(ctx, dtype); });
  }
  if (dtype == DType::kQint32) {
    return KernelFn([dtype](KernelContext& ctx) { return Concat<int32_t>(ctx, dtype); });
  }
  return Unimplemented("QuantizedConcat: dtype ", DTypeName(dtype), " is not supported");
}

// --- QuantizedReshape ----------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeReshape(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (dtype != DType::kQuint8 && dtype != DType::kQint32) {
    return Unimplemented("QuantizedReshape: dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareReshape(ctx.input(0).shape().dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    QuantizedRange range;
    FORMWORK_ASSIGN_OR_RETURN(range.min, FirstOf(ctx.input(2), "input_min"));
    FORMWORK_ASSIGN_OR_RETURN(range.max, FirstOf(ctx.input(3), "input_max"));
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
    return OutputRange(ctx, range);
  });
}

// --- QuantizedMaxPool, QuantizedAvgPool ----------------------------------------------------------

// The elements [begin, end) of an axis that window `i` has.
struct Window {
  Window(const ConvAxis& axis, int64_t i)
      : first(i * axis.stride - axis.pad_before),
        begin(std::max<int64_t>(first, 0)),
        end(std::min(first + axis.taps, axis.input)) {}
  const int64_t first, begin, end;
};

// What it makes of the window of output pixel `pixel`.
template <typename T, bool kMax>
void PoolPixel(const ConvShape& s, int64_t depth, const T* from, int64_t pixel, T* to) {
  const Window cols(s.cols, pixel % s.cols.output);
  const Window rows(s.rows, pixel / s.cols.output % s.rows.output);
  const int64_t image = pixel / s.cols.output / s.rows.output;
  const int64_t count = (rows.end - rows.begin) * (cols.end - cols.begin);
  for (int64_t c = 0; c < s.out_channels; ++c) {
    int64_t most = std::numeric_limits<T>::min(), sum = 0;
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      if (WorkIsCutAt(y, 16)) return;
      const T* row = from + ((image * s.rows.input + y) * s.cols.input) * s.in_channels;
      for (int64_t x = cols.begin; x < cols.end; ++x) {
        if (WorkIsCutAt(x)) return;
        for (int64_t d = 0; d < depth; ++d) {
          const T value = row[x * s.in_channels + c * depth + d];
          most = std::max<int64_t>(most, value);
          sum += value;
        }
      }
    }
    to[pixel * s.out_channels + c] =
        static_cast<T>(kMax ? most : sum / std::max<int64_t>(count, 1));
  }
}

template <typename T, bool kMax>
absl::Status Pool(KernelContext& ctx, const SlidingAttrs& attrs) {
  const Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange range, ScalarRange(ctx, 1, "input"));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape s, PreparePool(attrs, input.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
  if (shape.num_elements() > 0) {
    const T* from = static_cast<const T*>(input.raw());
    T* to = static_cast<T*>(out->mutable_raw());
    const double cost = static_cast<double>(s.rows.taps) * static_cast<double>(s.cols.taps) *
                        static_cast<double>(s.in_channels);
    const auto grain = static_cast<int64_t>(kTask / std::max(cost, 1.0)) + 1;
    ParallelFor(s.batch * s.rows.output * s.cols.output, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !WorkIsCutAt(i - begin, kDearItems); ++i) {
        PoolPixel<T, kMax>(s, attrs.depth_window, from, i, to);
      }
    });
  }
  return OutputRange(ctx, range);
}

template <bool kMax>
absl::StatusOr<KernelFn> MakePool(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, QuantizedPoolAttrs(init.attrs()));
  if (!kMax && attrs.depth_window != 1) {
    return Unimplemented("Non-spatial pooling is not yet supported. Volunteers? :)");
  }
  const DType dtype = init.output_dtypes()[0];
  if (dtype == DType::kQuint8) {
    return KernelFn([attrs](KernelContext& ctx) { return Pool<uint8_t, kMax>(ctx, attrs); });
  }
  if (dtype == DType::kQint8) {
    return KernelFn([attrs](KernelContext& ctx) { return Pool<int8_t, kMax>(ctx, attrs); });
  }
  return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
}

// --- QuantizedConv2D -----------------------------------------------------------------------------

// `filter` is what the integers are less that of 0. What lies outside of the image is 0: where the
// integers of the image have no 0, TensorFlow takes the lowest bits of what it would be.
void ConvolvePixel(const ConvShape& s, const uint8_t* from, uint32_t zero, const uint32_t* filter,
                   int64_t pixel, uint32_t* to) {
  const Window cols(s.cols, pixel % s.cols.output);
  const Window rows(s.rows, pixel / s.cols.output % s.rows.output);
  const int64_t image = pixel / s.cols.output / s.rows.output;
  const int64_t between_looks = std::max<int64_t>(64 * 1024 / s.out_channels, 1);
  int64_t done = 0;
  std::fill_n(to, s.out_channels, 0u);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    for (int64_t x = cols.begin; x < cols.end; ++x) {
      const uint8_t* in = from + ((image * s.rows.input + y) * s.cols.input + x) * s.in_channels;
      const uint32_t* weights = filter + ((y - rows.first) * s.cols.taps + x - cols.first) *
                                             s.in_channels * s.out_channels;
      for (int64_t i = 0; i < s.in_channels; ++i, weights += s.out_channels) {
        if (WorkIsCutAt(done++, between_looks)) return;
        const uint32_t value = in[i] - zero;
        for (int64_t o = 0; o < s.out_channels; ++o) to[o] += value * weights[o];
      }
    }
  }
}

template <typename F>
absl::Status Convolve(KernelContext& ctx, const SlidingAttrs& attrs) {
  const Tensor input = ctx.input(0), filter = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_input, ScalarRange(ctx, 2, "input"));
  FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_filter, ScalarRange(ctx, 4, "filter"));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape s,
                            PrepareConv(attrs, input.shape().dims(), filter.shape().dims()));
  if (s.groups != 1) {
    return InvalidArgument("input and filter must have the same depth: ", s.in_channels, " vs ",
                           s.in_channels / s.groups);
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor weights,
                            Tensor::Allocate(ctx.allocator(), DType::kUint32, filter.shape()));
  const auto zero = static_cast<uint32_t>(ToQuantizedUnclamped<uint8_t>(0.0f, of_input));
  const auto filter_zero = static_cast<uint32_t>(ToQuantizedUnclamped<F>(0.0f, of_filter));
  const F* of_weights = static_cast<const F*>(filter.raw());
  auto* weight = weights.mutable_data<uint32_t>();
  ForBlocks(filter.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      weight[i] = static_cast<uint32_t>(int32_t{of_weights[i]}) - filter_zero;
    }
  });
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, shape));
  if (shape.num_elements() > 0) {
    const auto* from = static_cast<const uint8_t*>(input.raw());
    auto* to = static_cast<uint32_t*>(out->mutable_raw());
    const auto cost = static_cast<double>(std::max<int64_t>(s.filter_elements(), 1));
    const auto grain = static_cast<int64_t>(64 * 1024 / cost) + 1;
    ParallelFor(s.batch * s.rows.output * s.cols.output, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !WorkIsCutAt(i - begin, kDearItems); ++i) {
        ConvolvePixel(s, from, zero, weight, i, to + i * s.out_channels);
      }
    });
  }
  return OutputRange(ctx, RangeOfProducts<uint8_t, F>(of_input, of_filter));
}

absl::StatusOr<KernelFn> MakeConvolution(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, QuantizedConvAttrs(init.attrs()));
  const absl::Span<const DType> dtypes = init.input_dtypes();
  if (dtypes[0] == DType::kQuint8 && init.output_dtypes()[0] == DType::kQint32) {
    if (dtypes[1] == DType::kQuint8) {
      return KernelFn([attrs](KernelContext& ctx) { return Convolve<uint8_t>(ctx, attrs); });
    }
    if (dtypes[1] == DType::kQint8) {
      return KernelFn([attrs](KernelContext& ctx) { return Convolve<int8_t>(ctx, attrs); });
    }
  }
  return Unimplemented("QuantizedConv2D: ", DTypeName(dtypes[0]), " by ", DTypeName(dtypes[1]),
                       " is not supported");
}

}  // namespace

void RegisterQuantizedPoolKernels(KernelRegistry& registry) {
  registry.Add("QuantizedConcat", MakeConcat);
  registry.Add("QuantizedReshape", MakeReshape);
  registry.Add("QuantizedMaxPool", MakePool<true>);
  registry.Add("QuantizedAvgPool", MakePool<false>);
  registry.Add("QuantizedConv2D", MakeConvolution);
}

}  // namespace formwork
