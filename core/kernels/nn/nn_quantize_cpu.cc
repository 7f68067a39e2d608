// Values as small integers, and back: QuantizeV2, Dequantize, and both at once
// (QuantizeAndDequantize), each over a range for all values or for each channel.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/widen.h"
#include "core/ops/quantize.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 1 << 14;

// Calls run(begin, end, c) for the stretches of elements that belong to a channel.
template <typename Run>
void ForStretches(const ChannelGeometry& geometry, const Run& run) {
  const int64_t stretches = geometry.outer * geometry.channels;
  if (stretches == 0 || geometry.inner == 0) return;
  if (stretches == 1) {
    ParallelFor(geometry.inner, kTask, [&](int64_t begin, int64_t end) { run(begin, end, 0); });
    return;
  }
  const int64_t grain = std::max<int64_t>(kTask / geometry.inner, 1);
  ParallelFor(stretches, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !WorkIsCutAt(i - begin, kDearItems); ++i) {
      run(i * geometry.inner, (i + 1) * geometry.inner, i % geometry.channels);
    }
  });
}

// --- QuantizeAndDequantize -----------------------------------------------------------------------

// A channel's.
template <typename T>
struct Steps {
  T min, max, scale, inverse;
};

template <typename T>
Steps<T> StepsOf(const RoundTripAttrs& attrs, int64_t bits, T min, T max) {
  const int64_t middle = int64_t{1} << (bits - 1);
  const int64_t lowest = attrs.signed_input ? -middle + (attrs.narrow_range ? 1 : 0) : 0;
  const int64_t highest = attrs.signed_input ? middle - 1 : 2 * middle - 1;
  const T low = static_cast<T>(lowest), high = static_cast<T>(highest);
  const T none = std::numeric_limits<T>::max();
  auto side = [&](T step, T end) { return step * end > 0 ? step / end : none; };
  const T of_min = side(low, min), of_max = side(high, max);
  if (of_min < of_max) {
    const T inverse = min / low;
    return {min, high * inverse, of_min, inverse};
  }
  const T inverse = max / high;
  return {low * inverse, max, of_max, inverse};
}

template <typename T>
T Rounded(bool half_up, T x) {
  return half_up ? std::floor(x + T(0.5)) : std::nearbyint(x);
}

template <typename T>
absl::Status RoundTrip(KernelContext& ctx, const RoundTripAttrs& attrs, int64_t bits,
                       const Tensor& low, const Tensor& high) {
  const Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(
      const ChannelGeometry geometry,
      PrepareChannels(attrs.axis, input.shape().dims(), low.shape().dims(), high.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), input.shape()));
  const T* from = input.data<T>();
  T* to = output->mutable_data<T>();
  std::vector<Steps<T>> steps;
  for (int64_t c = 0; c < geometry.channels; ++c) {
    T min = low.data<T>()[c];
    T max = high.data<T>()[c];
    if (attrs.range_given && min > max) {
      return InvalidArgument("Invalid range: input_min ", min, " > input_max ", max);
    }
    if (!attrs.range_given && input.num_elements() > 0) {
      min = max = from[c * geometry.inner];
      for (int64_t o = 0; o < geometry.outer; ++o) {
        const T* at = from + (o * geometry.channels + c) * geometry.inner;
        for (int64_t i = 0; i < geometry.inner; ++i) {
          if (WorkIsCutAt(o * geometry.inner + i)) return WorkStatus();
          min = std::min(min, at[i]);
          max = std::max(max, at[i]);
        }
      }
    }
    steps.push_back(StepsOf<T>(attrs, bits, min, max));
  }
  ForStretches(geometry, [&](int64_t begin, int64_t end, int64_t c) {
    const Steps<T> step = steps[static_cast<size_t>(c)];
    for (int64_t i = begin; i < end; ++i) {
      T x = from[i];
      if (attrs.range_given) x = std::max(std::min(x, step.max), step.min);
      to[i] = static_cast<T>(Rounded<T>(attrs.half_up, x * step.scale) * step.inverse);
    }
  });
  return absl::OkStatus();
}

// The third version has the number of bits as an input.
absl::StatusOr<KernelFn> MakeRoundTrip(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const RoundTripAttrs attrs, RoundTripAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    int64_t bits = attrs.num_bits;
    if (ctx.num_inputs() == 4) {
      if (ctx.input(3).num_elements() != 1) {
        return InvalidArgument("num_bits must be a scalar: ", ctx.input(3).shape().ToString());
      }
      bits = ctx.input(3).scalar<int32_t>();
      FORMWORK_RETURN_IF_ERROR(CheckRoundTripBits(attrs.signed_input, bits));
    }
    // Where the range is that of the values, the range that is given is not looked at.
    auto run = [&](auto zero) -> absl::Status {
      using T = decltype(zero);
      if (attrs.range_given) return RoundTrip<T>(ctx, attrs, bits, ctx.input(1), ctx.input(2));
      const int64_t rank = ctx.input(0).rank();
      const int64_t count =
          attrs.axis < 0 || attrs.axis >= rank ? 1 : ctx.input(0).dim(static_cast<int>(attrs.axis));
      FORMWORK_ASSIGN_OR_RETURN(
          Tensor none, Tensor::Allocate(ctx.allocator(), ctx.input(0).dtype(), Shape{count}));
      std::fill_n(none.mutable_data<T>(), count, T(0));
      return RoundTrip<T>(ctx, attrs, bits, none, none);
    };
    switch (ctx.input(0).dtype()) {
      FORMWORK_CASE(float, return run(T(0)))
      FORMWORK_CASE(double, return run(T(0)))
      default:
        return Unimplemented("QuantizeAndDequantize: dtype ", DTypeName(ctx.input(0).dtype()),
                             " is not supported");
    }
  });
}

// The gradient passes where a value lies within the range; the range gets none.
absl::StatusOr<KernelFn> MakeRoundTripGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t axis, init.attrs().Get<int64_t>("axis"));
  return KernelFn([axis](KernelContext& ctx) -> absl::Status {
    const Tensor gradient = ctx.input(0), input = ctx.input(1);
    const Tensor low = ctx.input(2), high = ctx.input(3);
    if (gradient.shape() != input.shape()) {
      return InvalidArgument("gradient and input must be the same size");
    }
    FORMWORK_ASSIGN_OR_RETURN(
        const ChannelGeometry geometry,
        PrepareChannels(axis, input.shape().dims(), low.shape().dims(), high.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), input.shape()));
    auto run = [&](auto zero) {
      using T = decltype(zero);
      T* to = output->mutable_data<T>();
      ForStretches(geometry, [&](int64_t begin, int64_t end, int64_t c) {
        const T min = low.data<T>()[c];
        const T max = high.data<T>()[c];
        for (int64_t i = begin; i < end; ++i) {
          const T x = input.data<T>()[i];
          to[i] = x >= min && x <= max ? gradient.data<T>()[i] : zero;
        }
      });
    };
    switch (input.dtype()) {
      FORMWORK_CASE(float, run(T(0)))
      FORMWORK_CASE(double, run(T(0)))
      default:
        return Unimplemented("QuantizeAndDequantizeV4Grad: dtype ", DTypeName(input.dtype()),
                             " is not supported");
    }
    for (int i : {1, 2}) {
      const Tensor& range = ctx.input(i + 1);
      FORMWORK_ASSIGN_OR_RETURN(Tensor * none, ctx.AllocateOutput(i, range.dtype(), range.shape()));
      std::fill_n(static_cast<char*>(none->mutable_raw()), none->bytes(), 0);
    }
    return absl::OkStatus();
  });
}

// --- QuantizeV2 and Dequantize -------------------------------------------------------------------

// Calls run(T()) with the integer that holds elements of a quantized dtype.
template <typename Run>
absl::Status WithStorage(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kQint8:
      return run(int8_t());
    case DType::kQuint8:
      return run(uint8_t());
    case DType::kQint16:
      return run(int16_t());
    case DType::kQuint16:
      return run(uint16_t());
    case DType::kQint32:
      return run(int32_t());
    default:
      return Unimplemented("quantization of dtype ", DTypeName(dtype), " is not supported");
  }
}

// As the processor converts: what does not fit becomes the lowest.
template <typename T>
T Integer(float x) {
  constexpr float kEnd = static_cast<float>(int64_t{1} << 31);
  return static_cast<T>(x >= -kEnd && x < kEnd ? static_cast<int32_t>(x)
                                               : std::numeric_limits<int32_t>::min());
}

template <typename T>
struct Limits {
  static constexpr float kLow = static_cast<float>(std::numeric_limits<T>::min());
  static constexpr float kHigh = static_cast<float>(std::numeric_limits<T>::max());
  static constexpr double kSteps = static_cast<double>(std::numeric_limits<T>::max()) -
                                   static_cast<double>(std::numeric_limits<T>::min()) + 1;
  static constexpr float kHalf = std::is_signed_v<T> ? static_cast<float>(kSteps / 2) : 0.0f;
};

template <typename T>
void QuantizeStretch(const QuantizeAttrs& attrs, const float* from, int64_t n, float min, float max,
                     float scale, T* to) {
  using L = Limits<T>;
  for (int64_t i = 0; i < n; ++i) {
    const float x = std::max(std::min(from[i], max), min);
    switch (attrs.mode) {
      case QuantizeMode::kMinCombined:
        to[i] = Integer<T>(std::round((x - min) * scale - L::kHalf));
        break;
      case QuantizeMode::kMinFirst: {
        const float steps = std::round(from[i] * scale) - (std::round(min * scale) - L::kLow);
        to[i] = Integer<T>(std::min(std::max(steps, L::kLow), L::kHigh));
        break;
      }
      case QuantizeMode::kScaled:
        to[i] = Integer<T>(attrs.half_to_even ? std::nearbyint(x * scale) : std::round(x * scale));
        break;
    }
  }
}

template <typename T>
absl::Status Quantize(KernelContext& ctx, const QuantizeAttrs& attrs, DType dtype) {
  using L = Limits<T>;
  const Tensor input = ctx.input(0);
  const Tensor lows = ctx.input(1), highs = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(
      const ChannelGeometry geometry,
      PrepareChannels(attrs.axis, input.shape().dims(), lows.shape().dims(), highs.shape().dims()));
  const Shape range_shape = attrs.axis < 0 ? Shape() : Shape{geometry.channels};
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, input.shape()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * mins, ctx.AllocateOutput(1, DType::kFloat, range_shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * maxs, ctx.AllocateOutput(2, DType::kFloat, range_shape));
  std::vector<float> scales;
  for (int64_t c = 0; c < geometry.channels; ++c) {
    const float low = lows.data<float>()[c], high = highs.data<float>()[c];
    if (low > high) {
      return InvalidArgument("input_max_range must be larger than input_min_range.");
    }
    const float least =
        std::max({1.0f, std::abs(low), std::abs(high)}) * attrs.ensure_minimum_range;
    float min = std::min(0.0f, low);
    float max = std::max(0.0f, std::max(high, min + least));
    float scale;
    if (attrs.mode == QuantizeMode::kScaled) {
      const float lowest = L::kLow + (attrs.narrow_range ? 1.0f : 0.0f);
      constexpr float kNone = std::numeric_limits<float>::max();
      const float of_min = lowest * min > 0 ? lowest / min : kNone;
      const float of_max = L::kHigh * max > 0 ? L::kHigh / max : kNone;
      scale = std::min(of_min, of_max);
      min = lowest / scale;
      max = L::kHigh / scale;
    } else if (attrs.mode == QuantizeMode::kMinFirst) {
      scale = static_cast<float>((L::kSteps - 1) /
                                 (static_cast<double>(max) - static_cast<double>(min)));
    } else {
      scale = static_cast<float>(L::kSteps - 1) / (max - min);
    }
    mins->mutable_data<float>()[c] = min;
    maxs->mutable_data<float>()[c] = max;
    scales.push_back(scale);
  }
  T* to = static_cast<T*>(output->mutable_raw());
  ForStretches(geometry, [&](int64_t begin, int64_t end, int64_t c) {
    QuantizeStretch<T>(attrs, input.data<float>() + begin, end - begin, mins->data<float>()[c],
                       maxs->data<float>()[c], scales[static_cast<size_t>(c)], to + begin);
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeQuantize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const QuantizeAttrs attrs, QuantizeAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([attrs, dtype](KernelContext& ctx) {
    return WithStorage(dtype,
                       [&](auto zero) { return Quantize<decltype(zero)>(ctx, attrs, dtype); });
  });
}

// What a channel's integers stand for: (x - origin) * scale + offset.
struct Scale {
  float origin, scale, offset;
};

template <typename T>
Scale ScaleOf(const QuantizeAttrs& attrs, float min, float max) {
  using L = Limits<T>;
  if (attrs.mode == QuantizeMode::kScaled) {
    const float of_max = max / L::kHigh;
    if (std::is_unsigned_v<T>) return {0, of_max, 0};
    const float lowest = L::kLow + (attrs.narrow_range ? 1.0f : 0.0f);
    return {0, std::max(min / lowest, of_max), 0};
  }
  if (attrs.mode == QuantizeMode::kMinCombined) {
    return {-L::kHalf, (max - min) / static_cast<float>(L::kSteps - 1), min};
  }
  const float step =
      static_cast<float>((static_cast<double>(max) - static_cast<double>(min)) / (L::kSteps - 1));
  return {L::kLow, step, min == max ? min : std::round(min / step) * step};
}

template <typename T>
absl::Status Dequantize(KernelContext& ctx, const QuantizeAttrs& attrs, DType dtype) {
  const Tensor input = ctx.input(0);
  const Tensor lows = ctx.input(1), highs = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(
      const ChannelGeometry geometry,
      PrepareChannels(attrs.axis, input.shape().dims(), lows.shape().dims(), highs.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, input.shape()));
  const T* from = static_cast<const T*>(input.raw());
  ForStretches(geometry, [&](int64_t begin, int64_t end, int64_t c) {
    const Scale scale = ScaleOf<T>(attrs, lows.data<float>()[c], highs.data<float>()[c]);
    constexpr int64_t kRun = 512;
    float run[kRun];
    for (; begin < end; begin += kRun) {
      const int64_t n = std::min(kRun, end - begin);
      for (int64_t i = 0; i < n; ++i) {
        run[i] = (static_cast<float>(from[begin + i]) - scale.origin) * scale.scale + scale.offset;
      }
      NarrowTo(dtype, run, n,
               static_cast<char*>(output->mutable_raw()) +
                   static_cast<size_t>(begin) * DTypeSize(dtype));
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDequantize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const QuantizeAttrs attrs, QuantizeAttrs::FromAttrs(init.attrs()));
  const DType from = init.input_dtypes()[0], to = init.output_dtypes()[0];
  return KernelFn([attrs, from, to](KernelContext& ctx) {
    return WithStorage(from, [&](auto zero) { return Dequantize<decltype(zero)>(ctx, attrs, to); });
  });
}

}  // namespace

void RegisterQuantizeKernels(KernelRegistry& registry) {
  for (const char* name :
       {"QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"}) {
    registry.Add(name, MakeRoundTrip);
  }
  registry.Add("QuantizeAndDequantizeV4Grad", MakeRoundTripGrad);
  registry.Add("QuantizeV2", MakeQuantize);
  registry.Add("Dequantize", MakeDequantize);
}

}  // namespace formwork
