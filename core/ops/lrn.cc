#include "core/ops/lrn.h"

#include <limits>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<LrnAttrs> LrnAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const LrnAttrs read,
      ReadAttrs<LrnAttrs>(attrs, "depth_radius", &LrnAttrs::depth_radius, "bias", &LrnAttrs::bias,
                          "alpha", &LrnAttrs::alpha, "beta", &LrnAttrs::beta));
  if (read.depth_radius < 0 || read.depth_radius >= std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("depth_radius = ", read.depth_radius, " larger than int max");
  }
  return read;
}

absl::Status CheckLrn(absl::Span<const int64_t> input) {
  if (input.size() == 4) return absl::OkStatus();
  return InvalidArgument("in must be 4-dimensional");
}

absl::Status CheckLrnGrad(absl::Span<const int64_t> input_grads,
                          absl::Span<const int64_t> input_image,
                          absl::Span<const int64_t> output_image) {
  if (input_grads.size() != 4 || input_image.size() != 4 || output_image.size() != 4) {
    return InvalidArgument("inputs must be 4-dimensional");
  }
  if (MayBeEqual(input_grads, input_image) && MayBeEqual(input_image, output_image)) {
    return absl::OkStatus();
  }
  return InvalidArgument("input_grads, input_image, and out_image should have the same shape");
}

void RegisterLrnOps(OpRegistry& registry) {
  registry.Add(
      "LRN(input: T) -> (output: T); depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; "
      "beta: float = 0.5; T: {half, bfloat16, float} = float",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "LRNGrad(input_grads: T, input_image: T, output_image: T) -> (output: T); depth_radius: int "
      "= 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; T: {half, bfloat16, float} = "
      "float",
      {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
