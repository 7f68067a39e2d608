#include "core/ops/global_norm.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<GlobalNormAttrs> GlobalNormAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<GlobalNormAttrs>(attrs, "variance_epsilon", &GlobalNormAttrs::variance_epsilon,
                                    "scale_after_normalization",
                                    &GlobalNormAttrs::scale_after_normalization);
}

absl::StatusOr<GlobalNormGeometry> PrepareGlobalNorm(absl::Span<const int64_t> input,
                                                     const std::vector<NamedDims>& vectors) {
  if (input.size() != 4) return InvalidArgument("input must be 4-dimensional", DimsText(input));
  for (const auto& [name, dims] : vectors) {
    if (dims.size() != 1) return InvalidArgument(name, " must be 1-dimensional", DimsText(dims));
  }
  int64_t channels = input[3];
  for (const auto& [name, dims] : vectors) {
    if (!MayBeEqual(dims[0], channels)) {
      return InvalidArgument(name, " must have an element for each channel: ", DimsText(dims),
                             " vs. ", DimsText(input));
    }
    channels = std::max(channels, dims[0]);
  }
  return GlobalNormGeometry{CountElements(input.subspan(0, 3)), channels};
}

absl::StatusOr<GlobalNormGeometry> PrepareGlobalNormGrad(absl::Span<const int64_t> input,
                                                         const std::vector<NamedDims>& vectors,
                                                         absl::Span<const int64_t> backprop) {
  FORMWORK_ASSIGN_OR_RETURN(const GlobalNormGeometry geometry, PrepareGlobalNorm(input, vectors));
  if (backprop.size() != 4) {
    return InvalidArgument("out_backprop must be 4-dimensional", DimsText(backprop));
  }
  if (!MayBeEqual(input, backprop)) {
    return InvalidArgument("out_backprop must have the input's shape: ", DimsText(backprop),
                           " vs. ", DimsText(input));
  }
  return geometry;
}

namespace {

absl::Status GlobalNormShape(InferenceContext& c) {
  std::vector<PartialShape> shapes;
  for (int i = 0; i < 5; ++i) shapes.push_back(shapes::OrOfRank(c.input(i), i == 0 ? 4 : 1));
  FORMWORK_ASSIGN_OR_RETURN(const GlobalNormGeometry geometry,
                            PrepareGlobalNorm(shapes[0].dims(), {{"mean", shapes[1].dims()},
                                                                 {"var", shapes[2].dims()},
                                                                 {"beta", shapes[3].dims()},
                                                                 {"gamma", shapes[4].dims()}}));
  Dims dims(shapes[0].dims().begin(), shapes[0].dims().end());
  dims[3] = geometry.channels;
  return array_shapes::SetOutput(c, 0, dims);
}

absl::Status GlobalNormGradShape(InferenceContext& c) {
  std::vector<PartialShape> shapes;
  for (int i = 0; i < 5; ++i) {
    shapes.push_back(shapes::OrOfRank(c.input(i), i == 0 || i == 4 ? 4 : 1));
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const GlobalNormGeometry geometry,
      PrepareGlobalNormGrad(
          shapes[0].dims(),
          {{"mean", shapes[1].dims()}, {"var", shapes[2].dims()}, {"gamma", shapes[3].dims()}},
          shapes[4].dims()));
  Dims dims;
  for (int d = 0; d < 4; ++d) dims.push_back(std::max(shapes[0].dim(d), shapes[4].dim(d)));
  dims[3] = std::max(dims[3], geometry.channels);
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 0, dims));
  for (int i = 1; i < 5; ++i) {
    FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, i, {dims[3]}));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterGlobalNormOps(OpRegistry& registry) {
  registry.Add(
      "BatchNormWithGlobalNormalization(t: T, m: T, v: T, beta: T, gamma: T) -> (result: T); T: "
      "numbertype; variance_epsilon: float; scale_after_normalization: bool",
      {.shape_fn = GlobalNormShape});
  registry.Add(
      "BatchNormWithGlobalNormalizationGrad(t: T, m: T, v: T, gamma: T, backprop: T) -> (dx: T, "
      "dm: T, dv: T, db: T, dg: T); T: numbertype; variance_epsilon: float; "
      "scale_after_normalization: bool",
      {.shape_fn = GlobalNormGradShape});
}

}  // namespace formwork
