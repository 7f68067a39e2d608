// FusedBatchNorm, V2 and V3, and their gradients. What the outputs beyond y hold is TensorFlow's
// CPU kernels': reserve_space_1 and 2 are the mean and the variance that y was made with (not
// inverted), the others are empty or a zero, by dtype.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/nn/batch_norm_loops.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/batch_norm.h"

namespace formwork {
namespace {

ChannelLayout LayoutOf(const BatchNormGeometry& geometry) {
  return {.outer = geometry.outer, .channels = geometry.channels, .inner = geometry.inner};
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
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormGeometry geometry,
                            PrepareBatchNorm(attrs, x_shape.dims(),
                                             {.scale = ctx.input(1).shape().dims(),
                                              .offset = ctx.input(2).shape().dims(),
                                              .mean = ctx.input(3).shape().dims(),
                                              .variance = ctx.input(4).shape().dims()}));
  const ChannelLayout layout = LayoutOf(geometry);
  const int64_t channels = layout.channels;
  const bool needs_old = attrs.needs_old();
  const float* scale = ctx.input(1).data<float>();
  const float* offset = ctx.input(2).data<float>();
  const float* old_mean = ctx.input(3).data<float>();
  const float* old_variance = ctx.input(4).data<float>();

  FORMWORK_ASSIGN_OR_RETURN(float* const batch_mean, ChannelOutput(ctx, 1, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const batch_variance, ChannelOutput(ctx, 2, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const mean, ChannelOutput(ctx, 3, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const variance, ChannelOutput(ctx, 4, channels));
  if (ctx.num_outputs() > 5) {
    FORMWORK_RETURN_IF_ERROR(FillReserve(ctx, 5, IsOfOnednn(attrs, dtype)));
  }
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
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormGeometry geometry,
                            PrepareBatchNormGrad(attrs, dy.shape().dims(), x.shape().dims(),
                                                 {.scale = ctx.input(2).shape().dims(),
                                                  .offset = {},
                                                  .mean = ctx.input(3).shape().dims(),
                                                  .variance = ctx.input(4).shape().dims()}));
  const ChannelLayout layout = LayoutOf(geometry);
  const int64_t channels = layout.channels;
  const float* scale = ctx.input(2).data<float>();
  const float* mean = ctx.input(3).data<float>();
  const float* variance = ctx.input(4).data<float>();

  FORMWORK_ASSIGN_OR_RETURN(Tensor * dx, ctx.AllocateOutput(0, dtype, x.shape()));
  FORMWORK_ASSIGN_OR_RETURN(float* const scale_gradient, ChannelOutput(ctx, 1, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const offset_gradient, ChannelOutput(ctx, 2, channels));
  const bool empty_reserve = !IsOfOnednn(attrs, dtype);
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
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfForward(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(
      CheckDTypes(init.op().name, init.input_dtypes()[0], init.input_dtypes()[1]));
  return KernelFn([attrs](KernelContext& ctx) { return Forward(attrs, ctx); });
}

absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfGradient(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(
      CheckDTypes(init.op().name, init.input_dtypes()[1], init.input_dtypes()[3]));
  return KernelFn([attrs](KernelContext& ctx) { return Gradient(attrs, ctx); });
}

}  // namespace

void RegisterBatchNormCpuKernels(KernelRegistry& registry) {
  for (const absl::string_view version : {"", "V2", "V3"}) {
    registry.Add(absl::StrCat("FusedBatchNorm", version), MakeForward);
    registry.Add(absl::StrCat("FusedBatchNormGrad", version), MakeGradient);
  }
}

}  // namespace formwork
