// BatchNormWithGlobalNormalization and its gradient: plain loops, for they are of old graphs alone.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/ops/global_norm.h"

namespace formwork {
namespace {

constexpr int64_t kGrain = int64_t{1} << 14;  // Elements.

// What computes.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
std::vector<Wide<T>> Widened(const Tensor& vector) {
  std::vector<Wide<T>> wide;
  for (const T x : vector.span<T>()) wide.push_back(static_cast<Wide<T>>(x));
  return wide;
}

// 1 / sqrt(variance + epsilon).
template <typename T>
std::vector<Wide<T>> Inverses(const Tensor& variance, const GlobalNormAttrs& attrs) {
  std::vector<Wide<T>> inverses = Widened<T>(variance);
  for (Wide<T>& x : inverses) {
    x = 1 / std::sqrt(x + static_cast<Wide<T>>(static_cast<T>(attrs.variance_epsilon)));
  }
  return inverses;
}

int64_t PixelsAtATime(const GlobalNormGeometry& s) {
  return std::max<int64_t>(kGrain / std::max<int64_t>(s.channels, 1), 1);
}

template <typename T>
absl::Status Normalize(KernelContext& ctx, const GlobalNormAttrs& attrs) {
  const Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(
      const GlobalNormGeometry s,
      PrepareGlobalNorm(input.shape().dims(), {{"mean", ctx.input(1).shape().dims()},
                                               {"var", ctx.input(2).shape().dims()},
                                               {"beta", ctx.input(3).shape().dims()},
                                               {"gamma", ctx.input(4).shape().dims()}}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, input.shape()));
  const std::vector<Wide<T>> mean = Widened<T>(ctx.input(1)), beta = Widened<T>(ctx.input(3));
  const std::vector<Wide<T>> gamma = Widened<T>(ctx.input(4));
  std::vector<Wide<T>> scale = Inverses<T>(ctx.input(2), attrs);
  if (attrs.scale_after_normalization) {
    for (size_t c = 0; c < scale.size(); ++c) scale[c] *= gamma[c];
  }
  const T* const from = input.data<T>();
  T* const to = output->mutable_data<T>();
  ParallelFor(s.pixels, PixelsAtATime(s), [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t i = begin * s.channels + c;
        to[i] = static_cast<T>((static_cast<Wide<T>>(from[i]) - mean[c]) * scale[c] + beta[c]);
      }
    }
  });
  return absl::OkStatus();
}

template <typename T>
absl::Status WriteVector(KernelContext& ctx, int i, const std::vector<double>& values) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor* const output,
      ctx.AllocateOutput(i, DTypeOf<T>::value, Shape({static_cast<int64_t>(values.size())})));
  T* to = output->mutable_data<T>();
  for (const double value : values) *to++ = static_cast<T>(static_cast<Wide<T>>(value));
  return absl::OkStatus();
}

template <typename T>
absl::Status Gradient(KernelContext& ctx, const GlobalNormAttrs& attrs) {
  const Tensor input = ctx.input(0), backprop = ctx.input(4);
  FORMWORK_ASSIGN_OR_RETURN(const GlobalNormGeometry s,
                            PrepareGlobalNormGrad(input.shape().dims(),
                                                  {{"mean", ctx.input(1).shape().dims()},
                                                   {"var", ctx.input(2).shape().dims()},
                                                   {"gamma", ctx.input(3).shape().dims()}},
                                                  backprop.shape().dims()));
  const std::vector<Wide<T>> mean = Widened<T>(ctx.input(1)), gamma = Widened<T>(ctx.input(3));
  const std::vector<Wide<T>> inverse = Inverses<T>(ctx.input(2), attrs);
  std::vector<Wide<T>> scale = inverse;
  if (attrs.scale_after_normalization) {
    for (size_t c = 0; c < scale.size(); ++c) scale[c] *= gamma[c];
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const dx,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, input.shape()));
  const T* const x = input.data<T>();
  const T* const dy = backprop.data<T>();
  T* const to = dx->mutable_data<T>();
  ParallelFor(s.pixels, PixelsAtATime(s), [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t i = begin * s.channels + c;
        to[i] = static_cast<T>(static_cast<Wide<T>>(dy[i]) * scale[c]);
      }
    }
  });
  // Of dy, and of dy times what x is from the mean.
  std::vector<double> sums(mean.size()), moments(mean.size());
  ForBlocks(s.pixels, PixelsAtATime(s), [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t i = begin * s.channels + c;
        const auto d = static_cast<Wide<T>>(dy[i]);
        sums[c] += static_cast<double>(d);
        moments[c] += static_cast<double>(d * (static_cast<Wide<T>>(x[i]) - mean[c]));
      }
    }
  });
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  std::vector<double> dm(sums.size()), dv(sums.size()), dg(sums.size());
  for (size_t c = 0; c < sums.size(); ++c) {
    const auto by = static_cast<double>(inverse[c]), scaled = static_cast<double>(scale[c]);
    dm[c] = -sums[c] * scaled;
    dv[c] = moments[c] * -0.5 * scaled * by * by;
    dg[c] = attrs.scale_after_normalization ? moments[c] * by : 0;
  }
  FORMWORK_RETURN_IF_ERROR(WriteVector<T>(ctx, 1, dm));
  FORMWORK_RETURN_IF_ERROR(WriteVector<T>(ctx, 2, dv));
  FORMWORK_RETURN_IF_ERROR(WriteVector<T>(ctx, 3, sums));
  return WriteVector<T>(ctx, 4, dg);
}

template <bool gradient>
absl::StatusOr<KernelFn> MakeGlobalNorm(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const GlobalNormAttrs attrs, GlobalNormAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  switch (dtype) {
    FORMWORK_CASE(half, return KernelFn([attrs](KernelContext& ctx) {
                    return gradient ? Gradient<T>(ctx, attrs) : Normalize<T>(ctx, attrs);
                  }))
    FORMWORK_CASE(float, return KernelFn([attrs](KernelContext& ctx) {
                    return gradient ? Gradient<T>(ctx, attrs) : Normalize<T>(ctx, attrs);
                  }))
    FORMWORK_CASE(double, return KernelFn([attrs](KernelContext& ctx) {
                    return gradient ? Gradient<T>(ctx, attrs) : Normalize<T>(ctx, attrs);
                  }))
    default:
      return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
}

}  // namespace

void RegisterGlobalNormKernels(KernelRegistry& registry) {
  registry.Add("BatchNormWithGlobalNormalization", MakeGlobalNorm<false>);
  registry.Add("BatchNormWithGlobalNormalizationGrad", MakeGlobalNorm<true>);
}

}  // namespace formwork
