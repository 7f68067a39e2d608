// Arithmetic with quantized values of ranges: products, sums, activations, and other ranges.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/nn/nn_quantized.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/matmul.h"
#include "core/ops/quantized.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 1 << 14;

absl::Status NotThere(KernelInit& init) {
  std::string dtypes;
  for (const DType dtype : init.input_dtypes()) absl::StrAppend(&dtypes, " ", DTypeName(dtype));
  return Unimplemented(init.op().name, ": dtypes", dtypes, " to ",
                       DTypeName(init.output_dtypes()[0]), " are not supported");
}

// Inputs `min` and `min` + 1 as a range.
absl::StatusOr<QuantizedRange> RangeAt(KernelContext& ctx, int min, absl::string_view name) {
  for (const int i : {min, min + 1}) {
    if (ctx.input(i).rank() == 0) continue;
    return InvalidArgument("`", i == min ? "min_" : "max_", name, "` must be rank 0 but is rank ",
                           ctx.input(i).rank());
  }
  return QuantizedRange{ctx.input(min).scalar<float>(), ctx.input(min + 1).scalar<float>()};
}

// That it has a length.
absl::Status CheckAscends(QuantizedRange range, absl::string_view name) {
  if (range.max > range.min) return absl::OkStatus();
  return InvalidArgument("max_", name, " must be larger than min_", name, ".");
}

absl::Status OutputRange(KernelContext& ctx, QuantizedRange range) {
  ctx.SetOutput(1, Tensor::Scalar(range.min));
  ctx.SetOutput(2, Tensor::Scalar(range.max));
  return absl::OkStatus();
}

// dst[i] = f(src[i]).
template <typename From, typename To, typename F>
void ForEach(const Tensor& from, Tensor& to, const F& f) {
  const From* src = static_cast<const From*>(from.raw());
  To* dst = static_cast<To*>(to.mutable_raw());
  ParallelFor(from.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dst[i] = f(src[i]);
  });
}

// --- QuantizedMatMul -----------------------------------------------------------------------------

absl::StatusOr<Tensor> LessOffset(Allocator& allocator, const Tensor& from, QuantizedRange range) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(allocator, DType::kUint32, from.shape()));
  const auto offset = static_cast<uint32_t>(ToQuantizedUnclamped<uint8_t>(0.0f, range));
  ForEach<uint8_t, uint32_t>(from, wide, [offset](uint8_t x) { return uint32_t{x} - offset; });
  return wide;
}

absl::StatusOr<KernelFn> MakeMatMul(KernelInit& init) {
  if (init.input_dtypes()[0] != DType::kQuint8 || init.input_dtypes()[1] != DType::kQuint8 ||
      init.output_dtypes()[0] != DType::kQint32) {
    return NotThere(init);
  }
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfMatMul(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const bool flip_a, init.attrs().Get<bool>("transpose_a"));
  FORMWORK_ASSIGN_OR_RETURN(const bool flip_b, init.attrs().Get<bool>("transpose_b"));
  return KernelFn([attrs, flip_a, flip_b](KernelContext& ctx) -> absl::Status {
    const Tensor a = ctx.input(0), b = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_a, RangeAt(ctx, 2, "a"));
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_b, RangeAt(ctx, 4, "b"));
    FORMWORK_RETURN_IF_ERROR(CheckAscends(of_a, "a"));
    FORMWORK_RETURN_IF_ERROR(CheckAscends(of_b, "b"));
    FORMWORK_ASSIGN_OR_RETURN(const ProductGeometry s,
                              PrepareMatMul(attrs, a.shape().dims(), b.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor wide_a, LessOffset(ctx.allocator(), a, of_a));
    FORMWORK_ASSIGN_OR_RETURN(Tensor wide_b, LessOffset(ctx.allocator(), b, of_b));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, shape));
    Gemm(flip_a, flip_b, s.m, s.n, s.k, wide_a.data<uint32_t>(), a.dim(1), wide_b.data<uint32_t>(),
         b.dim(1), 0u, static_cast<uint32_t*>(out->mutable_raw()), s.n);
    return OutputRange(ctx, RangeOfProducts<uint8_t, uint8_t>(of_a, of_b));
  });
}

// --- QuantizedAdd, QuantizedMul ------------------------------------------------------------------

// out[i] = f(x[i], y[i]), of values that are broadcast.
template <typename F>
absl::Status Combine(KernelContext& ctx, const F& f) {
  const Tensor x = ctx.input(0), y = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(x.shape(), y.shape()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const Operand of_x(x.raw(), 1, x.shape(), shape), of_y(y.raw(), 1, y.shape(), shape);
  auto* to = static_cast<uint32_t*>(out->mutable_raw());
  ParallelFor(shape.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    uint8_t room_x[kBlockElements], room_y[kBlockElements];
    for (; begin < end; begin += kBlockElements) {
      const int64_t n = std::min(kBlockElements, end - begin);
      const auto* run_x = static_cast<const uint8_t*>(of_x.Run(begin, n, room_x));
      const auto* run_y = static_cast<const uint8_t*>(of_y.Run(begin, n, room_y));
      for (int64_t i = 0; i < n; ++i) to[begin + i] = f(run_x[i], run_y[i]);
    }
  });
  return absl::OkStatus();
}

// What each of the integers is in another range. Of several TensorFlow says it as so many whole
// steps from the first; of `one`, as exactly as it can.
std::vector<uint32_t> TermsOf(QuantizedRange from, QuantizedRange to, bool one) {
  const auto unclamped = [from, to](int x) {
    return ToQuantizedUnclamped<int32_t>(FromQuantized(static_cast<uint8_t>(x), from), to);
  };
  constexpr int64_t kLowest = std::numeric_limits<int32_t>::min();
  constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
  const auto first = static_cast<int32_t>(unclamped(0));
  const auto step = math::Sub(static_cast<int32_t>(unclamped(1)), first);
  std::vector<uint32_t> terms;
  for (int i = 0; i < 256; ++i) {
    const int64_t term = one ? unclamped(i) : int64_t{first} + int64_t{i} * step;
    terms.push_back(static_cast<uint32_t>(std::clamp(term, kLowest, kHighest)));
  }
  return terms;
}

// TensorFlow broadcasts scalars, and rows along the last dimensions, alone.
template <bool kProduct>
absl::StatusOr<KernelFn> MakeCombine(KernelInit& init) {
  if (init.input_dtypes()[0] != DType::kQuint8 || init.input_dtypes()[1] != DType::kQuint8 ||
      init.output_dtypes()[0] != DType::kQint32) {
    return NotThere(init);
  }
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_x, RangeAt(ctx, 2, "x"));
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_y, RangeAt(ctx, 4, "y"));
    FORMWORK_RETURN_IF_ERROR(CheckAscends(of_x, "x"));
    FORMWORK_RETURN_IF_ERROR(CheckAscends(of_y, "y"));
    if constexpr (kProduct) {
      const auto offset_x = static_cast<uint32_t>(ToQuantizedUnclamped<uint8_t>(0.0f, of_x));
      const auto offset_y = static_cast<uint32_t>(ToQuantizedUnclamped<uint8_t>(0.0f, of_y));
      FORMWORK_RETURN_IF_ERROR(Combine(ctx, [offset_x, offset_y](uint8_t x, uint8_t y) {
        return (x - offset_x) * (y - offset_y);
      }));
      return OutputRange(ctx, RangeOfProducts<uint8_t, uint8_t>(of_x, of_y));
    } else {
      const QuantizedRange range = RangeOfSums(of_x, of_y, 1 << 14);
      const bool one_x = ctx.input(0).num_elements() == 1;
      const bool one_y = !one_x && ctx.input(1).num_elements() == 1;
      const std::vector<uint32_t> terms_x = TermsOf(of_x, range, one_x);
      const std::vector<uint32_t> terms_y = TermsOf(of_y, range, one_y);
      FORMWORK_RETURN_IF_ERROR(
          Combine(ctx, [&](uint8_t x, uint8_t y) { return terms_x[x] + terms_y[y]; }));
      return OutputRange(ctx, range);
    }
  });
}

// --- QuantizedBiasAdd ----------------------------------------------------------------------------

template <typename T>
absl::Status AddBias(KernelContext& ctx) {
  const Tensor input = ctx.input(0), bias = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_input, RangeAt(ctx, 2, "input"));
  FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange of_bias, RangeAt(ctx, 4, "bias"));
  FORMWORK_RETURN_IF_ERROR(CheckQuantizedBias(input.shape().dims(), bias.shape().dims()));
  const QuantizedRange range = RangeOfSums(of_input, of_bias, 1 << 17);
  const Dequantizer<T> from_input(of_input), from_bias(of_bias);
  const Quantizer<int32_t> to_sum(range);
  const auto zero = static_cast<uint32_t>(ToQuantized<int32_t>(0.0f, range));
  FORMWORK_ASSIGN_OR_RETURN(Tensor terms,
                            Tensor::Allocate(ctx.allocator(), DType::kUint32, bias.shape()));
  ForEach<T, uint32_t>(bias, terms,
                       [&](T x) { return static_cast<uint32_t>(to_sum(from_bias(x))) + zero; });
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, input.shape()));
  const T* from = static_cast<const T*>(input.raw());
  auto* to = static_cast<uint32_t*>(out->mutable_raw());
  const uint32_t* term = terms.data<uint32_t>();
  const int64_t width = bias.num_elements();
  ParallelFor(input.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<uint32_t>(to_sum(from_input(from[i]))) + term[i % width];
    }
  });
  return OutputRange(ctx, range);
}

absl::StatusOr<KernelFn> MakeBiasAdd(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (init.input_dtypes()[1] != dtype || init.output_dtypes()[0] != DType::kQint32) {
    return NotThere(init);
  }
  if (dtype == DType::kQuint8) return KernelFn(AddBias<uint8_t>);
  if (dtype == DType::kQint8) return KernelFn(AddBias<int8_t>);
  return NotThere(init);
}

// --- QuantizedRelu, QuantizedRelu6 ---------------------------------------------------------------

template <typename T>
absl::Status Relu(KernelContext& ctx, bool six) {
  FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange range, RangeAt(ctx, 1, "input"));
  const Tensor features = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out,
                            ctx.AllocateOutput(0, features.dtype(), features.shape()));
  const T low = ToQuantized<T>(0.0f, range);
  const T high = six ? ToQuantized<T>(6.0f, range) : std::numeric_limits<T>::max();
  ForEach<T, T>(features, *out, [low, high](T x) { return std::min(std::max(x, low), high); });
  return OutputRange(ctx, range);
}

template <bool kSix>
absl::StatusOr<KernelFn> MakeRelu(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (init.output_dtypes()[0] != dtype) return NotThere(init);
  if (dtype == DType::kQuint8) {
    return KernelFn([](KernelContext& ctx) { return Relu<uint8_t>(ctx, kSix); });
  }
  if (dtype == DType::kQint32) {
    return KernelFn([](KernelContext& ctx) { return Relu<int32_t>(ctx, kSix); });
  }
  return NotThere(init);
}

// --- Requantize, RequantizationRange, QuantizeDownAndShrinkRange ---------------------------------

// In fixed point, as TensorFlow does it: what overflows wraps around.
void Requantize(const Tensor& input, QuantizedRange from, QuantizedRange to, uint8_t* out) {
  constexpr double kOne = 1 << 16;
  const float input_range = from.max - from.min, output_range = to.max - to.min;
  const float reciprocal = output_range == 0.0f ? 0.0f : static_cast<float>(255.0 / output_range);
  const auto middle = static_cast<float>((from.min + from.max) / 2.0);
  const int64_t scale =
      output_range == 0.0f ? 0 : ToInt64(255.0 * kOne * input_range / output_range);
  const int64_t input_offset = ToInt64(middle * reciprocal * static_cast<float>(kOne));
  const int64_t output_offset =
      output_range == 0.0f ? 0 : ToInt64(kOne * (to.min * 255.0) / output_range);
  const uint64_t offset = static_cast<uint64_t>(input_offset) -
                          static_cast<uint64_t>(output_offset) + (uint64_t{1} << 15);
  const auto* x = static_cast<const int32_t*>(input.raw());
  ParallelFor(input.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto product =
          static_cast<int64_t>(static_cast<uint64_t>(int64_t{x[i]}) * static_cast<uint64_t>(scale));
      const auto sum = static_cast<int64_t>(static_cast<uint64_t>(product >> 32) + offset);
      out[i] = static_cast<uint8_t>(std::clamp<int64_t>(sum >> 16, 0, 255));
    }
  });
}

absl::Status Requantize(const Tensor& input, QuantizedRange from, QuantizedRange to, Tensor& out) {
  if (out.dtype() == DType::kQuint8) {
    Requantize(input, from, to, static_cast<uint8_t*>(out.mutable_raw()));
    return absl::OkStatus();
  }
  const Dequantizer<int32_t> dequantize(from);
  const Quantizer<int8_t> quantize(to);
  ForEach<int32_t, int8_t>(input, out, [&](int32_t x) { return quantize(dequantize(x)); });
  return absl::OkStatus();
}

// The range that the values take.
absl::StatusOr<QuantizedRange> RangeOf(const Tensor& input, QuantizedRange from) {
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t most = std::numeric_limits<int32_t>::min();
  const auto* x = static_cast<const int32_t*>(input.raw());
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    least = std::min(least, x[i]);
    most = std::max(most, x[i]);
  }
  // 0 is in it.
  return QuantizedRange{std::min(0.0f, FromQuantized(least, from)), FromQuantized(most, from)};
}

absl::StatusOr<KernelFn> MakeRequantize(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (init.input_dtypes()[0] != DType::kQint32 ||
      (dtype != DType::kQuint8 && dtype != DType::kQint8)) {
    return NotThere(init);
  }
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange from, RangeAt(ctx, 1, "input"));
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange to, RangeAt(ctx, 3, "output"));
    if (!(to.min <= 0.0f)) {
      return InvalidArgument("requested_output_min must be <= 0, but got ", to.min);
    }
    if (!(to.max >= to.min)) {
      return InvalidArgument("requested_output_max must be >= requested_output_min, but got ",
                             to.max, " and ", to.min);
    }
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, input.shape()));
    FORMWORK_RETURN_IF_ERROR(Requantize(input, from, to, *out));
    return OutputRange(ctx, to);
  });
}

absl::StatusOr<KernelFn> MakeShrink(KernelInit& init) {
  if (init.input_dtypes()[0] != DType::kQint32 || init.output_dtypes()[0] != DType::kQuint8) {
    return NotThere(init);
  }
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange from, RangeAt(ctx, 1, "input"));
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange to, RangeOf(input, from));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQuint8, input.shape()));
    FORMWORK_RETURN_IF_ERROR(Requantize(input, from, to, *out));
    return OutputRange(ctx, to);
  });
}

absl::StatusOr<KernelFn> MakeRange(KernelInit& init) {
  if (init.input_dtypes()[0] != DType::kQint32) return NotThere(init);
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    // Of a range of more numbers TensorFlow takes the first.
    for (const int i : {1, 2}) {
      if (ctx.input(i).num_elements() > 0) continue;
      return InvalidArgument(i == 1 ? "input_min" : "input_max", " must not be empty");
    }
    const QuantizedRange from = {ctx.input(1).data<float>()[0], ctx.input(2).data<float>()[0]};
    FORMWORK_ASSIGN_OR_RETURN(const QuantizedRange range, RangeOf(ctx.input(0), from));
    ctx.SetOutput(0, Tensor::Scalar(range.min));
    ctx.SetOutput(1, Tensor::Scalar(range.max));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterQuantizedKernels(KernelRegistry& registry) {
  registry.Add("QuantizedMatMul", MakeMatMul);
  registry.Add("QuantizedAdd", MakeCombine<false>);
  registry.Add("QuantizedMul", MakeCombine<true>);
  registry.Add("QuantizedBiasAdd", MakeBiasAdd);
  registry.Add("QuantizedRelu", MakeRelu<false>);
  registry.Add("QuantizedRelu6", MakeRelu<true>);
  registry.Add("Requantize", MakeRequantize);
  registry.Add("QuantizeDownAndShrinkRange", MakeShrink);
  registry.Add("RequantizationRange", MakeRange);
}

}  // namespace formwork
