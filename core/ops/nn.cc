#include "core/ops/nn.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/attention.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<BiasAttrs> BiasAttrs::FromAttrs(const AttrMap& attrs) {
  return BiasAttrs{.channels_first = attrs.GetOr<std::string>("data_format", "NHWC") == "NCHW"};
}

absl::StatusOr<BiasGeometry> PrepareBiasAddGrad(const BiasAttrs& attrs,
                                                absl::Span<const int64_t> value) {
  if (value.size() < 2) {
    return InvalidArgument("Input tensor must be at least 2D: ", DimsText(value));
  }
  const size_t at = attrs.channels_first ? 1 : value.size() - 1;
  return BiasGeometry{.outer = CountElements(value.first(at)),
                      .channels = value[at],
                      .inner = CountElements(value.subspan(at + 1))};
}

absl::StatusOr<BiasGeometry> PrepareBiasAdd(const BiasAttrs& attrs, absl::Span<const int64_t> value,
                                            absl::Span<const int64_t> bias) {
  FORMWORK_ASSIGN_OR_RETURN(const BiasGeometry geometry, PrepareBiasAddGrad(attrs, value));
  if (bias.size() != 1) return InvalidArgument("Biases must be 1D: ", DimsText(bias));
  if (!MayBeEqual(bias[0], geometry.channels)) {
    return InvalidArgument(
        "Must provide as many biases as the last dimension of the input tensor: ", DimsText(bias),
        " vs. ", DimsText(value));
  }
  return geometry;
}

absl::Status CheckLayerNorm(absl::Span<const int64_t> x, absl::Span<const int64_t> scale,
                            absl::Span<const int64_t> offset) {
  if (x.empty()) return InvalidArgument("x must have >= 1 dimension, got ", DimsText(x));
  for (const auto& row : {scale, offset}) {
    if (!MayBeEqual(CountElements(row), x.back())) {
      return InvalidArgument("scale and offset must have an element for each of the last ",
                             "dimension of x: x=", DimsText(x), " scale=", DimsText(scale),
                             " offset=", DimsText(offset));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSoftmax(absl::Span<const int64_t> logits) {
  if (!logits.empty()) return absl::OkStatus();
  return InvalidArgument("logits must have >= 1 dimension, got ", DimsText(logits));
}

absl::StatusOr<CrossEntropyGeometry> PrepareSparseCrossEntropy(absl::Span<const int64_t> logits,
                                                               absl::Span<const int64_t> labels) {
  if (logits.size() != 2) {
    return InvalidArgument("logits must be 2-D, but got shape ", DimsText(logits));
  }
  if (labels.size() != 1) {
    return InvalidArgument("labels must be 1-D, but got shape ", DimsText(labels));
  }
  if (!MayBeEqual(logits[0], labels[0])) {
    return InvalidArgument("logits and labels must have the same first dimension, got logits ",
                           "shape ", DimsText(logits), " and labels shape ", DimsText(labels));
  }
  if (logits[1] == 0) {
    return InvalidArgument("Must have at least one class, but got logits shape ", DimsText(logits));
  }
  return CrossEntropyGeometry{std::max(logits[0], labels[0]), logits[1]};
}

absl::StatusOr<CrossEntropyGeometry> PrepareCrossEntropy(absl::Span<const int64_t> logits,
                                                         absl::Span<const int64_t> labels) {
  const std::optional<Dims> both = BroadcastDims(logits, labels);
  if (!both) {
    return InvalidArgument("logits and labels must be broadcastable: logits_size=",
                           DimsText(logits), " labels_size=", DimsText(labels));
  }
  if (both->size() != 2) {
    return InvalidArgument(
        "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional");
  }
  return CrossEntropyGeometry{(*both)[0], (*both)[1]};
}

absl::StatusOr<TopKGeometry> PrepareTopK(absl::Span<const int64_t> input, const Tensor* k) {
  TopKGeometry geometry = {-1, -1, Dims(input.begin(), input.end())};
  if (k != nullptr) {
    if (!k->shape().is_scalar()) {
      return InvalidArgument("k must be scalar, got shape ", k->shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(geometry.k, IntegerFromTensor(*k, "k"));
    if (geometry.k < 0) return InvalidArgument("Need k >= 0, got ", geometry.k);
  }
  if (input.empty()) return InvalidArgument("input must be >= 1-D, got shape ", DimsText(input));
  geometry.columns = input.back();
  if (geometry.columns >= 0 && geometry.columns < geometry.k) {
    return InvalidArgument("input must have at least k columns. Had ", geometry.columns,
                           ", needed ", geometry.k);
  }
  geometry.output.back() = geometry.k;
  return geometry;
}

absl::StatusOr<ApproxTopKAttrs> ApproxTopKAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ApproxTopKAttrs>(attrs, "k", &ApproxTopKAttrs::k, "reduction_dimension",
                                    &ApproxTopKAttrs::dimension, "is_max_k",
                                    &ApproxTopKAttrs::largest);
}

absl::StatusOr<ApproxTopKGeometry> PrepareApproxTopK(const ApproxTopKAttrs& attrs,
                                                     absl::Span<const int64_t> input) {
  if (input.empty()) return InvalidArgument("input must be >= 1-D, got shape ", DimsText(input));
  ApproxTopKGeometry geometry = {FrontAxis(attrs.dimension, static_cast<int>(input.size())),
                                 Dims(input.begin(), input.end())};
  if (geometry.dimension < 0) {
    return InvalidArgument("reduction_dimension must be in [", -static_cast<int>(input.size()),
                           ", ", input.size(), "), got ", attrs.dimension);
  }
  const int64_t n = input[geometry.dimension];
  if (n >= 0 && n < attrs.k) {
    return InvalidArgument("input must have at least k columns. Had ", n, ", needed ", attrs.k);
  }
  geometry.output[geometry.dimension] = attrs.k;
  return geometry;
}

absl::StatusOr<NthElementGeometry> PrepareNthElement(absl::Span<const int64_t> input,
                                                     const Tensor* n) {
  NthElementGeometry geometry;
  if (n != nullptr) {
    if (n->rank() != 0) return InvalidArgument("N must be scalar but has rank ", n->rank());
    geometry.n = n->scalar<int32_t>();
    if (geometry.n < 0) return InvalidArgument("n must be non-negative but is ", geometry.n);
  }
  if (input.empty()) return InvalidArgument("Input must be at least rank 1 but is rank 0");
  geometry.columns = input.back();
  if (geometry.columns >= 0 && geometry.columns <= geometry.n) {
    return InvalidArgument("Input must have last dimension > n = ", geometry.n);
  }
  geometry.output.assign(input.begin(), input.end() - 1);
  return geometry;
}

absl::Status CheckInTopK(absl::Span<const int64_t> predictions, absl::Span<const int64_t> targets,
                         absl::Span<const int64_t> k) {
  if (!k.empty()) return InvalidArgument("k must be 0-D, got shape ", DimsText(k));
  if (predictions.size() != 2) return InvalidArgument("predictions must be 2-dimensional");
  if (targets.size() != 1) return InvalidArgument("targets must be 1-dimensional");
  if (!MayBeEqual(predictions[0], targets[0])) {
    return InvalidArgument("First dimension of predictions ", predictions[0],
                           " must match length of targets ", targets[0]);
  }
  return absl::OkStatus();
}

namespace {

absl::Status BiasAddShape(InferenceContext& c) {
  if (c.input(0).known_rank()) {
    FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(c.attrs()));
    const PartialShape bias = shapes::OrOfRank(c.input(1), 1);
    FORMWORK_RETURN_IF_ERROR(PrepareBiasAdd(attrs, c.input(0).dims(), bias.dims()).status());
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status BiasAddGradShape(InferenceContext& c) {
  int64_t channels = -1;
  if (c.input(0).known_rank()) {
    FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(c.attrs()));
    FORMWORK_ASSIGN_OR_RETURN(const BiasGeometry geometry,
                              PrepareBiasAddGrad(attrs, c.input(0).dims()));
    channels = geometry.channels;
  }
  return array_shapes::SetOutput(c, 0, {channels});
}

absl::Status LayerNormShape(InferenceContext& c) {
  if (c.input(0).known_rank() && c.input(1).known_rank() && c.input(2).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(
        CheckLayerNorm(c.input(0).dims(), c.input(1).dims(), c.input(2).dims()));
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status SoftmaxShape(InferenceContext& c) {
  if (c.input(0).known_rank()) FORMWORK_RETURN_IF_ERROR(CheckSoftmax(c.input(0).dims()));
  return shapes::SameAsFirstInput(c);
}

absl::Status SetLoss(InferenceContext& c, absl::StatusOr<CrossEntropyGeometry> geometry) {
  if (!geometry.ok()) return std::move(geometry).status();
  c.set_output(0, PartialShape::Trusted({geometry->rows}));
  c.set_output(1, PartialShape::Trusted({geometry->rows, geometry->classes}));
  return absl::OkStatus();
}

absl::Status SparseCrossEntropyShape(InferenceContext& c) {
  const PartialShape logits = shapes::OrOfRank(c.input(0), 2);
  const PartialShape labels = shapes::OrOfRank(c.input(1), 1);
  return SetLoss(c, PrepareSparseCrossEntropy(logits.dims(), labels.dims()));
}

absl::Status CrossEntropyShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) {
    return SetLoss(c, CrossEntropyGeometry{-1, -1});
  }
  return SetLoss(c, PrepareCrossEntropy(c.input(0).dims(), c.input(1).dims()));
}

absl::Status TopKShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const TopKGeometry geometry,
                            PrepareTopK(c.input(0).dims(), c.constant(1)));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  c.set_output(1, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status ApproxTopKShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const ApproxTopKAttrs attrs, ApproxTopKAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ApproxTopKGeometry geometry,
                            PrepareApproxTopK(attrs, c.input(0).dims()));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  c.set_output(1, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status IsotonicShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(0));
  return absl::OkStatus();
}

absl::Status NthElementShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const NthElementGeometry geometry,
                            PrepareNthElement(c.input(0).dims(), c.constant(1)));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

// k is an input of InTopKV2, and an attr of InTopK.
absl::Status InTopKShape(InferenceContext& c) {
  const PartialShape predictions = shapes::OrOfRank(c.input(0), 2);
  const PartialShape targets = shapes::OrOfRank(c.input(1), 1);
  FORMWORK_RETURN_IF_ERROR(CheckInTopK(predictions.dims(), targets.dims(),
                                       c.num_inputs() > 2 ? c.input(2).dims() : Dims()));
  return array_shapes::SetOutput(c, 0, {std::max(predictions.dim(0), targets.dim(0))});
}

absl::Status AttentionShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const AttentionAttrs attrs, AttentionAttrs::FromAttrs(c.attrs()));
  std::vector<absl::Span<const int64_t>> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
    inputs.push_back(c.input(i).dims());
  }
  FORMWORK_ASSIGN_OR_RETURN(const AttentionGeometry geometry, PrepareAttention(attrs, inputs));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

}  // namespace

void RegisterNnOps(OpRegistry& registry) {
  registry.Add(
      "BiasAdd(value: T, bias: T) -> (output: T); T: numbertype; data_format: {\"NHWC\", \"NCHW\"} "
      "= \"NHWC\"",
      {.shape_fn = BiasAddShape});
  registry.Add("BiasAddV1(value: T, bias: T) -> (output: T); T: numbertype",
               {.shape_fn = BiasAddShape});
  registry.Add(
      "BiasAddGrad(out_backprop: T) -> (output: T); T: numbertype; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"",
      {.shape_fn = BiasAddGradShape});
  registry.Add(
      "_Attention(q: T, k: T, v: T, mask: N*M) -> (output: T); equation: string; scale: float; "
      "hidden: float = 0; broadcast: bool = false; N: int >= 0; T: {float, half, bfloat16}; M: "
      "{float, half, bfloat16, bool}",
      {.shape_fn = AttentionShape});
  registry.Add(
      "_MklLayerNorm(x: T, scale: T, offset: T) -> (y: T); T: {float, bfloat16, half}; epsilon: "
      "float = 0.001",
      {.shape_fn = LayerNormShape});
  registry.Add("Softmax(logits: T) -> (softmax: T); T: floattype", {.shape_fn = SoftmaxShape});
  registry.Add("LogSoftmax(logits: T) -> (logsoftmax: T); T: floattype",
               {.shape_fn = SoftmaxShape});
  registry.Add(
      "SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> (loss: T, backprop: "
      "T); T: floattype; Tlabels: indextype = int64",
      {.shape_fn = SparseCrossEntropyShape});
  registry.Add(
      "SoftmaxCrossEntropyWithLogits(features: T, labels: T) -> (loss: T, backprop: T); T: "
      "floattype",
      {.shape_fn = CrossEntropyShape});
  registry.Add(
      "TopKV2(input: T, k: host Tk) -> (values: T, indices: index_type); sorted: bool = true; T: "
      "realnumbertype; Tk: {int16, int32, int64} = int32; index_type: {int16, int32, int64} = "
      "int32",
      {.shape_fn = TopKShape});
  registry.Add(
      "ApproxTopK(input: T) -> (values: T, indices: int32); k: int >= 0; reduction_dimension: int "
      "= -1; recall_target: float = 0.949999988079071; is_max_k: bool = true; "
      "reduction_input_size_override: int = -1; aggregate_to_topk: bool = true; T: {half, "
      "bfloat16, float}",
      {.shape_fn = ApproxTopKShape});
  registry.Add(
      "InTopKV2(predictions: float, targets: T, k: T) -> (precision: bool); T: indextype = int32",
      {.shape_fn = InTopKShape});
  registry.Add(
      "InTopK(predictions: float, targets: T) -> (precision: bool); k: int; T: indextype = int32",
      {.shape_fn = InTopKShape});
  registry.Add(
      "NthElement(input: T, n: int32) -> (values: T); reverse: bool = false; T: realnumbertype",
      {.shape_fn = NthElementShape});
  registry.Add(
      "IsotonicRegression(input: T) -> (output: output_dtype, segments: int32); T: "
      "realnumbertype; output_dtype: floattype = float",
      {.shape_fn = IsotonicShape});
}

}  // namespace formwork
