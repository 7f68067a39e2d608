#include "core/ops/quantize.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<RoundTripAttrs> RoundTripAttrs::FromAttrs(const AttrMap& attrs) {
  // The versions of the op have fewer or more of them.
  RoundTripAttrs read;
  FORMWORK_ASSIGN_OR_RETURN(read.signed_input, attrs.Get<bool>("signed_input"));
  FORMWORK_ASSIGN_OR_RETURN(read.range_given, attrs.Get<bool>("range_given"));
  read.narrow_range = attrs.GetOr("narrow_range", false);
  read.half_up = attrs.GetOr("round_mode", std::string()) == "HALF_UP";
  read.num_bits = attrs.GetOr<int64_t>("num_bits", 8);
  read.axis = attrs.GetOr<int64_t>("axis", -1);
  if (read.axis < -1) return InvalidArgument("Axis must be at least -1. Found ", read.axis);
  FORMWORK_RETURN_IF_ERROR(CheckRoundTripBits(read.signed_input, read.num_bits));
  return read;
}

absl::Status CheckRoundTripBits(bool signed_input, int64_t num_bits) {
  if (num_bits > 0 && num_bits < (signed_input ? 62 : 63)) return absl::OkStatus();
  return InvalidArgument("num_bits is out of range: ", num_bits, " with signed_input_ ",
                         signed_input ? 1 : 0);
}

absl::StatusOr<QuantizeAttrs> QuantizeAttrs::FromAttrs(const AttrMap& attrs) {
  QuantizeAttrs read;
  FORMWORK_ASSIGN_OR_RETURN(const std::string mode, attrs.Get<std::string>("mode"));
  read.mode = mode == "SCALED"      ? QuantizeMode::kScaled
              : mode == "MIN_FIRST" ? QuantizeMode::kMinFirst
                                    : QuantizeMode::kMinCombined;
  read.half_to_even = attrs.GetOr("round_mode", std::string()) == "HALF_TO_EVEN";
  FORMWORK_ASSIGN_OR_RETURN(read.narrow_range, attrs.Get<bool>("narrow_range"));
  FORMWORK_ASSIGN_OR_RETURN(read.axis, attrs.Get<int64_t>("axis"));
  read.ensure_minimum_range = attrs.GetOr("ensure_minimum_range", read.ensure_minimum_range);
  if (read.half_to_even && read.mode != QuantizeMode::kScaled) {
    return InvalidArgument(
        "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '", mode, "'.");
  }
  if (read.axis < -1) return InvalidArgument("Axis must be at least -1. Found ", read.axis);
  return read;
}

absl::StatusOr<ChannelGeometry> PrepareChannels(int64_t axis, absl::Span<const int64_t> input,
                                                absl::Span<const int64_t> min,
                                                absl::Span<const int64_t> max) {
  ChannelGeometry geometry;
  const auto at = static_cast<size_t>(axis);
  if (axis >= 0 && at >= input.size()) {
    return InvalidArgument("Shape must be at least rank ", at + 1, " but is rank ", input.size());
  }
  // The other dimensions of an empty value may be too large to multiply.
  const bool empty = CountElements(input) == 0;
  for (size_t d = 0; d < input.size(); ++d) {
    if (axis >= 0 && d == at) {
      geometry.channels = input[d];
    } else {
      int64_t& part = axis < 0 || d > at ? geometry.inner : geometry.outer;
      part = empty ? 0 : part * input[d];
    }
  }
  for (const bool lower : {true, false}) {
    const absl::Span<const int64_t> range = lower ? min : max;
    const absl::string_view name = lower ? "input_min" : "input_max";
    if (axis >= 0 && range.size() != 1) {
      return InvalidArgument("Shape must be rank 1 for ", name,
                             "_tensor when the axis is specified");
    }
    if (MayBeEqual(CountElements(range), geometry.channels)) continue;
    return InvalidArgument(name, "_tensor must have as many elements as input on the axis (", axis,
                           "), got ", CountElements(range), ", expected ", geometry.channels);
  }
  return geometry;
}

namespace {

// Input and output are alike; the range's outputs are as the range.
absl::Status QuantizeShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  FORMWORK_ASSIGN_OR_RETURN(const QuantizeAttrs attrs, QuantizeAttrs::FromAttrs(c.attrs()));
  for (int i = 1; i < c.num_outputs(); ++i) {
    c.set_output(i, attrs.axis < 0 ? PartialShape(Shape()) : c.input(i));
  }
  return absl::OkStatus();
}

absl::Status RoundTripGradShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(2));
  c.set_output(2, c.input(3));
  return absl::OkStatus();
}

}  // namespace

void RegisterQuantizeOps(OpRegistry& registry) {
  for (const char* version : {"V2", "V4"}) {
    registry.Add(
        absl::StrCat(
            "QuantizeAndDequantize", version,
            "(input: T, input_min: host T, input_max: host T) -> (output: T); signed_input: bool = "
            "true; num_bits: int = 8; range_given: bool = false; T: floattype; "
            "round_mode: {\"HALF_TO_EVEN\", \"HALF_UP\"} = \"HALF_TO_EVEN\"; "
            "narrow_range: bool = false; axis: int = -1"),
        {.shape_fn = shapes::SameAsFirstInput});
  }
  registry.Add(
      "QuantizeAndDequantizeV3(input: T, input_min: host T, input_max: host T, num_bits: host "
      "int32) -> (output: "
      "T); signed_input: bool = true; range_given: bool = true; T: floattype; narrow_range: bool = "
      "false; axis: int = -1",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "QuantizeAndDequantizeV4Grad(gradients: T, input: T, input_min: host T, input_max: host T) "
      "-> "
      "(input_backprop: T, input_min_backprop: T, input_max_backprop: T); T: floattype; axis: int "
      "= -1",
      {.shape_fn = RoundTripGradShape});
  registry.Add(
      "QuantizeV2(input: float, min_range: float, max_range: float) -> (output: T, output_min: "
      "float, output_max: float); T: quantizedtype; mode: {\"MIN_COMBINED\", \"MIN_FIRST\", "
      "\"SCALED\"} = \"MIN_COMBINED\"; round_mode: {\"HALF_AWAY_FROM_ZERO\", \"HALF_TO_EVEN\"} = "
      "\"HALF_AWAY_FROM_ZERO\"; narrow_range: bool = false; axis: int = -1; ensure_minimum_range: "
      "float = 0.01",
      {.shape_fn = QuantizeShape});
  registry.Add(
      "Dequantize(input: T, min_range: float, max_range: float) -> (output: dtype); T: "
      "quantizedtype; mode: {\"MIN_COMBINED\", \"MIN_FIRST\", \"SCALED\"} = \"MIN_COMBINED\"; "
      "narrow_range: bool = false; axis: int = -1; dtype: {bfloat16, float} = float",
      {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
