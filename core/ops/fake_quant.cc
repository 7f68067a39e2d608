#include "core/ops/fake_quant.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<FakeQuantAttrs> FakeQuantAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t bits, attrs.Get<int64_t>("num_bits"));
  FORMWORK_ASSIGN_OR_RETURN(const bool narrow, attrs.Get<bool>("narrow_range"));
  if (bits < 2 || bits > 16) {
    return InvalidArgument("num_bits must be between 2 and 16, inclusive");
  }
  return FakeQuantAttrs{narrow ? 1.0f : 0.0f, static_cast<float>((1 << bits) - 1)};
}

NudgedRange Nudge(const FakeQuantAttrs& attrs, float min, float max) {
  const float scale = (max - min) / (attrs.quant_max - attrs.quant_min);
  const float exact = attrs.quant_min - min / scale;
  const float zero = exact < attrs.quant_min   ? attrs.quant_min
                     : exact > attrs.quant_max ? attrs.quant_max
                                               : std::round(exact);
  return {(attrs.quant_min - zero) * scale, (attrs.quant_max - zero) * scale, scale};
}

absl::StatusOr<NudgedRange> NudgedRangeOf(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const FakeQuantAttrs quant, FakeQuantAttrs::FromAttrs(attrs));
  FORMWORK_ASSIGN_OR_RETURN(const float min, attrs.Get<float>("min"));
  FORMWORK_ASSIGN_OR_RETURN(const float max, attrs.Get<float>("max"));
  if (!(min < max)) {
    return InvalidArgument("min has to be smaller than max, was: ", min, " >= ", max);
  }
  return Nudge(quant, min, max);
}

absl::Status CheckFakeQuantRange(bool per_channel, absl::Span<const int64_t> inputs,
                                 absl::Span<const int64_t> min, absl::Span<const int64_t> max) {
  if (per_channel && inputs.empty()) {
    return InvalidArgument("inputs must be at least rank 1");
  }
  const size_t rank = per_channel ? 1 : 0;
  for (const bool lower : {true, false}) {
    const absl::Span<const int64_t> bound = lower ? min : max;
    const absl::string_view name = lower ? "min" : "max";
    if (bound.size() != rank) {
      return InvalidArgument("`", name, "` must be rank ", rank, " but is rank ", bound.size());
    }
    if (per_channel && !MayBeEqual(bound[0], inputs.back())) {
      return InvalidArgument(name, " has incorrect size, expected ", inputs.back(), " was ",
                             bound[0]);
    }
  }
  return absl::OkStatus();
}

namespace {

absl::Status GradientShapes(InferenceContext& c) {
  c.set_output(0, c.input(1));
  // The range's gradients are as the range.
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.input(i + 1));
  return absl::OkStatus();
}

}  // namespace

void RegisterFakeQuantOps(OpRegistry& registry) {
  registry.Add(
      "FakeQuantWithMinMaxArgs(inputs: float) -> (outputs: float); min: float = -6.0; max: float = "
      "6.0; num_bits: int = 8; narrow_range: bool = false",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "FakeQuantWithMinMaxVars(inputs: float, min: host float, max: host float) -> (outputs: "
      "float); num_bits: int = 8; narrow_range: bool = false",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "FakeQuantWithMinMaxVarsPerChannel(inputs: float, min: host float, max: host float) -> "
      "(outputs: float); num_bits: int = 8; narrow_range: bool = false",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "FakeQuantWithMinMaxArgsGradient(gradients: float, inputs: float) -> (backprops: float); "
      "min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range: bool = false",
      {.shape_fn = GradientShapes});
  registry.Add(
      "FakeQuantWithMinMaxVarsGradient(gradients: float, inputs: float, min: host float, max: host "
      "float) -> (backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float); "
      "num_bits: int = 8; narrow_range: bool = false",
      {.shape_fn = GradientShapes});
  registry.Add(
      "FakeQuantWithMinMaxVarsPerChannelGradient(gradients: float, inputs: float, min: host float, "
      "max: host float) -> (backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: "
      "float); num_bits: int = 8; narrow_range: bool = false",
      {.shape_fn = GradientShapes});
}

}  // namespace formwork
