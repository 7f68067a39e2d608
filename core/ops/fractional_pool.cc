#include "core/ops/fractional_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<FractionalPoolAttrs> FractionalPoolAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      FractionalPoolAttrs read,
      ReadAttrs<FractionalPoolAttrs>(
          attrs, "pooling_ratio", &FractionalPoolAttrs::pooling_ratio, "pseudo_random",
          &FractionalPoolAttrs::pseudo_random, "overlapping", &FractionalPoolAttrs::overlapping,
          "deterministic", &FractionalPoolAttrs::deterministic, "seed", &FractionalPoolAttrs::seed,
          "seed2", &FractionalPoolAttrs::seed2));
  if (read.pooling_ratio.size() != 4) {
    return InvalidArgument("pooling_ratio field must specify 4 dimensions");
  }
  for (const float ratio : read.pooling_ratio) {
    if (!(ratio >= 1)) {
      return InvalidArgument("pooling_ratio cannot be smaller than 1, got: ", ratio);
    }
  }
  if (read.pooling_ratio[0] != 1 || read.pooling_ratio[3] != 1) {
    return Unimplemented(
        "Fractional pooling is not yet supported on the batch nor channel dimension.");
  }
  if (!read.deterministic && (read.seed != 0 || read.seed2 != 0)) {
    return InvalidArgument("Both seed and seed2 should be 0 if deterministic is false.");
  }
  return read;
}

absl::StatusOr<Dims> PrepareFractionalPool(const FractionalPoolAttrs& attrs,
                                           absl::Span<const int64_t> input) {
  if (input.size() != 4) return InvalidArgument("tensor_in must be 4-dimensional");
  Dims output(input.begin(), input.end());
  for (size_t i = 1; i < 3; ++i) {
    if (input[i] < 0) continue;
    const float ratio = attrs.pooling_ratio[i];
    if (static_cast<float>(input[i]) < ratio) {
      return InvalidArgument("Pooling ratio is higher than input dimension size for dimension ", i,
                             ". Input dim size: ", input[i], " pooling ratio: ", ratio);
    }
    if (input[i] > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("image is too large: ", DimsText(input));
    }
    output[i] = static_cast<int64_t>(std::floor(static_cast<float>(input[i]) / ratio));
    output[i] = std::min(output[i], input[i]);
  }
  return output;
}

absl::Status CheckPoolingSequence(const Tensor& sequence, int64_t input, int64_t output,
                                  bool overlapping) {
  if (sequence.rank() != 1 || sequence.num_elements() != output + 1) {
    return InvalidArgument("a pooling sequence must be a vector of ", output + 1,
                           " borders, got shape ", sequence.shape().ToString());
  }
  const int64_t* const borders = sequence.data<int64_t>();
  for (int64_t i = 0; i < output; ++i) {
    const bool empty = overlapping ? borders[i + 1] < borders[i] : borders[i + 1] <= borders[i];
    if (borders[i] < 0 || borders[i] >= input || empty) {
      return InvalidArgument("a pooling sequence must rise within the image: ", borders[i], ", ",
                             borders[i + 1], " of ", input);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFractionalMaxPoolGrad(absl::Span<const int64_t> input,
                                        absl::Span<const int64_t> output,
                                        absl::Span<const int64_t> grad) {
  for (const absl::Span<const int64_t> dims : {input, output, grad}) {
    if (dims.size() != 4) {
      return InvalidArgument("images must be 4-dimensional, got shape ", DimsText(dims));
    }
  }
  if (!MayBeEqual(output, grad) || !MayBeEqual(input[0], output[0]) ||
      !MayBeEqual(input[3], output[3])) {
    return InvalidArgument("images do not fit: orig_input=", DimsText(input),
                           " orig_output=", DimsText(output), " out_backprop=", DimsText(grad));
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> PrepareFractionalAvgPoolGrad(const Tensor& orig_input_shape,
                                                   absl::Span<const int64_t> grad) {
  if (orig_input_shape.rank() != 1 || orig_input_shape.num_elements() != 4) {
    return InvalidArgument("original input tensor shape must be 1-dimensional and 4 elements");
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape input, ShapeFromTensor(orig_input_shape, "orig_input_shape"));
  if (grad.size() != 4 || !MayBeEqual(grad[0], input.dim(0)) ||
      !MayBeEqual(grad[3], input.dim(3))) {
    return InvalidArgument("images do not fit: orig_input=", input.ToString(),
                           " out_backprop=", DimsText(grad));
  }
  return input;
}

namespace {

absl::Status FractionalPoolShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const FractionalPoolAttrs attrs,
                            FractionalPoolAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareFractionalPool(attrs, shapes::OrOfRank(c.input(0), 4).dims()));
  c.set_output(0, PartialShape::Trusted(dims));
  for (int i = 1; i < 3; ++i) {
    c.set_output(i, PartialShape::Trusted({dims[i] < 0 ? -1 : dims[i] + 1}));
  }
  return absl::OkStatus();
}

absl::Status FractionalMaxPoolGradShape(InferenceContext& c) {
  c.set_output(0, shapes::OrOfRank(c.input(0), 4));
  return absl::OkStatus();
}

absl::Status FractionalAvgPoolGradShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape input, shapes::ShapeFromInput(c, 0));
  c.set_output(0, shapes::OrOfRank(input, 4));
  return absl::OkStatus();
}

}  // namespace

void RegisterFractionalPoolOps(OpRegistry& registry) {
  for (const char* name : {"FractionalMaxPool", "FractionalAvgPool"}) {
    registry.Add(
        absl::StrCat(name,
                     "(value: T) -> (output: T, row_pooling_sequence: int64, "
                     "col_pooling_sequence: int64); pooling_ratio: list(float) >= 4; "
                     "pseudo_random: bool = false; overlapping: bool = false; deterministic: bool "
                     "= false; seed: int = 0; seed2: int = 0; T: {float, double, int32, int64}"),
        {.shape_fn = FractionalPoolShape, .effect = Effect::kRandom});
  }
  registry.Add(
      "FractionalMaxPoolGrad(orig_input: T, orig_output: T, out_backprop: T, "
      "row_pooling_sequence: int64, col_pooling_sequence: int64) -> (output: T); overlapping: bool "
      "= false; T: {float, double, int32, int64}",
      {.shape_fn = FractionalMaxPoolGradShape});
  registry.Add(
      "FractionalAvgPoolGrad(orig_input_tensor_shape: int64, out_backprop: T, "
      "row_pooling_sequence: int64, col_pooling_sequence: int64) -> (output: T); overlapping: bool "
      "= false; T: {float, double, int32, int64}",
      {.shape_fn = FractionalAvgPoolGradShape, .sized_by_value = true});
}

}  // namespace formwork
