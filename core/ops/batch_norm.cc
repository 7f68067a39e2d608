#include "core/ops/batch_norm.h"

#include <algorithm>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<BatchNormGeometry> GeometryOf(const BatchNormAttrs& attrs,
                                             absl::Span<const int64_t> x) {
  if (static_cast<int>(x.size()) != attrs.rank) {
    return InvalidArgument("input must be ", attrs.rank, "-dimensional", DimsText(x));
  }
  const size_t at = attrs.channels_first ? 1 : x.size() - 1;
  BatchNormGeometry geometry;
  geometry.channels = x[at];
  if (CountElements(x) == 0) return geometry;
  geometry.outer = CountElements(x.first(at));
  geometry.inner = CountElements(x.subspan(at + 1));
  return geometry;
}

// `channels` becomes known where that of x is not.
absl::Status CheckVector(absl::string_view condition, absl::string_view name,
                         absl::Span<const int64_t> vector, int64_t& channels) {
  if (vector.size() != 1) {
    return InvalidArgument(name, " must be 1-dimensional", DimsText(vector));
  }
  if (!MayBeEqual(vector[0], channels)) {
    return InvalidArgument(condition, name,
                           " must have the same number of elements as the channels of x, got ",
                           vector[0], " and ", channels);
  }
  channels = std::max(channels, vector[0]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BatchNormAttrs> BatchNormAttrs::OfGradient(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(BatchNormAttrs read,
                            ReadAttrs<BatchNormAttrs>(attrs, "epsilon", &BatchNormAttrs::epsilon,
                                                      "is_training", &BatchNormAttrs::is_training));
  FORMWORK_ASSIGN_OR_RETURN(const std::string format, attrs.Get<std::string>("data_format"));
  read.channels_first = format == "NCHW" || format == "NCDHW";
  read.rank = static_cast<int>(format.size());
  return read;
}

absl::StatusOr<BatchNormAttrs> BatchNormAttrs::OfForward(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(BatchNormAttrs read, OfGradient(attrs));
  FORMWORK_ASSIGN_OR_RETURN(read.factor, attrs.Get<float>("exponential_avg_factor"));
  return read;
}

bool IsOfOnednn(const BatchNormAttrs& attrs, DType dtype) {
  return attrs.rank == 4 && (dtype == DType::kFloat || dtype == DType::kBfloat16);
}

absl::StatusOr<BatchNormGeometry> PrepareBatchNorm(const BatchNormAttrs& attrs,
                                                   absl::Span<const int64_t> x,
                                                   const BatchNormVectors& vectors) {
  FORMWORK_ASSIGN_OR_RETURN(BatchNormGeometry geometry, GeometryOf(attrs, x));
  int64_t& channels = geometry.channels;
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "scale", vectors.scale, channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "offset", vectors.offset, channels));
  if (!attrs.needs_old()) return geometry;
  const absl::string_view when =
      attrs.is_training ? "When exponential_avg_factor != 1, " : "When is_training=false, ";
  FORMWORK_RETURN_IF_ERROR(CheckVector(when, "mean", vectors.mean, channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector(when, "variance", vectors.variance, channels));
  return geometry;
}

absl::StatusOr<BatchNormGeometry> PrepareBatchNormGrad(const BatchNormAttrs& attrs,
                                                       absl::Span<const int64_t> dy,
                                                       absl::Span<const int64_t> x,
                                                       const BatchNormVectors& vectors) {
  FORMWORK_ASSIGN_OR_RETURN(BatchNormGeometry geometry, GeometryOf(attrs, x));
  if (!MayBeEqual(dy, x)) {
    return InvalidArgument("x and y_backprop must have same shape, but x has shape ", DimsText(x),
                           " and y_backprop has shape ", DimsText(dy));
  }
  int64_t& channels = geometry.channels;
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "scale", vectors.scale, channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "reserve_space_1", vectors.mean, channels));
  FORMWORK_RETURN_IF_ERROR(CheckVector("", "reserve_space_2", vectors.variance, channels));
  return geometry;
}

namespace {

PartialShape UnusedShape(bool empty) {
  return empty ? PartialShape::Trusted({0}) : PartialShape::OfRank(0);
}

absl::Status InferForward(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfForward(c.attrs()));
  const PartialShape x = shapes::OrOfRank(c.input(0), attrs.rank);
  const PartialShape scale = shapes::OrOfRank(c.input(1), 1);
  const PartialShape offset = shapes::OrOfRank(c.input(2), 1);
  const PartialShape mean = shapes::OrOfRank(c.input(3), 1);
  const PartialShape variance = shapes::OrOfRank(c.input(4), 1);
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormGeometry geometry,
                            PrepareBatchNorm(attrs, x.dims(),
                                             {.scale = scale.dims(),
                                              .offset = offset.dims(),
                                              .mean = mean.dims(),
                                              .variance = variance.dims()}));
  c.set_output(0, x);
  for (int i = 1; i <= 4; ++i) c.set_output(i, PartialShape::Trusted({geometry.channels}));
  if (c.num_outputs() > 5) c.set_output(5, UnusedShape(IsOfOnednn(attrs, c.input_dtype(0))));
  return absl::OkStatus();
}

absl::Status InferGradient(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfGradient(c.attrs()));
  const PartialShape dy = shapes::OrOfRank(c.input(0), attrs.rank);
  const PartialShape x = shapes::OrOfRank(c.input(1), attrs.rank);
  const PartialShape scale = shapes::OrOfRank(c.input(2), 1);
  const PartialShape mean = shapes::OrOfRank(c.input(3), 1);
  const PartialShape variance = shapes::OrOfRank(c.input(4), 1);
  FORMWORK_ASSIGN_OR_RETURN(
      const BatchNormGeometry geometry,
      PrepareBatchNormGrad(
          attrs, dy.dims(), x.dims(),
          {.scale = scale.dims(), .offset = {}, .mean = mean.dims(), .variance = variance.dims()}));
  c.set_output(0, x);
  c.set_output(1, PartialShape::Trusted({geometry.channels}));
  c.set_output(2, PartialShape::Trusted({geometry.channels}));
  for (int i = 3; i <= 4; ++i) {
    c.set_output(i, UnusedShape(!IsOfOnednn(attrs, c.input_dtype(1))));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterBatchNormOps(OpRegistry& registry) {
  registry.Add(
      "FusedBatchNorm(x: T, scale: T, offset: T, mean: T, variance: T) -> (y: T, batch_mean: T, "
      "batch_variance: T, reserve_space_1: T, reserve_space_2: T); T: {float}; epsilon: float = "
      "9.999999747378752e-05; exponential_avg_factor: float = 1.0; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferForward});
  registry.Add(
      "FusedBatchNormGrad(y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T) "
      "-> (x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, "
      "reserve_space_4: T); T: {float}; epsilon: float = 9.999999747378752e-05; data_format: "
      "{\"NHWC\", \"NCHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferGradient});
  registry.Add(
      "FusedBatchNormV2(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, batch_mean: U, "
      "batch_variance: U, reserve_space_1: U, reserve_space_2: U); T: {half, bfloat16, float}; U: "
      "{float}; epsilon: float = 9.999999747378752e-05; exponential_avg_factor: float = 1.0; "
      "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferForward});
  registry.Add(
      "FusedBatchNormGradV2(y_backprop: T, x: T, scale: float, reserve_space_1: U, "
      "reserve_space_2: U) -> (x_backprop: T, scale_backprop: U, offset_backprop: U, "
      "reserve_space_3: U, reserve_space_4: U); T: {half, bfloat16, float}; U: {float}; epsilon: "
      "float = 9.999999747378752e-05; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; "
      "is_training: bool = true",
      {.shape_fn = InferGradient});
  registry.Add(
      "FusedBatchNormV3(x: T, scale: U, offset: U, mean: U, variance: U) -> (y: T, "
      "batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, "
      "reserve_space_3: U); T: {half, bfloat16, float}; U: {bfloat16, float}; epsilon: "
      "float = 9.999999747378752e-05; exponential_avg_factor: float = 1.0; data_format: "
      "{\"NHWC\", \"NCHW\", \"NDHWC\", \"NCDHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferForward});
  registry.Add(
      "FusedBatchNormGradV3(y_backprop: T, x: T, scale: float, reserve_space_1: U, "
      "reserve_space_2: U, reserve_space_3: U) -> (x_backprop: T, scale_backprop: U, "
      "offset_backprop: U, reserve_space_4: U, reserve_space_5: U); T: {half, bfloat16, "
      "float}; U: {float}; epsilon: float = 9.999999747378752e-05; data_format: {\"NHWC\", "
      "\"NCHW\", \"NDHWC\", \"NCDHW\"} = \"NHWC\"; is_training: bool = true",
      {.shape_fn = InferGradient});
}

}  // namespace formwork
