// Values quantized by scales and zero points, for all of a tensor or along an axis:
// UniformQuantize and its like.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/nn/nn_quantized.h"
#include "core/ops/dims.h"
#include "core/ops/quantized.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 1 << 14;

// The quantization of a tensor: which scale and zero point is an element's.
struct Uniform {
  float scale(int64_t channel) const { return scales.data<float>()[channel]; }
  int32_t zero(int64_t channel) const { return zeros.data<int32_t>()[channel]; }
  int64_t ChannelOf(int64_t element) const { return element / inner % channels; }
  int32_t Clamped(int32_t x) const {
    return static_cast<int32_t>(std::max<int64_t>(std::min<int64_t>(x, attrs.max), attrs.min));
  }

  UniformAttrs attrs;
  Tensor scales, zeros;
  int64_t channels = 1;
  int64_t inner = 1;  // Elements behind the axis.
};

absl::StatusOr<Uniform> UniformAt(KernelContext& ctx, const UniformAttrs& attrs, int scales,
                                  const Shape& shape) {
  Uniform uniform;
  uniform.attrs = attrs;
  uniform.scales = ctx.input(scales);
  uniform.zeros = ctx.input(scales + 1);
  FORMWORK_RETURN_IF_ERROR(CheckUniform(attrs, shape.dims(), uniform.scales.shape().dims(),
                                        uniform.zeros.shape().dims()));
  if (attrs.axis < 0) return uniform;
  const absl::Span<const int64_t> dims = shape.dims();
  uniform.channels = dims[static_cast<size_t>(attrs.axis)];
  // The other dimensions of an empty value may be too large to multiply.
  if (shape.num_elements() == 0) return uniform;
  for (const int64_t size : dims.subspan(static_cast<size_t>(attrs.axis) + 1)) {
    uniform.inner *= size;
  }
  return uniform;
}

absl::Status CheckPositive(const Uniform& uniform, absl::string_view whose) {
  for (int64_t c = 0; c < uniform.scales.num_elements(); ++c) {
    if (WorkIsCutAt(c)) return WorkStatus();
    if (uniform.scale(c) > 0 && std::isfinite(uniform.scale(c))) continue;
    return InvalidArgument(whose, " scales elements must be all positive.");
  }
  return absl::OkStatus();
}

// --- Multiplication by a real number in fixed point ----------------------------------------------

struct FixedPoint {
  int64_t multiplier = 0;
  int shift = 31;  // To the right.

  int32_t Of(int32_t x) const {
    const int64_t round = shift > 0 ? int64_t{1} << (shift - 1) : 0;
    return static_cast<int32_t>((x * multiplier + round) >> shift);
  }
};

absl::StatusOr<FixedPoint> FixedPointOf(double factor) {
  if (!std::isfinite(factor) || factor <= 0) {
    return InvalidArgument("double_multiplier must be a poisitive finite number. Given ", factor);
  }
  constexpr int64_t kOne = int64_t{1} << 31;
  int exponent = 0;
  int64_t multiplier = std::llround(std::frexp(factor, &exponent) * static_cast<double>(kOne));
  if (multiplier == kOne) {
    multiplier /= 2;
    ++exponent;
  }
  if (exponent < -31) {  // Nothing of the product is left.
    exponent = 0;
    multiplier = 0;
  }
  if (exponent > 30) {
    exponent = 30;
    multiplier = kOne - 1;
  }
  return FixedPoint{multiplier, 31 - exponent};
}

// From each channel of one quantization to each of another.
class Rescaling {
 public:
  static absl::StatusOr<Rescaling> Of(const Uniform& from, const Uniform& to) {
    Rescaling made(from, to);
    for (int64_t c = 0; c < from.channels; ++c) {
      if (to.channels > 1 && from.channels > 1) {
        FORMWORK_RETURN_IF_ERROR(made.Add(c, c));
        continue;
      }
      for (int64_t d = 0; d < to.channels; ++d) {
        if (WorkIsCutAt(d)) return WorkStatus();
        FORMWORK_RETURN_IF_ERROR(made.Add(c, d));
      }
    }
    return made;
  }
  // Not clamped yet.
  int32_t operator()(int32_t x, int64_t from, int64_t to) const {
    const FixedPoint& factor = factors_[static_cast<size_t>(std::max(from, to))];
    return math::Add<int32_t>(factor.Of(math::Sub<int32_t>(x, from_.zero(from))), to_.zero(to));
  }

 private:
  Rescaling(const Uniform& from, const Uniform& to) : from_(from), to_(to) {}
  absl::Status Add(int64_t from, int64_t to) {
    FORMWORK_ASSIGN_OR_RETURN(const FixedPoint factor,
                              FixedPointOf(static_cast<double>(from_.scale(from)) / to_.scale(to)));
    factors_.push_back(factor);
    return absl::OkStatus();
  }

  const Uniform& from_;
  const Uniform& to_;
  std::vector<FixedPoint> factors_;  // By the channel of the one that has several.
};

// Calls run(T()) with the integer of a dtype.
template <typename Run>
absl::Status WithInteger(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kQint8:
      return run(int8_t());
    case DType::kQuint8:
      return run(uint8_t());
    case DType::kQint32:
      return run(int32_t());
    default:
      return Unimplemented("uniform quantization: dtype ", DTypeName(dtype), " is not supported");
  }
}

// --- UniformQuantize, UniformDequantize, UniformRequantize ---------------------------------------

absl::StatusOr<KernelFn> MakeQuantize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UniformAttrs attrs, UniformAttrs::FromAttrs(init.attrs(), ""));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Uniform uniform, UniformAt(ctx, attrs, 1, input.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, input.shape()));
    return WithInteger(dtype, [&](auto integer) {
      using T = decltype(integer);
      T* to = static_cast<T*>(out->mutable_raw());
      ParallelFor(input.num_elements(), kTask, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = uniform.ChannelOf(i);
          const float inverse = 1.0f / uniform.scale(c);
          const float steps = std::floor(input.data<float>()[i] * inverse + 0.5f);
          to[i] =
              static_cast<T>(uniform.Clamped(math::Add<int32_t>(ToInt32(steps), uniform.zero(c))));
        }
      });
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<KernelFn> MakeDequantize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UniformAttrs attrs, UniformAttrs::FromAttrs(init.attrs(), ""));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Uniform uniform, UniformAt(ctx, attrs, 1, input.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, input.shape()));
    return WithInteger(input.dtype(), [&](auto integer) {
      using T = decltype(integer);
      const T* from = static_cast<const T*>(input.raw());
      float* to = out->mutable_data<float>();
      ParallelFor(input.num_elements(), kTask, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = uniform.ChannelOf(i);
          to[i] =
              static_cast<float>(math::Sub<int32_t>(from[i], uniform.zero(c))) * uniform.scale(c);
        }
      });
      return absl::OkStatus();
    });
  });
}

template <typename T>
absl::Status Requantize(KernelContext& ctx, const UniformAttrs& from_attrs,
                        const UniformAttrs& to_attrs) {
  const Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const Uniform from, UniformAt(ctx, from_attrs, 1, input.shape()));
  FORMWORK_ASSIGN_OR_RETURN(const Uniform to, UniformAt(ctx, to_attrs, 3, input.shape()));
  FORMWORK_RETURN_IF_ERROR(CheckPositive(from, "input"));
  FORMWORK_RETURN_IF_ERROR(CheckPositive(to, "output"));
  FORMWORK_ASSIGN_OR_RETURN(const Rescaling rescale, Rescaling::Of(from, to));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint8, input.shape()));
  const T* src = static_cast<const T*>(input.raw());
  auto* dst = static_cast<int8_t*>(out->mutable_raw());
  ParallelFor(input.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      dst[i] = static_cast<int8_t>(to.Clamped(rescale(src[i], from.ChannelOf(i), to.ChannelOf(i))));
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeRequantize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UniformAttrs from,
                            UniformAttrs::FromAttrs(init.attrs(), "input_"));
  FORMWORK_ASSIGN_OR_RETURN(const UniformAttrs to,
                            UniformAttrs::FromAttrs(init.attrs(), "output_"));
  if (init.output_dtypes()[0] != DType::kQint8) {
    return Unimplemented("UniformRequantize: to dtype ", DTypeName(init.output_dtypes()[0]),
                         " is not supported");
  }
  if (from.axis >= 0 && to.axis >= 0 && from.axis != to.axis) {
    return InvalidArgument(
        "If input and output is both per-axis quantized, the quantization axis must be same.");
  }
  const bool wide = init.input_dtypes()[0] == DType::kQint32;
  return KernelFn([from, to, wide](KernelContext& ctx) {
    return wide ? Requantize<int32_t>(ctx, from, to) : Requantize<int8_t>(ctx, from, to);
  });
}

// --- UniformQuantizedAdd -------------------------------------------------------------------------

struct OperandAttrs {
  UniformAttrs lhs, rhs, output;

  static absl::StatusOr<OperandAttrs> FromAttrs(const AttrMap& attrs) {
    OperandAttrs read;
    FORMWORK_ASSIGN_OR_RETURN(read.lhs, UniformAttrs::FromAttrs(attrs, "lhs_"));
    FORMWORK_ASSIGN_OR_RETURN(read.rhs, UniformAttrs::FromAttrs(attrs, "rhs_"));
    FORMWORK_ASSIGN_OR_RETURN(read.output, UniformAttrs::FromAttrs(attrs, "output_"));
    return read;
  }
};

// The operand's integers as those of the output's quantization, for each channel of the operand or
// of the output.
absl::StatusOr<Tensor> Rescaled(Allocator& allocator, const Tensor& operand, const Uniform& from,
                                const Uniform& to) {
  FORMWORK_ASSIGN_OR_RETURN(const Rescaling rescale, Rescaling::Of(from, to));
  FORMWORK_ASSIGN_OR_RETURN(Tensor made,
                            Tensor::Allocate(allocator, DType::kInt32, operand.shape()));
  const auto* src = static_cast<const int32_t*>(operand.raw());
  int32_t* dst = made.mutable_data<int32_t>();
  ParallelFor(operand.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = from.ChannelOf(i);
      dst[i] = to.Clamped(rescale(src[i], c, to.channels > 1 ? c : 0));
    }
  });
  return made;
}

// Where the output's scales are of an axis the operands' must be of the same dimension: else
// TensorFlow's process ends.
absl::Status CheckAxes(const OperandAttrs& attrs, const Shape& lhs, const Shape& rhs) {
  const int64_t rank = std::max(lhs.rank(), rhs.rank());
  if (attrs.lhs.axis >= 0 && attrs.rhs.axis >= 0 &&
      attrs.lhs.axis - lhs.rank() != attrs.rhs.axis - rhs.rank()) {
    return InvalidArgument("lhs and rhs must be quantized along the same dimension");
  }
  if (attrs.output.axis < 0) return absl::OkStatus();
  if (attrs.output.axis != attrs.lhs.axis + rank - lhs.rank() || attrs.lhs.axis < 0 ||
      attrs.output.axis != attrs.rhs.axis + rank - rhs.rank() || attrs.rhs.axis < 0) {
    return InvalidArgument(
        "If output is quantized along an axis, lhs and rhs must be along the same dimension");
  }
  return absl::OkStatus();
}

absl::Status Add(KernelContext& ctx, const OperandAttrs& attrs) {
  const Tensor lhs = ctx.input(0), rhs = ctx.input(1);
  const absl::StatusOr<Shape> shape = BroadcastShape(lhs.shape(), rhs.shape());
  if (!shape.ok()) {
    return InvalidArgument("Cannot Add tensors of shapes: ", lhs.shape().ToString(),
                           rhs.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Uniform of_lhs, UniformAt(ctx, attrs.lhs, 2, lhs.shape()));
  FORMWORK_ASSIGN_OR_RETURN(const Uniform of_rhs, UniformAt(ctx, attrs.rhs, 4, rhs.shape()));
  FORMWORK_ASSIGN_OR_RETURN(const Uniform of_out, UniformAt(ctx, attrs.output, 6, *shape));
  FORMWORK_RETURN_IF_ERROR(CheckAxes(attrs, lhs.shape(), rhs.shape()));
  for (const Uniform* uniform : {&of_lhs, &of_rhs, &of_out}) {
    FORMWORK_RETURN_IF_ERROR(CheckPositive(*uniform, "lhs/rhs/output"));
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, *shape));
  if (shape->num_elements() == 0) return absl::OkStatus();
  if ((of_out.channels > 1 && of_lhs.channels != of_out.channels) ||
      (of_out.channels > 1 && of_rhs.channels != of_out.channels)) {
    return InvalidArgument("lhs and rhs must have as many scales as output");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor terms_lhs, Rescaled(ctx.allocator(), lhs, of_lhs, of_out));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor terms_rhs, Rescaled(ctx.allocator(), rhs, of_rhs, of_out));
  const Operand a(terms_lhs.raw(), sizeof(int32_t), lhs.shape(), *shape);
  const Operand b(terms_rhs.raw(), sizeof(int32_t), rhs.shape(), *shape);
  auto* to = static_cast<int32_t*>(out->mutable_raw());
  ParallelFor(shape->num_elements(), kTask, [&](int64_t begin, int64_t end) {
    int32_t room_a[kBlockElements], room_b[kBlockElements];
    for (; begin < end; begin += kBlockElements) {
      const int64_t n = std::min(kBlockElements, end - begin);
      const auto* run_a = static_cast<const int32_t*>(a.Run(begin, n, room_a));
      const auto* run_b = static_cast<const int32_t*>(b.Run(begin, n, room_b));
      for (int64_t i = 0; i < n; ++i) {
        const int32_t zero = of_out.zero(of_out.ChannelOf(begin + i));
        to[begin + i] =
            of_out.Clamped(math::Add<int32_t>(math::Sub<int32_t>(run_a[i], zero), run_b[i]));
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeAdd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const OperandAttrs attrs, OperandAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) { return Add(ctx, attrs); });
}

// --- UniformQuantizedDot -------------------------------------------------------------------------

absl::StatusOr<Tensor> LessZero(Allocator& allocator, const Tensor& from, const Uniform& uniform) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(allocator, DType::kUint32, from.shape()));
  const auto* src = static_cast<const int8_t*>(from.raw());
  auto* dst = wide.mutable_data<uint32_t>();
  ParallelFor(from.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      dst[i] =
          static_cast<uint32_t>(math::Sub<int32_t>(src[i], uniform.zero(uniform.ChannelOf(i))));
    }
  });
  return wide;
}

absl::Status Dot(KernelContext& ctx, const OperandAttrs& attrs) {
  const Tensor lhs = ctx.input(0), rhs = ctx.input(1);
  for (const Tensor* side : {&lhs, &rhs}) {
    if (side->rank() == 2) continue;
    const char* const name = side == &lhs ? "lhs" : "rhs";
    return InvalidArgument(name, " rank must be 2, but given ", name, " shape ",
                           side->shape().ToString());
  }
  if (lhs.dim(1) != rhs.dim(0)) {
    return InvalidArgument(
        "lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape ",
        lhs.shape().ToString(), " and rhs shape ", rhs.shape().ToString());
  }
  if (attrs.rhs.axis < 0 && attrs.output.axis >= 0) {
    return InvalidArgument(
        "If rhs is per-tensor quantized, output must be also per-tensor quantized. Given rhs "
        "scales and zero_points of shape ",
        ctx.input(4).shape().ToString(), " but given output scales and zero_points of shape ",
        ctx.input(6).shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({lhs.dim(0), rhs.dim(1)}));
  FORMWORK_ASSIGN_OR_RETURN(const Uniform of_lhs, UniformAt(ctx, attrs.lhs, 2, lhs.shape()));
  FORMWORK_ASSIGN_OR_RETURN(const Uniform of_rhs, UniformAt(ctx, attrs.rhs, 4, rhs.shape()));
  FORMWORK_ASSIGN_OR_RETURN(const Uniform of_out, UniformAt(ctx, attrs.output, 6, shape));
  for (const Uniform* uniform : {&of_lhs, &of_rhs, &of_out}) {
    FORMWORK_RETURN_IF_ERROR(CheckPositive(*uniform, "lhs/rhs/output"));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor a, LessZero(ctx.allocator(), lhs, of_lhs));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor b, LessZero(ctx.allocator(), rhs, of_rhs));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  // One for each scale of the right side or, where that has no elements, of all.
  std::vector<FixedPoint> factors;
  for (int64_t c = 0; c < of_rhs.channels; ++c) {
    if (WorkIsCutAt(c)) return WorkStatus();
    const double scale = static_cast<double>(of_lhs.scale(0)) * of_rhs.scale(c) /
                         of_out.scale(of_out.channels > 1 ? c : 0);
    FORMWORK_ASSIGN_OR_RETURN(const FixedPoint factor, FixedPointOf(scale));
    factors.push_back(factor);
  }
  const int64_t cols = shape.dim(1);
  auto* sums = static_cast<uint32_t*>(out->mutable_raw());
  Gemm(false, false, shape.dim(0), cols, lhs.dim(1), a.data<uint32_t>(), lhs.dim(1),
       b.data<uint32_t>(), cols, 0u, sums, cols);
  ParallelFor(shape.num_elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const FixedPoint& factor = factors[factors.size() > 1 ? static_cast<size_t>(i % cols) : 0];
      const int32_t scaled = factor.Of(static_cast<int32_t>(sums[i]));
      const int32_t zero = of_out.zero(of_out.ChannelOf(i));
      sums[i] = static_cast<uint32_t>(of_out.Clamped(math::Add<int32_t>(scaled, zero)));
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDot(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const OperandAttrs attrs, OperandAttrs::FromAttrs(init.attrs()));
  if (attrs.lhs.axis != -1) {
    return InvalidArgument("lhs_quantization_axis Attr must be -1 (per-tensor).");
  }
  for (const bool rhs : {true, false}) {
    const int64_t axis = rhs ? attrs.rhs.axis : attrs.output.axis;
    if (axis == -1 || axis == 1) continue;
    return InvalidArgument(rhs ? "rhs" : "output",
                           "_quantization_axis Attr must be 1 (per-channel) or -1 (per-tensor).");
  }
  return KernelFn([attrs](KernelContext& ctx) { return Dot(ctx, attrs); });
}

// --- UniformQuantizedClipByValue -----------------------------------------------------------------

absl::StatusOr<KernelFn> MakeClip(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UniformAttrs attrs, UniformAttrs::FromAttrs(init.attrs(), ""));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor operand = ctx.input(0), min = ctx.input(1), max = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Uniform uniform, UniformAt(ctx, attrs, 3, operand.shape()));
    for (const bool lower : {true, false}) {
      const Shape& shape = (lower ? min : max).shape();
      if (shape == uniform.scales.shape()) continue;
      const char* const name = lower ? "min" : "max";
      return InvalidArgument(
          "Input ", name, " shape must be same as scales/zero_points. Given ", name, " of shape ",
          shape.ToString(), " and scales/zero_points of shape ", uniform.scales.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kQint32, operand.shape()));
    const auto* from = static_cast<const int32_t*>(operand.raw());
    const auto* low = static_cast<const int32_t*>(min.raw());
    const auto* high = static_cast<const int32_t*>(max.raw());
    auto* to = static_cast<int32_t*>(out->mutable_raw());
    ParallelFor(operand.num_elements(), kTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = uniform.ChannelOf(i);
        to[i] = std::min(std::max(from[i], low[c]), high[c]);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterUniformKernels(KernelRegistry& registry) {
  registry.Add("UniformQuantize", MakeQuantize);
  registry.Add("UniformDequantize", MakeDequantize);
  registry.Add("UniformRequantize", MakeRequantize);
  registry.Add("UniformQuantizedAdd", MakeAdd);
  registry.Add("UniformQuantizedDot", MakeDot);
  registry.Add("UniformQuantizedClipByValue", MakeClip);
}

}  // namespace formwork
