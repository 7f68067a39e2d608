#include "core/ops/pool.h"

#include <limits>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

using DimsView = absl::Span<const int64_t>;
constexpr char kReluAttr[] = "_relu";

absl::Status CheckShape(absl::string_view what, DimsView expected, DimsView got) {
  if (MayBeEqual(expected, got)) return absl::OkStatus();
  return InvalidArgument("Expected ", what, " shape to be ", DimsText(expected), ", but got ",
                         DimsText(got));
}

}  // namespace

absl::StatusOr<ConvShape> PreparePool(const SlidingAttrs& attrs, DimsView input) {
  if (input.size() != 4) {
    return InvalidArgument("tensor_in must be 4-dimensional: ", DimsText(input));
  }
  ConvShape shape;
  shape.batch = input[0];
  shape.in_channels = shape.out_channels = input[attrs.layout.channels()];
  shape.channels_first = attrs.layout.channels_first;
  if (attrs.depth_window > 1) {
    if (shape.in_channels > 0 && shape.in_channels % attrs.depth_window != 0) {
      return Unimplemented(
          "Depthwise max pooling requires the depth window to evenly divide the input depth");
    }
    if (attrs.rows.stride != 1 || attrs.cols.stride != 1) {
      return Unimplemented(
          "MaxPooling supports exactly one of pooling across depth or pooling across "
          "width/height.");
    }
    if (shape.in_channels > 0) shape.out_channels /= attrs.depth_window;
  }
  const auto axis = [&](int64_t size, const WindowAttr& window) -> absl::StatusOr<ConvAxis> {
    FORMWORK_ASSIGN_OR_RETURN(const WindowedSize slid,
                              SlideWindow(size, window.size, window, attrs.padding));
    return ConvAxis{size, slid.output,     window.size,   window.stride,
                    1,    slid.pad_before, slid.pad_after};
  };
  FORMWORK_ASSIGN_OR_RETURN(shape.rows, axis(input[attrs.layout.rows()], attrs.rows));
  FORMWORK_ASSIGN_OR_RETURN(shape.cols, axis(input[attrs.layout.cols()], attrs.cols));
  return shape;
}

absl::StatusOr<SlidingAttrs> MaxPoolV2Attrs(const AttrMap& attrs, const Tensor& ksize,
                                            const Tensor& strides) {
  AttrMap all = attrs;
  for (const Tensor* input : {&ksize, &strides}) {
    const bool size = input == &ksize;
    if (input->rank() != 1 || input->num_elements() != 4) {
      return InvalidArgument("Sliding window ", size ? "ksize" : "stride",
                             " field must specify 4 dimensions");
    }
    FORMWORK_ASSIGN_OR_RETURN(const Dims values, IntegersOf(*input, size ? "ksize" : "strides"));
    all.Set(size ? "ksize" : "strides", std::vector<int64_t>(values.begin(), values.end()));
  }
  return SlidingAttrs::OfPool(all);
}

absl::StatusOr<ConvShape> PrepareMaxPoolGrad(const SlidingAttrs& attrs, DimsView orig_input,
                                             DimsView orig_output, DimsView grad) {
  if (grad.size() != 4) return InvalidArgument("out_backprop must be 4-dimensional");
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, PreparePool(attrs, orig_input));
  const Dims output = shape.output_dims();
  FORMWORK_RETURN_IF_ERROR(CheckShape("orig_output", output, orig_output));
  FORMWORK_RETURN_IF_ERROR(CheckShape("grad", output, grad));
  const std::optional<int64_t> pixels = MultiplyDims(shape.rows.input, shape.cols.input);
  if (!pixels.has_value() || *pixels > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("MaxPoolGrad: image is too large: ", DimsText(orig_input));
  }
  return shape;
}

absl::StatusOr<ConvShape> PrepareAvgPoolGrad(const SlidingAttrs& attrs, DimsView orig_input_shape,
                                             DimsView grad) {
  if (orig_input_shape.size() != 4) {
    return InvalidArgument("orig_input_shape must be 1-dimensional and 4 elements");
  }
  if (grad.size() != 4) return InvalidArgument("out_backprop must be 4-dimensional");
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, PreparePool(attrs, orig_input_shape));
  FORMWORK_RETURN_IF_ERROR(CheckShape("grad", shape.output_dims(), grad));
  return shape;
}

absl::StatusOr<ConvShape> PrepareAvgPoolGrad(const SlidingAttrs& attrs,
                                             const Tensor& orig_input_shape, DimsView grad) {
  if (orig_input_shape.rank() != 1 || orig_input_shape.num_elements() != 4) {
    return InvalidArgument("orig_input_shape must be 1-dimensional and 4 elements");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, IntegersOf(orig_input_shape, "orig_input_shape"));
  for (int64_t dim : dims) {
    if (dim < 0) return InvalidArgument("Expected a non-negative size, got ", dim);
  }
  return PrepareAvgPoolGrad(attrs, DimsView(dims), grad);
}

bool OfRelu(const AttrMap& attrs) { return attrs.GetOr(kReluAttr, false); }
void SetOfRelu(AttrMap& attrs) { attrs.Set(kReluAttr, true); }

namespace {

absl::Status PoolShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PreparePool(attrs, shapes::OrOfRank(c.input(0), 4).dims()));
  c.set_output(0, PartialShape::Trusted(shape.output_dims()));
  return absl::OkStatus();
}

absl::Status MaxPoolV2Shape(InferenceContext& c) {
  c.set_output(0, PartialShape::OfRank(4));
  if (c.constant(1) == nullptr || c.constant(2) == nullptr) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs,
                            MaxPoolV2Attrs(c.attrs(), *c.constant(1), *c.constant(2)));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PreparePool(attrs, shapes::OrOfRank(c.input(0), 4).dims()));
  c.set_output(0, PartialShape::Trusted(shape.output_dims()));
  return absl::OkStatus();
}

absl::Status MaxPoolGradShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PrepareMaxPoolGrad(attrs, shapes::OrOfRank(c.input(0), 4).dims(),
                                               shapes::OrOfRank(c.input(1), 4).dims(),
                                               shapes::OrOfRank(c.input(2), 4).dims()));
  c.set_output(0, PartialShape::Trusted(shape.input_dims()));
  return absl::OkStatus();
}

absl::Status MaxPoolGradV2Shape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// The gradient of MaxPoolGrad for its gradient: as the pooled image.
absl::Status MaxPoolGradGradShape(InferenceContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status AvgPoolGradShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfPool(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape orig_input, shapes::ShapeFromInput(c, 0));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            PrepareAvgPoolGrad(attrs, shapes::OrOfRank(orig_input, 4).dims(),
                                               shapes::OrOfRank(c.input(1), 4).dims()));
  c.set_output(0, PartialShape::Trusted(shape.input_dims()));
  return absl::OkStatus();
}

}  // namespace

void RegisterPoolOps(OpRegistry& registry) {
  registry.Add(
      "MaxPool(input: T) -> (output: T); T: {floattype, int32, int64, uint8, int16, int8, uint16, "
      "qint8} = float; ksize: list(int) >= 4; strides: list(int) >= 4; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\"",
      {.shape_fn = PoolShape});
  registry.Add(
      "MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int) >= 4; "
      "strides: list(int) >= 4; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: "
      "list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; T: realnumbertype = float",
      {.shape_fn = MaxPoolGradShape});
  registry.Add(
      "AvgPool(value: T) -> (output: T); ksize: list(int) >= 4; strides: list(int) >= 4; padding: "
      "{\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; T: floattype",
      {.shape_fn = PoolShape});
  registry.Add(
      "AvgPoolGrad(orig_input_shape: host int32, grad: T) -> (output: T); ksize: list(int) >= 4; "
      "strides: list(int) >= 4; padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} "
      "= \"NHWC\"; T: floattype",
      {.shape_fn = AvgPoolGradShape, .sized_by_value = true});
  registry.Add(
      "MaxPoolGradV2(orig_input: T, orig_output: T, grad: T, ksize: host int32, strides: host "
      "int32) -> (output: T); padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} = "
      "\"NHWC\"; T: realnumbertype = float",
      {.shape_fn = MaxPoolGradV2Shape});
  registry.Add(
      "MaxPoolGradGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int) >= "
      "4; strides: list(int) >= 4; padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; T: realnumbertype",
      {.shape_fn = MaxPoolGradGradShape});
  registry.Add(
      "MaxPoolGradGradV2(orig_input: T, orig_output: T, grad: T, ksize: host int32, strides: host "
      "int32) -> (output: T); padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} = "
      "\"NHWC\"; T: realnumbertype",
      {.shape_fn = MaxPoolGradGradShape});
  registry.Add(
      "MaxPoolV2(input: T, ksize: host int32, strides: host int32) -> (output: T); T: {floattype, "
      "int32, int64, uint8, int16, int8, uint16, qint8} = float; padding: {\"SAME\", \"VALID\"}; "
      "data_format: {\"NHWC\", \"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\"",
      {.shape_fn = MaxPoolV2Shape});
}

}  // namespace formwork
