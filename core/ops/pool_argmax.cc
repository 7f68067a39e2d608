#include "core/ops/pool_argmax.h"

#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/pool.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<PoolArgmaxAttrs> PoolArgmaxAttrs::FromAttrs(const AttrMap& attrs) {
  AttrMap with_format = attrs;
  with_format.Set("data_format", std::string("NHWC"));
  PoolArgmaxAttrs read;
  FORMWORK_ASSIGN_OR_RETURN(read.window, SlidingAttrs::OfPool(with_format));
  if (read.window.depth_window > 1) {
    return Unimplemented(
        "MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
  }
  FORMWORK_ASSIGN_OR_RETURN(read.include_batch_in_index, attrs.Get<bool>("include_batch_in_index"));
  return read;
}

absl::StatusOr<ConvShape> PreparePoolArgmax(const PoolArgmaxAttrs& attrs,
                                            absl::Span<const int64_t> input) {
  if (input.size() != 4) return InvalidArgument("tensor_in must be 4-dimensional (2)");
  if (std::count(input.begin(), input.end(), 0) > 0) {
    return InvalidArgument("tensor_in must not be empty (2)");
  }
  return PreparePool(attrs.window, input);
}

absl::StatusOr<ConvShape> PreparePoolArgmaxGrad(const PoolArgmaxAttrs& attrs,
                                                absl::Span<const int64_t> input,
                                                absl::Span<const int64_t> grad,
                                                absl::Span<const int64_t> argmax) {
  if (input.size() != 4) {
    return InvalidArgument("tensor_in_shape must have 2 spatial dimensions. ", input.size(), " 0");
  }
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, PreparePool(attrs.window, input));
  const Dims output = shape.output_dims();
  if (grad.size() != 4 || !MayBeEqual(grad, output)) {
    return InvalidArgument("Expected grad shape to be ", DimsText(output), ", but got ",
                           DimsText(grad));
  }
  if (argmax.size() != 4 || !MayBeEqual(argmax, output)) {
    return InvalidArgument("Expected argmax shape to be ", DimsText(output), ", but got ",
                           DimsText(argmax));
  }
  return shape;
}

namespace {

absl::Status PoolArgmaxShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const PoolArgmaxAttrs attrs, PoolArgmaxAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PreparePoolArgmax(attrs, shapes::OrOfRank(c.input(0), 4).dims()));
  for (int i = 0; i < 2; ++i) c.set_output(i, PartialShape::Trusted(shape.output_dims()));
  return absl::OkStatus();
}

}  // namespace

void RegisterPoolArgmaxOps(OpRegistry& registry) {
  registry.Add(
      "MaxPoolWithArgmax(input: T) -> (output: T, argmax: Targmax); ksize: list(int) >= 4; "
      "strides: list(int) >= 4; Targmax: indextype = int64; padding: {\"SAME\", \"VALID\"}; "
      "include_batch_in_index: bool = false; T: realnumbertype",
      {.shape_fn = PoolArgmaxShape});
  registry.Add(
      "MaxPoolGradWithArgmax(input: T, grad: T, argmax: Targmax) -> (output: T); ksize: list(int) "
      ">= 4; strides: list(int) >= 4; padding: {\"SAME\", \"VALID\"}; include_batch_in_index: bool "
      "= false; Targmax: indextype; T: realnumbertype",
      {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
