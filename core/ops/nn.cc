#include <utility>

#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

int ChannelAxis(const InferenceContext& c, const PartialShape& value) {
  return c.attrs().GetOr<std::string>("data_format", "NHWC") == "NCHW" ? 1 : value.rank() - 1;
}

absl::Status CheckValueRank(const PartialShape& value) {
  if (!value.known_rank() || value.rank() >= 2) return absl::OkStatus();
  return InvalidArgument("Shape must be at least rank 2 but is rank ", value.rank());
}

absl::Status BiasAddShape(InferenceContext& c) {
  const PartialShape& value = c.input(0);
  FORMWORK_RETURN_IF_ERROR(CheckValueRank(value));
  FORMWORK_ASSIGN_OR_RETURN(PartialShape bias, shapes::WithRank(c.input(1), 1, "bias"));
  if (!value.known_rank()) return absl::OkStatus();
  const int64_t channels = value.dim(ChannelAxis(c, value));
  if (channels >= 0 && bias.dim(0) >= 0 && channels != bias.dim(0)) {
    return InvalidArgument("Dimensions must be equal, but are ", channels, " and ", bias.dim(0),
                           ": inputs=", value.ToString(), " and ", bias.ToString());
  }
  c.set_output(0, value);
  return absl::OkStatus();
}

absl::Status BiasAddGradShape(InferenceContext& c) {
  const PartialShape& value = c.input(0);
  FORMWORK_RETURN_IF_ERROR(CheckValueRank(value));
  c.set_output(0, PartialShape::Trusted(
                      {value.known_rank() ? value.dim(ChannelAxis(c, value)) : int64_t{-1}}));
  return absl::OkStatus();
}

absl::Status SoftmaxShape(InferenceContext& c) {
  if (c.input(0).rank() == 0) {
    return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status SparseCrossEntropyShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape logits, shapes::WithRank(c.input(0), 2, "features"));
  FORMWORK_ASSIGN_OR_RETURN(PartialShape labels, shapes::WithRank(c.input(1), 1, "labels"));
  const int64_t rows = logits.dim(0) >= 0 ? logits.dim(0) : labels.dim(0);
  if (labels.dim(0) >= 0 && rows != labels.dim(0)) {
    return InvalidArgument("Dimensions must be equal, but are ", rows, " and ", labels.dim(0),
                           ": inputs=", logits.ToString(), " and ", labels.ToString());
  }
  logits.set_dim(0, rows);
  c.set_output(0, PartialShape::Trusted({rows}));
  c.set_output(1, std::move(logits));
  return absl::OkStatus();
}

absl::Status CrossEntropyShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape both, shapes::BroadcastShapes(c.input(0), c.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(both, shapes::WithRank(both, 2, "features"));
  c.set_output(0, PartialShape::Trusted({both.dim(0)}));
  c.set_output(1, std::move(both));
  return absl::OkStatus();
}

absl::Status TopKShape(InferenceContext& c) {
  PartialShape shape = c.input(0);
  if (!shape.known_rank()) return absl::OkStatus();
  if (shape.rank() == 0) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  int64_t k = -1;
  const Tensor* tensor = c.constant(1);
  if (tensor != nullptr && tensor->num_elements() == 1 && tensor->dtype() != DType::kInt16) {
    FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(*tensor, "k"));
    k = values[0];
    if (k < 0) return InvalidArgument("Need k >= 0, got ", k);
  }
  const int last = shape.rank() - 1;
  if (k > shape.dim(last) && shape.dim(last) >= 0) {
    return InvalidArgument("input must have last dimension >= k = ", k, " but is ",
                           shape.dim(last));
  }
  shape.set_dim(last, k);
  c.set_output(0, shape);
  c.set_output(1, std::move(shape));
  return absl::OkStatus();
}

absl::Status InTopKShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape targets, shapes::WithRank(c.input(1), 1, "targets"));
  c.set_output(0, std::move(targets));
  return absl::OkStatus();
}

}  // namespace

void RegisterNnOps(OpRegistry& registry) {
  registry.Add(
      "BiasAdd(value: T, bias: T) -> (output: T); T: numbertype; data_format: {\"NHWC\", \"NCHW\"} "
      "= \"NHWC\"",
      {.shape_fn = BiasAddShape});
  registry.Add(
      "BiasAddGrad(out_backprop: T) -> (output: T); T: numbertype; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"",
      {.shape_fn = BiasAddGradShape});
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
      "InTopKV2(predictions: float, targets: T, k: T) -> (precision: bool); T: indextype = int32",
      {.shape_fn = InTopKShape});
}

}  // namespace formwork
