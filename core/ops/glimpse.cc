#include "core/ops/glimpse.h"

#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<GlimpseAttrs> GlimpseAttrs::FromAttrs(const AttrMap& attrs) {
  GlimpseAttrs read;
  FORMWORK_ASSIGN_OR_RETURN(read.centered, attrs.Get<bool>("centered"));
  FORMWORK_ASSIGN_OR_RETURN(read.normalized, attrs.Get<bool>("normalized"));
  FORMWORK_ASSIGN_OR_RETURN(const bool uniform, attrs.Get<bool>("uniform_noise"));
  FORMWORK_ASSIGN_OR_RETURN(const std::string noise, attrs.Get<std::string>("noise"));
  if (uniform && !noise.empty() && noise != "uniform") {
    return InvalidArgument("The uniform_noise should not be True when noise is not uniform");
  }
  if (noise == "uniform" || uniform) {
    read.noise = GlimpseNoise::kUniform;
  } else if (noise == "gaussian" || noise.empty()) {
    read.noise = GlimpseNoise::kGaussian;
  } else if (noise == "zero") {
    read.noise = GlimpseNoise::kZero;
  } else {
    return InvalidArgument("The noise could only be uniform, gaussian, or zero, got", noise);
  }
  return read;
}

int64_t GlimpseAttrs::BeginOf(float offset, int64_t window, int64_t image) const {
  const auto size = static_cast<float>(image);
  float at = normalized ? offset * size : offset;
  if (centered) {
    if (normalized || offsets_of_middle) at /= 2;
    at += size / 2;
  }
  if (offsets_of_middle || (normalized && centered)) at -= static_cast<float>(window) / 2;
  // Also what is no number is nowhere.
  constexpr float kFar = 4611686018427387904.0f;
  return at > -kFar && at < kFar ? std::max(static_cast<int64_t>(at), -window) : -window;
}

absl::StatusOr<GlimpseGeometry> PrepareGlimpse(absl::Span<const int64_t> images, const Tensor* size,
                                               absl::Span<const int64_t> offsets) {
  if (images.size() != 4) {
    return InvalidArgument("input must be 4-dimensional (batch_size, height, width, depth)",
                           DimsText(images));
  }
  int64_t rows = -1, cols = -1;
  if (size != nullptr) {
    if (size->rank() != 1 || size->dim(0) != 2) {
      return InvalidArgument("input must be a vector of size 2 (height, width)",
                             size->shape().ToString());
    }
    rows = size->data<int32_t>()[0];
    cols = size->data<int32_t>()[1];
    if (std::min(rows, cols) < 0) {
      return InvalidArgument("Expected a non-negative size, got ", rows < 0 ? rows : cols);
    }
  }
  if (offsets.size() != 2) return InvalidArgument("input must be a matrix", DimsText(offsets));
  if (!MayBeEqual(offsets[0], images[0])) {
    return InvalidArgument("first dimension should be batch", DimsText(offsets));
  }
  if (!MayBeEqual(offsets[1], 2)) {
    return InvalidArgument("second dimension should be of size 2 (y,x)", DimsText(offsets));
  }
  return GlimpseGeometry{
      std::max(images[0], offsets[0]), images[1], images[2], images[3], rows, cols};
}

namespace {

absl::Status GlimpseShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const GlimpseGeometry geometry,
                            PrepareGlimpse(shapes::OrOfRank(c.input(0), 4).dims(), c.constant(1),
                                           shapes::OrOfRank(c.input(2), 2).dims()));
  return array_shapes::SetOutput(c, 0, geometry.glimpses());
}

}  // namespace

void RegisterGlimpseOps(OpRegistry& registry) {
  // Noise is random, which TensorFlow does not say.
  const OpTraits traits = {
      .shape_fn = GlimpseShape, .effect = Effect::kRandom, .sized_by_value = true};
  registry.Add(
      "ExtractGlimpse(input: float, size: int32, offsets: float) -> (glimpse: float); centered: "
      "bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = "
      "\"uniform\"",
      traits);
  registry.Add(
      "ExtractGlimpseV2(input: float, size: int32, offsets: float) -> (glimpse: float); centered: "
      "bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = "
      "\"uniform\"",
      traits);
}

}  // namespace formwork
