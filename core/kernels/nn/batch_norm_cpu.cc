// FusedBatchNormV3 and its gradient. What the outputs beyond y hold is TensorFlow's CPU kernels':
// reserve_space_1 and 2 are the mean and the variance that y was made with (not inverted), the
// others are empty or a zero, by dtype.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/nn/batch_norm_loops.h"
#include "core/kernels/register_cpu_kernels.h"

namespace formwork {
namespace {

struct BatchNormAttrs {
  float epsilon = 0;
  float factor = 1;  ///< Of the new statistics in the running ones.
  bool is_training = true;
  bool channels_first = false;
  int rank = 4;
};

absl::StatusOr<BatchNormAttrs> ParseAttrs(const AttrMap& attrs) {
  BatchNormAttrs parsed;
  FORMWORK_ASSIGN_OR_RETURN(parsed.epsilon, attrs.Get<float>("epsilon"));
  FORMWORK_ASSIGN_OR_RETURN(parsed.is_training, attrs.Get<bool>("is_training"));
  FORMWORK_ASSIGN_OR_RETURN(const std::string format, attrs.Get<std::string>("data_format"));
  parsed.factor = attrs.GetOr<float>("exponential_avg_factor", 1.0f);
  parsed.channels_first = format.size() > 1 && format[1] == 'C';
  parsed.rank = static_cast<int>(format.size());
  return parsed;
}

absl::StatusOr<ChannelLayout> LayoutOf(const BatchNormAttrs& attrs, const Shape& x) {
  if (x.rank() != attrs.rank) {
    return InvalidArgument("input must be ", attrs.rank, "-dimensional", x.ToString());
  }
  ChannelLayout layout;
  layout.channels = x.dim(attrs.channels_first ? 1 : attrs.rank - 1);
  if (x.num_elements() == 0) return layout;  // outer is 0.
  layout.outer = attrs.channels_first ? x.dim(0) : x.num_elements() / layout.channels;
  layout.inner = x.num_elements() / layout.channels / layout.outer;
  return layout;
}

absl::Status CheckVector(absl::string_view condition, absl::string_view name, const Tensor& tensor,
                         int64_t channels) {
  if (tensor.rank() != 1) {
    return InvalidArgument(name, " must be 1-dimensional", tensor.shape().ToString());
  }
  if (tensor.num_elements() != channels) {
    return InvalidArgument(condition, name,
                           " must have the same number of elements as the channels of x, got ",
                           tensor.num_elements(), " and ", channels);
  }
  return absl::OkStatus();
}

absl::Status CheckDTypes(absl::string_view op, DType t, DType u) {
  if (t != DType::kFloat && t != DType::kHalf && t != DType::kBfloat16) {
    return Unimplemented(op, ": dtype ", DTypeName(t), " is not supported");
  }
  if (u != DType::kFloat) {
    return Unimplemented(op, ": dtype ", DTypeName(u), " of the statistics is not supported");
  }
  return absl::OkStatus();
}

/// TensorFlow has other kernels, which leave other things in unused outputs, for these.
bool IsOnednnCase(const BatchNormAttrs& attrs, DType dtype) {
  return attrs.rank == 4 && (dtype == DType::kFloat || dtype == DType::kBfloat16);
}

absl::Status FillReserve(KernelContext& ctx, int output, bool empty) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor * reserve, ctx.AllocateOutput(output, DType::kFloat, empty ? Shape({0}) : Shape()));
  if (!empty) reserve->mutable_data<float>()[0] = 0;
  return absl::OkStatus();
}

absl::StatusOr<float*> ChannelOutput(KernelContext& ctx, int output, int64_t channels) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor * tensor,
                            ctx.AllocateOutput(output, DType::kFloat, Shape({channels})));
  return tensor->mutable_data<float>();
}

/// Calls f with a null pointer to the element type of `dtype`.
template <typename F>
void ByDType(DType dtype, F f) {
  if (dtype == DType::kFloat) {
    f(static_cast<float*>(nullptr));
  } else if (dtype == DType::kHalf) {
    f(static_cast<half*>(nullptr));
  } else {
    f(static_cast<bfloat16*>(nullptr));
  }
}

absl::Status Forward(const BatchNormAttrs& attrs, KernelContext& ctx) {
  const Shape x_shape = ctx.input(0).shape();
  const DType dtype = ctx.input(0).dtype();
  FORMWORK_ASSIGN_OR_RETURN(const ChannelLayout layout, LayoutOf(attrs, x_shape));
  const int64_t channels = layout.channels;
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "scale", ctx.input(1), channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "offset", ctx.input(2), channels));
  const bool needs_old = !attrs.is_training || attrs.factor != 1.0f;
  if (needs_old) {
    const absl::string_view when =
        attrs.is_training ? "When exponential_avg_factor != 1, " : "When is_training=false, ";
    FORMWORK_RETURN_IF_ERROR(CheckVector(when, "mean", ctx.input(3), channels));
    FORMWORK_RETURN_IF_ERROR(CheckVector(when, "variance", ctx.input(4), channels));
  }
  const float* scale = ctx.input(1).data<float>();
  const float* offset = ctx.input(2).data<float>();
  const float* old_mean = ctx.input(3).data<float>();
  const float* old_variance = ctx.input(4).data<float>();

  FORMWORK_ASSIGN_OR_RETURN(float* const batch_mean, ChannelOutput(ctx, 1, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const batch_variance, ChannelOutput(ctx, 2, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const mean, ChannelOutput(ctx, 3, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const variance, ChannelOutput(ctx, 4, channels));
  FORMWORK_RETURN_IF_ERROR(FillReserve(ctx, 5, IsOnednnCase(attrs, dtype)));
  const size_t n = static_cast<size_t>(channels);

  if (x_shape.num_elements() == 0) {
    FORMWORK_RETURN_IF_ERROR(ctx.AllocateOutput(0, dtype, x_shape).status());
    std::fill_n(batch_mean, n, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(batch_variance, n, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(mean, n, 0.0f);
    std::fill_n(variance, n, 0.0f);
    return absl::OkStatus();
  }

  if (attrs.is_training) {
    std::vector<double> sums(n);
    const double count = static_cast<double>(layout.per_channel());
    ByDType(dtype, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      ChannelSums(layout, ctx.input(0).data<T>(), sums.data());
      for (size_t c = 0; c < n; ++c) mean[c] = static_cast<float>(sums[c] / count);
      ChannelSquares(layout, ctx.input(0).data<T>(), mean, sums.data());
    });
    // The running variance is the unbiased estimate.
    const double unbiased = std::max(count - 1.0, 1.0);
    const float keep = 1.0f - attrs.factor;
    for (size_t c = 0; c < n; ++c) {
      variance[c] = static_cast<float>(sums[c] / count);
      const float new_variance = static_cast<float>(sums[c] / unbiased);
      batch_mean[c] = needs_old ? keep * old_mean[c] + attrs.factor * mean[c] : mean[c];
      batch_variance[c] =
          needs_old ? keep * old_variance[c] + attrs.factor * new_variance : new_variance;
    }
  } else {
    for (size_t c = 0; c < n; ++c) {
      batch_mean[c] = mean[c] = old_mean[c];
      batch_variance[c] = variance[c] = old_variance[c];
    }
  }

  std::vector<float> factor(n);
  for (size_t c = 0; c < n; ++c) {
    factor[c] = scale[c] / std::sqrt(variance[c] + attrs.epsilon);
  }
  // scale and offset are read to the end, so that only x may give its memory.
  const void* const x = ctx.input(0).raw();
  FORMWORK_ASSIGN_OR_RETURN(Tensor * y, ctx.ForwardOrAllocate({0}, 0, dtype, x_shape));
  ByDType(dtype, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    ChannelScale(layout, static_cast<const T*>(x), mean, factor.data(), offset,
                 y->mutable_data<T>());
  });
  return absl::OkStatus();
}

absl::Status Gradient(const BatchNormAttrs& attrs, KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Tensor& x = ctx.input(1);
  const DType dtype = x.dtype();
  FORMWORK_ASSIGN_OR_RETURN(const ChannelLayout layout, LayoutOf(attrs, x.shape()));
  if (dy.shape() != x.shape()) {
    return InvalidArgument("x and y_backprop must have same shape, but x has shape ",
                           x.shape().ToString(), " and y_backprop has shape ",
                           dy.shape().ToString());
  }
  const int64_t channels = layout.channels;
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "scale", ctx.input(2), channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "reserve_space_1", ctx.input(3), channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "reserve_space_2", ctx.input(4), channels));
  const float* scale = ctx.input(2).data<float>();
  const float* mean = ctx.input(3).data<float>();
  const float* variance = ctx.input(4).data<float>();

  FORMWORK_ASSIGN_OR_RETURN(Tensor * dx, ctx.AllocateOutput(0, dtype, x.shape()));
  FORMWORK_ASSIGN_OR_RETURN(float* const scale_gradient, ChannelOutput(ctx, 1, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const offset_gradient, ChannelOutput(ctx, 2, channels));
  const bool empty_reserve = !IsOnednnCase(attrs, dtype);
  FORMWORK_RETURN_IF_ERROR(FillReserve(ctx, 3, empty_reserve));
  FORMWORK_RETURN_IF_ERROR(FillReserve(ctx, 4, empty_reserve));
  const size_t n = static_cast<size_t>(channels);
  if (x.num_elements() == 0) {
    std::fill_n(scale_gradient, n, 0.0f);
    std::fill_n(offset_gradient, n, 0.0f);
    return absl::OkStatus();
  }

  std::vector<double> sums(n);
  std::vector<double> products(n);
  std::vector<float> shift(n);
  std::vector<float> slope(n);
  std::vector<float> factor(n);
  ByDType(dtype, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    ChannelProducts(layout, dy.data<T>(), x.data<T>(), mean, sums.data(), products.data());
  });
  const double count = static_cast<double>(layout.per_channel());
  for (size_t c = 0; c < n; ++c) {
    const double inverse =
        1.0 / std::sqrt(static_cast<double>(variance[c]) + static_cast<double>(attrs.epsilon));
    offset_gradient[c] = static_cast<float>(sums[c]);
    scale_gradient[c] = static_cast<float>(products[c] * inverse);
    factor[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse);
    if (attrs.is_training) {
      shift[c] = static_cast<float>(sums[c] / count);
      slope[c] = static_cast<float>(products[c] / count * inverse * inverse);
    }
  }
  ByDType(dtype, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    ChannelGradient(layout, dy.data<T>(), x.data<T>(), mean, shift.data(), slope.data(),
                    factor.data(), dx->mutable_data<T>());
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, ParseAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(
      CheckDTypes("FusedBatchNormV3", init.input_dtypes()[0], init.input_dtypes()[1]));
  return KernelFn([attrs](KernelContext& ctx) { return Forward(attrs, ctx); });
}

absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, ParseAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(
      CheckDTypes("FusedBatchNormGradV3", init.input_dtypes()[1], init.input_dtypes()[3]));
  return KernelFn([attrs](KernelContext& ctx) { return Gradient(attrs, ctx); });
}

}  // namespace

void RegisterBatchNormCpuKernels(KernelRegistry& registry) {
  registry.Add("FusedBatchNormV3", MakeForward);
  registry.Add("FusedBatchNormGradV3", MakeGradient);
}

}  // namespace formwork
