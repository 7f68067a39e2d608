#include "core/ops/pool3d.h"

#include <limits>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<Pool3dAttrs> Pool3dAttrs::FromAttrs(const AttrMap& attrs) {
  struct Given {
    std::string format;
    std::string padding;
    std::vector<int64_t> ksize;
    std::vector<int64_t> strides;
  };
  FORMWORK_ASSIGN_OR_RETURN(
      const Given given,
      ReadAttrs<Given>(attrs, "data_format", &Given::format, "padding", &Given::padding, "ksize",
                       &Given::ksize, "strides", &Given::strides));
  if (given.format != "NDHWC") {
    return InvalidArgument("Pooling of volumes only supports NDHWC on device type CPU");
  }
  if (given.ksize.size() != 5) {
    return InvalidArgument("Sliding window ksize field must specify 5 dimensions");
  }
  if (given.strides.size() != 5) {
    return InvalidArgument("Sliding window stride field must specify 5 dimensions");
  }
  for (const std::vector<int64_t>* sizes : {&given.ksize, &given.strides}) {
    for (const int64_t size : *sizes) {
      if (size > 0 && size <= std::numeric_limits<int32_t>::max()) continue;
      return InvalidArgument("Sliding window ", sizes == &given.ksize ? "ksize" : "strides",
                             " must be positive and fit int32: ", size);
    }
  }
  if (given.ksize[0] != 1 || given.strides[0] != 1) {
    return Unimplemented("Pooling is not yet supported on the batch dimension.");
  }
  if (given.ksize[4] != 1 || given.strides[4] != 1) {
    return Unimplemented("Pooling is not yet supported on the depth dimension.");
  }
  Pool3dAttrs read;
  read.padding = given.padding == "SAME" ? Padding::kSame : Padding::kValid;
  for (size_t i = 0; i < 3; ++i) {
    read.windows[i].size = given.ksize[i + 1];
    read.windows[i].stride = given.strides[i + 1];
  }
  return read;
}

absl::StatusOr<Pool3dGeometry> PreparePool3d(const Pool3dAttrs& attrs,
                                             absl::Span<const int64_t> input) {
  if (input.size() != 5) {
    return InvalidArgument("tensor_in must be 5-dimensional: ", DimsText(input));
  }
  Pool3dGeometry geometry = {input[0], {}, input[4]};
  for (size_t i = 0; i < 3; ++i) {
    const WindowAttr& window = attrs.windows[i];
    FORMWORK_ASSIGN_OR_RETURN(const WindowedSize slid,
                              SlideWindow(input[i + 1], window.size, window, attrs.padding));
    geometry.axes[i] = {input[i + 1], slid.output, window.size, window.stride, slid.pad_before};
  }
  return geometry;
}

absl::StatusOr<Pool3dGeometry> PreparePool3dGrad(const Pool3dAttrs& attrs,
                                                 absl::Span<const int64_t> input,
                                                 absl::Span<const int64_t> grad) {
  if (grad.size() != 5) return InvalidArgument("out_backprop must be 5-dimensional");
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry, PreparePool3d(attrs, input));
  const Dims output = geometry.output_dims();
  if (!MayBeEqual(grad, output)) {
    return InvalidArgument("Expected grad shape to be ", DimsText(output), ", but got ",
                           DimsText(grad));
  }
  return geometry;
}

absl::StatusOr<Pool3dGeometry> PrepareMaxPool3dGrad(const Pool3dAttrs& attrs, const Shape& input,
                                                    const Shape& pooled, const Shape& grad) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                            PreparePool3dGrad(attrs, input.dims(), grad.dims()));
  if (pooled == grad) return geometry;
  return InvalidArgument("Expected orig_output shape to be ", grad.ToString(), ", but got ",
                         pooled.ToString());
}

absl::StatusOr<Pool3dGeometry> PrepareAvgPool3dGrad(const Pool3dAttrs& attrs, const Tensor& sizes,
                                                    const Shape& grad) {
  if (sizes.rank() != 1 || sizes.num_elements() != 5) {
    return InvalidArgument("orig_input_shape must be 1-dimensional and 5 elements");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims input, IntegersOf(sizes, "orig_input_shape"));
  for (const int64_t size : input) {
    if (size < 0) return InvalidArgument("Expected a non-negative size, got ", size);
  }
  return PreparePool3dGrad(attrs, input, grad.dims());
}

namespace {

absl::Status Pool3dShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, Pool3dAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                            PreparePool3d(attrs, shapes::OrOfRank(c.input(0), 5).dims()));
  return array_shapes::SetOutput(c, 0, geometry.output_dims());
}

absl::Status MaxPool3dGradShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, Pool3dAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                            PreparePool3dGrad(attrs, shapes::OrOfRank(c.input(0), 5).dims(),
                                              shapes::OrOfRank(c.input(2), 5).dims()));
  return array_shapes::SetOutput(c, 0, geometry.input_dims());
}

absl::Status AvgPool3dGradShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, Pool3dAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape input, shapes::ShapeFromInput(c, 0));
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                            PreparePool3dGrad(attrs, shapes::OrOfRank(input, 5).dims(),
                                              shapes::OrOfRank(c.input(1), 5).dims()));
  return array_shapes::SetOutput(c, 0, geometry.input_dims());
}

}  // namespace

void RegisterPool3dOps(OpRegistry& registry) {
  registry.Add(
      "MaxPool3D(input: T) -> (output: T); ksize: list(int) >= 5; strides: list(int) >= 5; "
      "padding: {\"SAME\", \"VALID\"}; data_format: {\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; T: {half, "
      "bfloat16, float}",
      {.shape_fn = Pool3dShape});
  registry.Add(
      "AvgPool3D(input: T) -> (output: T); ksize: list(int) >= 5; strides: list(int) >= 5; "
      "padding: {\"SAME\", \"VALID\"}; data_format: {\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; T: "
      "floattype",
      {.shape_fn = Pool3dShape});
  registry.Add(
      "MaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T) -> (output: T); ksize: "
      "list(int) >= 5; strides: list(int) >= 5; padding: {\"SAME\", \"VALID\"}; data_format: "
      "{\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; T: {half, bfloat16, float} = float; TInput: {half, "
      "bfloat16, float} = float",
      {.shape_fn = MaxPool3dGradShape});
  registry.Add(
      "AvgPool3DGrad(orig_input_shape: host int32, grad: T) -> (output: T); ksize: list(int) >= 5; "
      "strides: list(int) >= 5; padding: {\"SAME\", \"VALID\"}; data_format: {\"NDHWC\", "
      "\"NCDHW\"} = \"NDHWC\"; T: floattype",
      {.shape_fn = AvgPool3dGradShape, .sized_by_value = true});
}

}  // namespace formwork
