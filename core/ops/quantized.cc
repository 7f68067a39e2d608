#include "core/ops/quantized.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/join.h"
#include "core/ops/matmul.h"
#include "core/ops/pool.h"
#include "core/ops/register_ops.h"
#include "core/ops/reshape.h"
#include "core/ops/shape_inference.h"

namespace formwork {

namespace {

// With what the ops of floats have besides.
AttrMap OfFloats(AttrMap attrs) {
  attrs.Set("data_format", std::string("NHWC"));
  attrs.Set("explicit_paddings", std::vector<int64_t>());
  return attrs;
}

}  // namespace

absl::StatusOr<SlidingAttrs> QuantizedPoolAttrs(const AttrMap& attrs) {
  return SlidingAttrs::OfPool(OfFloats(attrs));
}

absl::StatusOr<SlidingAttrs> QuantizedConvAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(SlidingAttrs read, SlidingAttrs::OfConv(OfFloats(attrs)));
  if (read.rows.stride != read.cols.stride) {
    return InvalidArgument(
        "Current implementation only supports equal length strides in the row and column "
        "dimensions.");
  }
  if (read.rows.dilation != 1 || read.cols.dilation != 1) {
    return InvalidArgument(
        "Current implementation only supports dilated rate as 1 in the row and column "
        "dimensions.");
  }
  return read;
}

absl::Status CheckQuantizedBias(absl::Span<const int64_t> input, absl::Span<const int64_t> bias) {
  if (input.size() < 2) {
    return InvalidArgument("Input tensor must be at least 2D: ", DimsText(input));
  }
  if (bias.size() != 1) return InvalidArgument("Biases must be 1D: ", DimsText(bias));
  if (!MayBeEqual(bias[0], input.back())) {
    return InvalidArgument(
        "Must provide as many biases as the last dimension of the input tensor: ", DimsText(bias),
        " vs. ", DimsText(input));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniformAttrs> UniformAttrs::FromAttrs(const AttrMap& attrs,
                                                     absl::string_view prefix) {
  UniformAttrs read;
  const auto name = [prefix](absl::string_view rest) {
    return absl::StrCat(prefix, "quantization_", rest);
  };
  FORMWORK_ASSIGN_OR_RETURN(read.axis, attrs.Get<int64_t>(name("axis")));
  FORMWORK_ASSIGN_OR_RETURN(read.min, attrs.Get<int64_t>(name("min_val")));
  FORMWORK_ASSIGN_OR_RETURN(read.max, attrs.Get<int64_t>(name("max_val")));
  if (read.axis < -1) {
    return InvalidArgument(prefix, "quantization_axis must be >= -1, given: ", read.axis);
  }
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (read.min < kLeast || read.min > kMost || read.max < kLeast || read.max > kMost) {
    return InvalidArgument(prefix,
                           "quantization_min_val and max_val must fit int32, given: ", read.min,
                           " and ", read.max);
  }
  return read;
}

absl::Status CheckUniform(const UniformAttrs& attrs, absl::Span<const int64_t> input,
                          absl::Span<const int64_t> scales, absl::Span<const int64_t> zero_points) {
  if (attrs.axis >= static_cast<int64_t>(input.size())) {
    return InvalidArgument("quantization_axis must be -1 or in range [0, input.rank), but given ",
                           attrs.axis);
  }
  if (scales.size() != zero_points.size() || !MayBeEqual(scales, zero_points)) {
    return InvalidArgument("scales and zero_points shape must be same, but given scales shape ",
                           DimsText(scales), " and zero_points shape ", DimsText(zero_points));
  }
  if (attrs.axis < 0 && !scales.empty()) {
    return InvalidArgument(
        "If quantization_axis is -1, scales and zero_points must be scalar tensors, but given "
        "scales shape ",
        DimsText(scales), " and zero_points shape ", DimsText(zero_points));
  }
  if (attrs.axis >= 0 &&
      (scales.size() != 1 || !MayBeEqual(scales[0], input[static_cast<size_t>(attrs.axis)]))) {
    return InvalidArgument(
        "If quantization_axis is not -1, scales and zero_points must be a tensor of rank 1 and the "
        "size must be equal to the input.dim_size(quantization_axis), but given quantization_axis ",
        attrs.axis, ", scales shape ", DimsText(scales), " and zero_points shape ",
        DimsText(zero_points));
  }
  return absl::OkStatus();
}

namespace {

// Output 0 is as given, the range of the others two numbers.
absl::Status WithRange(InferenceContext& c, PartialShape values) {
  c.set_output(0, std::move(values));
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status SameWithRange(InferenceContext& c) { return WithRange(c, c.input(0)); }

absl::Status MatMulShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfMatMul(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ProductGeometry geometry,
                            PrepareMatMul(attrs, shapes::OrOfRank(c.input(0), 2).dims(),
                                          shapes::OrOfRank(c.input(1), 2).dims()));
  return WithRange(c, PartialShape::Trusted(geometry.output));
}

absl::Status BroadcastWithRange(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::BroadcastShapes(c.input(0), c.input(1)));
  return WithRange(c, std::move(shape));
}

absl::Status ConcatShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(WithRange(c, PartialShape()));
  const int n = (c.num_inputs() - 1) / 3;
  int rank = -1;
  for (int i = 1; i <= n; ++i) rank = std::max(rank, c.input(i).rank());
  if (rank < 0) return absl::OkStatus();
  c.set_output(0, PartialShape::OfRank(rank));
  const Tensor* const axis = c.constant(0);
  if (axis == nullptr || axis->num_elements() != 1) return absl::OkStatus();
  std::vector<PartialShape> values;
  for (int i = 1; i <= n; ++i) values.push_back(shapes::OrOfRank(c.input(i), rank));
  FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry,
                            PrepareConcat(
                                n, [&](int i) { return values[static_cast<size_t>(i)].dims(); },
                                axis->scalar<int32_t>()));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status ReshapeShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::ShapeFromInput(c, 1));
  if (c.constant(1) != nullptr && c.input(0).rank() >= 0) {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareReshape(c.input(0).dims(), *c.constant(1)));
    shape = PartialShape::Trusted(dims);
  }
  return WithRange(c, std::move(shape));
}

absl::Status QuantizedPoolShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, QuantizedPoolAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PreparePool(attrs, shapes::OrOfRank(c.input(0), 4).dims()));
  return WithRange(c, PartialShape::Trusted(shape.output_dims()));
}

absl::Status ConvolutionShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, QuantizedConvAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PrepareConv(attrs, shapes::OrOfRank(c.input(0), 4).dims(),
                                        shapes::OrOfRank(c.input(1), 4).dims()));
  return WithRange(c, PartialShape::Trusted(shape.output_dims()));
}

absl::Status DotShape(InferenceContext& c) {
  const PartialShape a = shapes::OrOfRank(c.input(0), 2), b = shapes::OrOfRank(c.input(1), 2);
  if (a.rank() != 2 || b.rank() != 2) return InvalidArgument("Shape must be rank 2");
  c.set_output(0, PartialShape::Trusted({a.dim(0), b.dim(1)}));
  return absl::OkStatus();
}

// "; lhs_quantization_axis: int = -1; ..."
std::string UniformSpec(absl::string_view prefix) {
  return absl::StrCat("; ", prefix, "quantization_axis: int = -1; ", prefix,
                      "quantization_min_val: int; ", prefix, "quantization_max_val: int");
}

constexpr absl::string_view kInnerRanges = "min_x: float, max_x: float, min_y: float, max_y: float";

void AddOfRanges(OpRegistry& registry) {
  registry.Add(
      "QuantizedMatMul(a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float) -> "
      "(out: Toutput, min_out: float, max_out: float); T1: quantizedtype; T2: quantizedtype; "
      "Toutput: quantizedtype = qint32; transpose_a: bool = false; transpose_b: bool = false; "
      "Tactivation: quantizedtype = quint8",
      {.shape_fn = MatMulShape});
  for (const char* op : {"QuantizedAdd", "QuantizedMul"}) {
    registry.Add(absl::StrCat(op, "(x: T1, y: T2, ", kInnerRanges,
                              ") -> (z: Toutput, min_z: float, max_z: float); T1: quantizedtype; "
                              "T2: quantizedtype; Toutput: quantizedtype = qint32"),
                 {.shape_fn = BroadcastWithRange});
  }
  registry.Add(
      "QuantizedBiasAdd(input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, "
      "max_bias: float) -> (output: out_type, min_out: float, max_out: float); T1: quantizedtype; "
      "T2: quantizedtype; out_type: quantizedtype",
      {.shape_fn = SameWithRange});
  for (const char* op : {"QuantizedRelu", "QuantizedRelu6"}) {
    registry.Add(
        absl::StrCat(op,
                     "(features: Tinput, min_features: float, max_features: float) -> "
                     "(activations: out_type, min_activations: float, max_activations: float); "
                     "Tinput: quantizedtype; out_type: quantizedtype = quint8"),
        {.shape_fn = SameWithRange});
  }
  registry.Add(
      "Requantize(input: Tinput, input_min: float, input_max: float, requested_output_min: float, "
      "requested_output_max: float) -> (output: out_type, output_min: float, output_max: float); "
      "Tinput: quantizedtype; out_type: quantizedtype",
      {.shape_fn = SameWithRange});
  registry.Add(
      "QuantizeDownAndShrinkRange(input: Tinput, input_min: float, input_max: float) -> (output: "
      "out_type, output_min: float, output_max: float); Tinput: quantizedtype; out_type: "
      "quantizedtype",
      {.shape_fn = SameWithRange});
  registry.Add(
      "RequantizationRange(input: Tinput, input_min: float, input_max: float) -> (output_min: "
      "float, output_max: float); Tinput: quantizedtype",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "QuantizedConcat(concat_dim: int32, values: N*T, input_mins: N*float, input_maxes: N*float) "
      "-> (output: T, output_min: float, output_max: float); N: int >= 2; T: type",
      {.shape_fn = ConcatShape});
  registry.Add(
      "QuantizedReshape(tensor: T, shape: Tshape, input_min: float, input_max: float) -> (output: "
      "T, output_min: float, output_max: float); T: type; Tshape: indextype = int32",
      {.shape_fn = ReshapeShape});
  for (const char* op : {"QuantizedMaxPool", "QuantizedAvgPool"}) {
    registry.Add(
        absl::StrCat(op,
                     "(input: T, min_input: float, max_input: float) -> (output: T, min_output: "
                     "float, max_output: float); T: quantizedtype; ksize: list(int); strides: "
                     "list(int); padding: {\"SAME\", \"VALID\"}"),
        {.shape_fn = QuantizedPoolShape});
  }
  registry.Add(
      "QuantizedConv2D(input: Tinput, filter: Tfilter, min_input: float, max_input: float, "
      "min_filter: float, max_filter: float) -> (output: out_type, min_output: float, max_output: "
      "float); Tinput: quantizedtype; Tfilter: quantizedtype; out_type: quantizedtype = qint32; "
      "strides: list(int); padding: {\"SAME\", \"VALID\"}; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = ConvolutionShape});
}

void AddOfScales(OpRegistry& registry) {
  constexpr absl::string_view kOperands =
      "(lhs: T, rhs: T, lhs_scales: float, lhs_zero_points: int32, rhs_scales: float, "
      "rhs_zero_points: int32, output_scales: float, output_zero_points: int32) -> ";
  const std::string of_operands =
      absl::StrCat(UniformSpec("lhs_"), UniformSpec("rhs_"), UniformSpec("output_"));
  registry.Add(
      absl::StrCat("UniformQuantize(input: Tin, scales: float, zero_points: int32) -> (output: "
                   "Tout); Tin: {float}; Tout: {qint8, quint8, qint32}",
                   UniformSpec("")),
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      absl::StrCat("UniformDequantize(input: Tin, scales: float, zero_points: int32) -> (output: "
                   "Tout); Tin: {qint8, quint8, qint32}; Tout: {float}",
                   UniformSpec("")),
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      absl::StrCat("UniformRequantize(input: Tin, input_scales: float, input_zero_points: int32, "
                   "output_scales: float, output_zero_points: int32) -> (output: Tout); Tin: "
                   "{qint8, qint32}; Tout: {qint8, qint32}",
                   UniformSpec("input_"), UniformSpec("output_")),
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      absl::StrCat("UniformQuantizedAdd", kOperands, "(output: T)", of_operands, "; T: {qint32}"),
      {.shape_fn = shapes::Broadcast});
  registry.Add(
      absl::StrCat(
          "UniformQuantizedDot(lhs: Tin, rhs: Tin, lhs_scales: float, lhs_zero_points: int32, "
          "rhs_scales: float, rhs_zero_points: int32, output_scales: float, output_zero_points: "
          "int32) -> (output: Tout); Tin: {qint8}; Tout: {qint32}",
          of_operands),
      {.shape_fn = DotShape});
  registry.Add(
      absl::StrCat("UniformQuantizedClipByValue(operand: T, min: T, max: T, scales: float, "
                   "zero_points: int32) -> (output: T); T: {qint32}",
                   UniformSpec("")),
      {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace

void RegisterQuantizedOps(OpRegistry& registry) {
  AddOfRanges(registry);
  AddOfScales(registry);
}

}  // namespace formwork
