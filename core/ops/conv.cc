#include "core/ops/conv.h"

#include <optional>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

using DimsView = absl::Span<const int64_t>;

// What errors call them.
constexpr absl::string_view kConvInputGradient = "Conv2DCustomBackpropInput";
constexpr absl::string_view kConvFilterGradient = "Conv2DCustomBackpropFilter";
constexpr absl::string_view kDepthwiseInputGradient = "DepthwiseConv2DBackpropInput";
constexpr absl::string_view kDepthwiseFilterGradient = "DepthwiseConv2DBackpropFilter";

absl::Status SetAxes(const SlidingAttrs& attrs, DimsView input, DimsView filter, ConvShape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(
      shape.rows, MakeConvAxis(input[attrs.layout.rows()], filter[0], attrs.rows, attrs.padding));
  FORMWORK_ASSIGN_OR_RETURN(
      shape.cols, MakeConvAxis(input[attrs.layout.cols()], filter[1], attrs.cols, attrs.padding));
  return absl::OkStatus();
}

// Batch, channels and groups, where there are any.
ConvShape ChannelsOf(const SlidingAttrs& attrs, DimsView input, DimsView filter) {
  ConvShape shape;
  shape.batch = input[0];
  shape.in_channels = input[attrs.layout.channels()];
  shape.out_channels = filter[3];
  shape.channels_first = attrs.layout.channels_first;
  return shape;
}

absl::Status CheckGradientRanks(absl::string_view op, DimsView input, DimsView filter,
                                DimsView out_backprop) {
  if (input.size() != 4) return InvalidArgument(op, ": input must be 4-dimensional");
  if (filter.size() != 4) return InvalidArgument(op, ": filter must be 4-dimensional");
  if (out_backprop.size() != 4) {
    return InvalidArgument(op, ": out_backprop must be 4-dimensional");
  }
  if (!MayBeEqual(input[0], out_backprop[0])) {
    return InvalidArgument(
        op, ": input and out_backprop must have the same batch size. Input batch: ", input[0],
        ", outbackprop batch: ", out_backprop[0], ", batch_dim: 0");
  }
  return absl::OkStatus();
}

absl::StatusOr<ConvShape> GradientShape(absl::string_view op, const SlidingAttrs& attrs,
                                        DimsView input, DimsView filter, DimsView out_backprop) {
  FORMWORK_RETURN_IF_ERROR(CheckGradientRanks(op, input, filter, out_backprop));
  if (filter[2] == 0) {
    return InvalidArgument(op, ": filter depth must be strictly greated than zero");
  }
  if (filter[0] == 0 || filter[1] == 0) {
    return InvalidArgument(
        op, ": filter rows and columns must be greater than zero: ", DimsText(filter));
  }
  ConvShape shape = ChannelsOf(attrs, input, filter);
  if (shape.in_channels == 0 || !MayDivide(shape.in_channels, filter[2])) {
    return InvalidArgument(op, ": input depth must be evenly divisible by filter depth: ",
                           shape.in_channels, " vs ", filter[2]);
  }
  shape.groups = shape.in_channels < 0 || filter[2] < 0 ? -1 : shape.in_channels / filter[2];
  if (!MayDivide(shape.out_channels, shape.groups)) {
    return InvalidArgument(op, ": output depth must be evenly divisible by number of groups: ",
                           shape.out_channels, " vs ", shape.groups);
  }
  if (!MayBeEqual(shape.out_channels, out_backprop[attrs.layout.channels()])) {
    return InvalidArgument(op, ": filter and out_backprop must have the same out_depth");
  }
  FORMWORK_RETURN_IF_ERROR(SetAxes(attrs, input, filter, shape));
  FORMWORK_RETURN_IF_ERROR(CheckGradientAxis(op, shape.rows, out_backprop[attrs.layout.rows()], 1));
  FORMWORK_RETURN_IF_ERROR(CheckGradientAxis(op, shape.cols, out_backprop[attrs.layout.cols()], 2));
  return shape;
}

absl::StatusOr<ConvShape> DepthwiseShape(const SlidingAttrs& attrs, DimsView input,
                                         DimsView filter) {
  if (attrs.rows.stride != attrs.cols.stride) {
    return InvalidArgument(
        "Current implementation only supports equal length strides in the row and column "
        "dimensions.");
  }
  ConvShape shape = ChannelsOf(attrs, input, filter);
  const std::optional<int64_t> out_channels = MultiplyDims(filter[2], filter[3]);
  if (!out_channels.has_value()) {
    return InvalidArgument("depthwise filter: number of output channels overflows: ",
                           DimsText(filter));
  }
  shape.out_channels = *out_channels;
  shape.groups = shape.in_channels;
  FORMWORK_RETURN_IF_ERROR(SetAxes(attrs, input, filter, shape));
  return shape;
}

absl::StatusOr<ConvShape> DepthwiseGradientShape(absl::string_view op, const SlidingAttrs& attrs,
                                                 DimsView input, DimsView filter,
                                                 DimsView out_backprop) {
  FORMWORK_RETURN_IF_ERROR(CheckGradientRanks(op, input, filter, out_backprop));
  if (!MayBeEqual(input[attrs.layout.channels()], filter[2])) {
    return InvalidArgument(op, ": input and filter must have the same in_depth");
  }
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, DepthwiseShape(attrs, input, filter));
  if (!MayBeEqual(shape.out_channels, out_backprop[attrs.layout.channels()])) {
    return InvalidArgument(op, ": depth_multiplier * in_depth not equal to out_depth");
  }
  const int64_t rows = out_backprop[attrs.layout.rows()];
  if (!MayBeEqual(shape.rows.output, rows)) {
    return InvalidArgument(op, ": Number of rows of out_backprop doesn't match computed: actual = ",
                           rows, ", computed = ", shape.rows.output);
  }
  const int64_t cols = out_backprop[attrs.layout.cols()];
  if (!MayBeEqual(shape.cols.output, cols)) {
    return InvalidArgument(
        op, ": Number of columns of out_backprop doesn't match computed: actual = ", cols,
        ", computed = ", shape.cols.output);
  }
  return shape;
}

// What input `what` of a gradient lists.
absl::StatusOr<Dims> SizesOf(absl::string_view op, absl::string_view what, const Tensor& sizes) {
  if (sizes.rank() != 1) {
    return InvalidArgument(op, ": ", what, " input must be 1-dim, not ", sizes.rank());
  }
  return IntegersOf(sizes, what);
}

absl::StatusOr<Dims> DepthwiseSizesOf(absl::string_view op, absl::string_view of,
                                      absl::string_view what, const Tensor& sizes) {
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, SizesOf(op, what, sizes));
  if (dims.size() != 4) return InvalidArgument(op, ": ", of, " must be 4-dimensional");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) return InvalidArgument("Dimension ", i, " of ", what, " must be >= 0");
  }
  return dims;
}

}  // namespace

absl::StatusOr<ConvAxis> MakeConvAxis(int64_t input, int64_t taps, const WindowAttr& attr,
                                      Padding padding) {
  FORMWORK_ASSIGN_OR_RETURN(const WindowedSize size, SlideWindow(input, taps, attr, padding));
  ConvAxis axis;
  axis.input = input;
  axis.output = size.output;
  axis.taps = taps;
  axis.stride = attr.stride;
  axis.dilation = attr.dilation;
  axis.pad_before = size.pad_before;
  axis.pad_after = size.pad_after;
  return axis;
}

absl::Status CheckGradientAxis(absl::string_view op, const ConvAxis& axis, int64_t actual,
                               int spatial_dim) {
  if (MayBeEqual(axis.output, actual)) return absl::OkStatus();
  return InvalidArgument(op, ": Size of out_backprop doesn't match computed: actual = ", actual,
                         ", computed = ", axis.output, " spatial_dim: ", spatial_dim,
                         " input: ", axis.input, " filter: ", axis.taps, " output: ", actual,
                         " stride: ", axis.stride, " dilation: ", axis.dilation);
}

absl::StatusOr<ConvShape> PrepareConv(const SlidingAttrs& attrs, DimsView input, DimsView filter) {
  if (input.size() != 4) {
    return InvalidArgument("convolution input must be 4-dimensional: ", DimsText(input));
  }
  if (filter.size() != 4) {
    return InvalidArgument("convolution filter must be 4-dimensional: ", DimsText(filter));
  }
  if (filter[2] == 0) {
    return InvalidArgument("filter depth must be stricly positive, got 0");
  }
  ConvShape shape = ChannelsOf(attrs, input, filter);
  if (!MayDivide(shape.in_channels, filter[2])) {
    return InvalidArgument("input depth must be evenly divisible by filter depth: ",
                           shape.in_channels, " vs ", filter[2]);
  }
  if (filter[0] == 0 || filter[1] == 0 || shape.in_channels == 0) {
    return InvalidArgument(
        "filter must not have zero elements (i.e. all dimensions must be non-zero)");
  }
  shape.groups = shape.in_channels < 0 || filter[2] < 0 ? -1 : shape.in_channels / filter[2];
  if (!MayDivide(shape.out_channels, shape.groups)) {
    return InvalidArgument("output depth must be evenly divisible by number of groups: ",
                           shape.out_channels, " vs ", shape.groups);
  }
  FORMWORK_RETURN_IF_ERROR(SetAxes(attrs, input, filter, shape));
  return shape;
}

absl::StatusOr<ConvGradient> PrepareConvInputGradient(const SlidingAttrs& attrs, DimsView sizes,
                                                      DimsView filter, DimsView out_backprop) {
  if (out_backprop.size() != 4) {
    return InvalidArgument("input_sizes must be 4-dimensional, got: ", out_backprop.size());
  }
  if (filter.size() != 4) {
    return InvalidArgument(kConvInputGradient, ": filter must be 4-dimensional");
  }
  ConvGradient gradient;
  if (sizes.size() == 2) {
    gradient.output = attrs.layout.Of(out_backprop[0], sizes[0], sizes[1], filter[2]);
  } else if (sizes.size() == 4) {
    gradient.output.assign(sizes.begin(), sizes.end());
  } else {
    return InvalidArgument(
        "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: ",
        sizes.size());
  }
  FORMWORK_ASSIGN_OR_RETURN(gradient.shape, GradientShape(kConvInputGradient, attrs,
                                                          gradient.output, filter, out_backprop));
  return gradient;
}

absl::StatusOr<ConvGradient> PrepareConvInputGradient(const SlidingAttrs& attrs,
                                                      const Tensor& sizes, DimsView filter,
                                                      DimsView out_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, SizesOf("Conv2DBackpropInput", "input_sizes", sizes));
  return PrepareConvInputGradient(attrs, DimsView(dims), filter, out_backprop);
}

absl::StatusOr<ConvGradient> PrepareConvFilterGradient(const SlidingAttrs& attrs, DimsView input,
                                                       DimsView sizes, DimsView out_backprop) {
  ConvGradient gradient;
  gradient.output.assign(sizes.begin(), sizes.end());
  FORMWORK_ASSIGN_OR_RETURN(gradient.shape,
                            GradientShape(kConvFilterGradient, attrs, input, sizes, out_backprop));
  return gradient;
}

absl::StatusOr<ConvGradient> PrepareConvFilterGradient(const SlidingAttrs& attrs, DimsView input,
                                                       const Tensor& sizes, DimsView out_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, SizesOf(kConvFilterGradient, "filter_sizes", sizes));
  return PrepareConvFilterGradient(attrs, input, DimsView(dims), out_backprop);
}

absl::StatusOr<ConvShape> PrepareDepthwise(const SlidingAttrs& attrs, DimsView input,
                                           DimsView filter) {
  if (input.size() != 4) {
    return InvalidArgument("input must be 4-dimensional", DimsText(input));
  }
  if (filter.size() != 4) {
    return InvalidArgument("filter must be 4-dimensional: ", DimsText(filter));
  }
  if (!MayBeEqual(input[attrs.layout.channels()], filter[2])) {
    return InvalidArgument("input and filter must have the same depth: ",
                           input[attrs.layout.channels()], " vs ", filter[2]);
  }
  return DepthwiseShape(attrs, input, filter);
}

absl::StatusOr<ConvGradient> PrepareDepthwiseInputGradient(const SlidingAttrs& attrs,
                                                           DimsView sizes, DimsView filter,
                                                           DimsView out_backprop) {
  ConvGradient gradient;
  gradient.output.assign(sizes.begin(), sizes.end());
  FORMWORK_ASSIGN_OR_RETURN(gradient.shape, DepthwiseGradientShape(kDepthwiseInputGradient, attrs,
                                                                   sizes, filter, out_backprop));
  return gradient;
}

absl::StatusOr<ConvGradient> PrepareDepthwiseInputGradient(const SlidingAttrs& attrs,
                                                           const Tensor& sizes, DimsView filter,
                                                           DimsView out_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims, DepthwiseSizesOf(kDepthwiseInputGradient, "input", "input_sizes", sizes));
  return PrepareDepthwiseInputGradient(attrs, DimsView(dims), filter, out_backprop);
}

absl::StatusOr<ConvGradient> PrepareDepthwiseFilterGradient(const SlidingAttrs& attrs,
                                                            DimsView input, DimsView sizes,
                                                            DimsView out_backprop) {
  ConvGradient gradient;
  gradient.output.assign(sizes.begin(), sizes.end());
  FORMWORK_ASSIGN_OR_RETURN(gradient.shape, DepthwiseGradientShape(kDepthwiseFilterGradient, attrs,
                                                                   input, sizes, out_backprop));
  return gradient;
}

absl::StatusOr<ConvGradient> PrepareDepthwiseFilterGradient(const SlidingAttrs& attrs,
                                                            DimsView input, const Tensor& sizes,
                                                            DimsView out_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims, DepthwiseSizesOf(kDepthwiseFilterGradient, "filter", "filter_sizes", sizes));
  return PrepareDepthwiseFilterGradient(attrs, input, DimsView(dims), out_backprop);
}

namespace {

using ForwardFn = absl::StatusOr<ConvShape> (*)(const SlidingAttrs&, DimsView, DimsView);
using GradientFn = absl::StatusOr<ConvGradient> (*)(const SlidingAttrs&, DimsView, DimsView,
                                                    DimsView);

template <ForwardFn prepare>
absl::Status InferForward(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            prepare(attrs, shapes::OrOfRank(c.input(0), 4).dims(),
                                    shapes::OrOfRank(c.input(1), 4).dims()));
  c.set_output(0, PartialShape::Trusted(shape.output_dims()));
  return absl::OkStatus();
}

// Input `sizes` lists dimensions; the other two have them.
template <GradientFn prepare, int sizes>
absl::Status InferGradient(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(c.attrs()));
  PartialShape inputs[] = {c.input(0), c.input(1), c.input(2)};
  FORMWORK_ASSIGN_OR_RETURN(inputs[sizes], shapes::ShapeFromInput(c, sizes));
  for (PartialShape& input : inputs) input = shapes::OrOfRank(input, 4);
  FORMWORK_ASSIGN_OR_RETURN(const ConvGradient gradient,
                            prepare(attrs, inputs[0].dims(), inputs[1].dims(), inputs[2].dims()));
  c.set_output(0, PartialShape::Trusted(gradient.output));
  return absl::OkStatus();
}

}  // namespace

void RegisterConvOps(OpRegistry& registry) {
  registry.Add(
      "Conv2D(input: T, filter: T) -> (output: T); T: {floattype, int32}; strides: list(int); "
      "use_cudnn_on_gpu: bool = true; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; "
      "explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: "
      "list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferForward<PrepareConv>});
  registry.Add(
      "Conv2DBackpropInput(input_sizes: host int32, filter: T, out_backprop: T) -> (output: T); T: "
      "{floattype, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferGradient<PrepareConvInputGradient, 0>, .sized_by_value = true});
  registry.Add(
      "Conv2DBackpropFilter(input: T, filter_sizes: host int32, out_backprop: T) -> (output: T); "
      "T: floattype; strides: list(int); use_cudnn_on_gpu: bool = true; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferGradient<PrepareConvFilterGradient, 1>, .sized_by_value = true});
  registry.Add(
      "DepthwiseConv2dNative(input: T, filter: T) -> (output: T); T: floattype; strides: "
      "list(int); padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; "
      "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferForward<PrepareDepthwise>});
  registry.Add(
      "DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: host int32, out_backprop: T) -> "
      "(output: T); T: floattype; strides: list(int); padding: {\"SAME\", \"VALID\", "
      "\"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = "
      "\"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferGradient<PrepareDepthwiseFilterGradient, 1>, .sized_by_value = true});
  registry.Add(
      "DepthwiseConv2dNativeBackpropInput(input_sizes: host int32, filter: T, out_backprop: T) -> "
      "(output: T); T: floattype; strides: list(int); padding: {\"SAME\", \"VALID\", "
      "\"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = "
      "\"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferGradient<PrepareDepthwiseInputGradient, 0>, .sized_by_value = true});
}

}  // namespace formwork
