// Fake quantization: values rounded to the steps of a range, and its gradients.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/ops/fake_quant.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 16 * 1024;

// What is done with the values of one channel.
struct ChannelRange {
  NudgedRange range;
  bool empty;  // From 0 to 0: all becomes 0, and gradients pass.
};

std::vector<ChannelRange> RangesOf(const FakeQuantAttrs& attrs, const Tensor& min,
                                   const Tensor& max) {
  std::vector<ChannelRange> ranges;
  for (int64_t c = 0; c < min.num_elements(); ++c) {
    const float low = min.data<float>()[c];
    const float high = max.data<float>()[c];
    ranges.push_back({Nudge(attrs, low, high), low == 0 && high == 0});
  }
  return ranges;
}

float Quantize(const NudgedRange& range, float inverse, float x) {
  const float clamped = std::max(std::min(x, range.max), range.min);
  return std::floor((clamped - range.min) * inverse + 0.5f) * range.scale + range.min;
}

void QuantizeAll(const std::vector<ChannelRange>& ranges, const Tensor& inputs, float* out) {
  const float* x = inputs.data<float>();
  const int64_t channels = static_cast<int64_t>(ranges.size());
  if (channels == 0) return;
  ParallelFor(inputs.num_elements() / channels, std::max<int64_t>(kTask / channels, 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t c = 0; c < channels; ++c) {
                  const ChannelRange& channel = ranges[static_cast<size_t>(c)];
                  const float inverse = 1.0f / channel.range.scale;
                  for (int64_t i = begin; i < end; ++i) {
                    const int64_t at = i * channels + c;
                    out[at] = channel.empty ? 0 : Quantize(channel.range, inverse, x[at]);
                  }
                }
              });
}

absl::Status OutputQuantized(KernelContext& ctx, const std::vector<ChannelRange>& ranges) {
  const Tensor inputs = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, inputs.shape()));
  QuantizeAll(ranges, inputs, out->mutable_data<float>());
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeByArgs(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const NudgedRange range, NudgedRangeOf(init.attrs()));
  return KernelFn([range](KernelContext& ctx) { return OutputQuantized(ctx, {{range, false}}); });
}

template <bool kPerChannel>
absl::StatusOr<KernelFn> MakeByVars(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FakeQuantAttrs attrs, FakeQuantAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckFakeQuantRange(kPerChannel, ctx.input(0).shape().dims(),
                                                 ctx.input(1).shape().dims(),
                                                 ctx.input(2).shape().dims()));
    return OutputQuantized(ctx, RangesOf(attrs, ctx.input(1), ctx.input(2)));
  });
}

// --- Gradients ----------------------------------------------------------------------------------

absl::Status CheckGradient(KernelContext& ctx) {
  if (ctx.input(0).shape() == ctx.input(1).shape()) return absl::OkStatus();
  return InvalidArgument(
      "Inputs must have the same size and shape.  Input 0: ", ctx.input(0).shape().ToString(),
      " != input 1: ", ctx.input(1).shape().ToString());
}

// The gradient of what lies within the range; sums of the others', for each channel.
void SplitGradient(const std::vector<ChannelRange>& ranges, const Tensor& grad,
                   const Tensor& inputs, float* within, float* below, float* above) {
  const int64_t channels = static_cast<int64_t>(ranges.size());
  const int64_t n = inputs.num_elements();
  std::vector<double> low(ranges.size()), high(ranges.size());
  int64_t c = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    const ChannelRange& channel = ranges[static_cast<size_t>(c)];
    const float x = inputs.data<float>()[i];
    const float g = grad.data<float>()[i];
    const bool under = !channel.empty && x < channel.range.min;
    const bool over = !channel.empty && x > channel.range.max;
    const bool inside = channel.empty || (x >= channel.range.min && x <= channel.range.max);
    within[i] = inside ? g : 0;
    if (under) low[static_cast<size_t>(c)] += static_cast<double>(g);
    if (over) high[static_cast<size_t>(c)] += static_cast<double>(g);
    c = c + 1 == channels ? 0 : c + 1;
  }
  for (size_t k = 0; below != nullptr && k < ranges.size(); ++k) {
    below[k] = static_cast<float>(low[k]);
    above[k] = static_cast<float>(high[k]);
  }
}

absl::StatusOr<KernelFn> MakeGradByArgs(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const NudgedRange range, NudgedRangeOf(init.attrs()));
  return KernelFn([range](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckGradient(ctx));
    const Tensor grad = ctx.input(0);
    const Tensor inputs = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, inputs.shape()));
    SplitGradient({{range, false}}, grad, inputs, out->mutable_data<float>(), nullptr, nullptr);
    return absl::OkStatus();
  });
}

template <bool kPerChannel>
absl::StatusOr<KernelFn> MakeGradByVars(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FakeQuantAttrs attrs, FakeQuantAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckGradient(ctx));
    const Tensor grad = ctx.input(0);
    const Tensor inputs = ctx.input(1);
    const Tensor min = ctx.input(2);
    const Tensor max = ctx.input(3);
    FORMWORK_RETURN_IF_ERROR(CheckFakeQuantRange(kPerChannel, inputs.shape().dims(),
                                                 min.shape().dims(), max.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor within,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, inputs.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor below,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, min.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor above,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, max.shape()));
    SplitGradient(RangesOf(attrs, min, max), grad, inputs, within.mutable_data<float>(),
                  below.mutable_data<float>(), above.mutable_data<float>());
    ctx.SetOutput(0, std::move(within));
    ctx.SetOutput(1, std::move(below));
    ctx.SetOutput(2, std::move(above));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterFakeQuantKernels(KernelRegistry& registry) {
  registry.Add("FakeQuantWithMinMaxArgs", MakeByArgs);
  registry.Add("FakeQuantWithMinMaxArgsGradient", MakeGradByArgs);
  registry.Add("FakeQuantWithMinMaxVars", MakeByVars<false>);
  registry.Add("FakeQuantWithMinMaxVarsGradient", MakeGradByVars<false>);
  registry.Add("FakeQuantWithMinMaxVarsPerChannel", MakeByVars<true>);
  registry.Add("FakeQuantWithMinMaxVarsPerChannelGradient", MakeGradByVars<true>);
}

}  // namespace formwork
