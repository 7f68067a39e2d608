#include "core/kernels/conv/conv_shape.h"

#include "core/base/checked_math.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::StatusOr<ConvAxis> MakeAxis(int64_t input, int64_t taps, const WindowAttr& attr,
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

absl::Status SetAxes(const SlidingAttrs& attrs, const Shape& input, const Shape& filter,
                     ConvShape* shape) {
  FORMWORK_ASSIGN_OR_RETURN(shape->rows, MakeAxis(input.dim(attrs.layout.rows()), filter.dim(0),
                                                  attrs.rows, attrs.padding));
  FORMWORK_ASSIGN_OR_RETURN(shape->cols, MakeAxis(input.dim(attrs.layout.cols()), filter.dim(1),
                                                  attrs.cols, attrs.padding));
  return absl::OkStatus();
}

absl::Status CheckOutputAxis(absl::string_view op, const ConvAxis& axis, int64_t actual,
                             int spatial_dim) {
  if (axis.output == actual) return absl::OkStatus();
  return InvalidArgument(op, ": Size of out_backprop doesn't match computed: actual = ", actual,
                         ", computed = ", axis.output, " spatial_dim: ", spatial_dim,
                         " input: ", axis.input, " filter: ", axis.taps, " output: ", actual,
                         " stride: ", axis.stride, " dilation: ", axis.dilation);
}

absl::Status CheckGradientRanks(absl::string_view op, const Shape& input, const Shape& filter,
                                const Shape& out_backprop) {
  if (input.rank() != 4) return InvalidArgument(op, ": input must be 4-dimensional");
  if (filter.rank() != 4) return InvalidArgument(op, ": filter must be 4-dimensional");
  if (out_backprop.rank() != 4) {
    return InvalidArgument(op, ": out_backprop must be 4-dimensional");
  }
  if (input.dim(0) != out_backprop.dim(0)) {
    return InvalidArgument(
        op, ": input and out_backprop must have the same batch size. Input batch: ", input.dim(0),
        ", outbackprop batch: ", out_backprop.dim(0), ", batch_dim: 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConvShape> ConvForwardShape(const SlidingAttrs& attrs, const Shape& input,
                                           const Shape& filter) {
  if (input.rank() != 4) {
    return InvalidArgument("convolution input must be 4-dimensional: ", input.ToString());
  }
  if (filter.rank() != 4) {
    return InvalidArgument("convolution filter must be 4-dimensional: ", filter.ToString());
  }
  if (filter.dim(2) == 0) {
    return InvalidArgument("filter depth must be stricly positive, got 0");
  }
  ConvShape shape;
  shape.batch = input.dim(0);
  shape.in_channels = input.dim(attrs.layout.channels());
  shape.out_channels = filter.dim(3);
  shape.channels_first = attrs.layout.channels_first;
  if (shape.in_channels % filter.dim(2) != 0) {
    return InvalidArgument("input depth must be evenly divisible by filter depth: ",
                           shape.in_channels, " vs ", filter.dim(2));
  }
  if (filter.dim(0) == 0 || filter.dim(1) == 0 || shape.in_channels == 0) {
    return InvalidArgument(
        "filter must not have zero elements (i.e. all dimensions must be non-zero)");
  }
  shape.groups = shape.in_channels / filter.dim(2);
  if (shape.out_channels % shape.groups != 0) {
    return InvalidArgument("output depth must be evenly divisible by number of groups: ",
                           shape.out_channels, " vs ", shape.groups);
  }
  FORMWORK_RETURN_IF_ERROR(SetAxes(attrs, input, filter, &shape));
  return shape;
}

absl::StatusOr<ConvShape> ConvGradientShape(absl::string_view op, const SlidingAttrs& attrs,
                                            const Shape& input, const Shape& filter,
                                            const Shape& out_backprop) {
  FORMWORK_RETURN_IF_ERROR(CheckGradientRanks(op, input, filter, out_backprop));
  if (filter.dim(2) == 0) {
    return InvalidArgument(op, ": filter depth must be strictly greated than zero");
  }
  if (filter.dim(0) == 0 || filter.dim(1) == 0) {
    return InvalidArgument(
        op, ": filter rows and columns must be greater than zero: ", filter.ToString());
  }
  ConvShape shape;
  shape.batch = input.dim(0);
  shape.in_channels = input.dim(attrs.layout.channels());
  shape.out_channels = filter.dim(3);
  shape.channels_first = attrs.layout.channels_first;
  if (shape.in_channels == 0 || shape.in_channels % filter.dim(2) != 0) {
    return InvalidArgument(op, ": input depth must be evenly divisible by filter depth: ",
                           shape.in_channels, " vs ", filter.dim(2));
  }
  shape.groups = shape.in_channels / filter.dim(2);
  if (shape.out_channels % shape.groups != 0) {
    return InvalidArgument(op, ": output depth must be evenly divisible by number of groups: ",
                           shape.out_channels, " vs ", shape.groups);
  }
  if (shape.out_channels != out_backprop.dim(attrs.layout.channels())) {
    return InvalidArgument(op, ": filter and out_backprop must have the same out_depth");
  }
  FORMWORK_RETURN_IF_ERROR(SetAxes(attrs, input, filter, &shape));
  FORMWORK_RETURN_IF_ERROR(
      CheckOutputAxis(op, shape.rows, out_backprop.dim(attrs.layout.rows()), 1));
  FORMWORK_RETURN_IF_ERROR(
      CheckOutputAxis(op, shape.cols, out_backprop.dim(attrs.layout.cols()), 2));
  return shape;
}

namespace {

absl::StatusOr<ConvShape> DepthwiseShape(const SlidingAttrs& attrs, const Shape& input,
                                         const Shape& filter) {
  if (attrs.rows.stride != attrs.cols.stride) {
    return InvalidArgument(
        "Current implementation only supports equal length strides in the row and column "
        "dimensions.");
  }
  ConvShape shape;
  shape.batch = input.dim(0);
  shape.in_channels = input.dim(attrs.layout.channels());
  const std::optional<int64_t> out_channels = CheckedMul(filter.dim(2), filter.dim(3));
  if (!out_channels.has_value()) {
    return InvalidArgument("depthwise filter: number of output channels overflows: ",
                           filter.ToString());
  }
  shape.out_channels = *out_channels;
  shape.groups = shape.in_channels;
  shape.channels_first = attrs.layout.channels_first;
  FORMWORK_RETURN_IF_ERROR(SetAxes(attrs, input, filter, &shape));
  return shape;
}

}  // namespace

absl::StatusOr<ConvShape> DepthwiseForwardShape(const SlidingAttrs& attrs, const Shape& input,
                                                const Shape& filter) {
  if (input.rank() != 4) {
    return InvalidArgument("input must be 4-dimensional", input.ToString());
  }
  if (filter.rank() != 4) {
    return InvalidArgument("filter must be 4-dimensional: ", filter.ToString());
  }
  if (input.dim(attrs.layout.channels()) != filter.dim(2)) {
    return InvalidArgument("input and filter must have the same depth: ",
                           input.dim(attrs.layout.channels()), " vs ", filter.dim(2));
  }
  return DepthwiseShape(attrs, input, filter);
}

absl::StatusOr<ConvShape> DepthwiseGradientShape(absl::string_view op, const SlidingAttrs& attrs,
                                                 const Shape& input, const Shape& filter,
                                                 const Shape& out_backprop) {
  FORMWORK_RETURN_IF_ERROR(CheckGradientRanks(op, input, filter, out_backprop));
  if (input.dim(attrs.layout.channels()) != filter.dim(2)) {
    return InvalidArgument(op, ": input and filter must have the same in_depth");
  }
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape, DepthwiseShape(attrs, input, filter));
  if (shape.out_channels != out_backprop.dim(attrs.layout.channels())) {
    return InvalidArgument(op, ": depth_multiplier * in_depth not equal to out_depth");
  }
  const int64_t rows = out_backprop.dim(attrs.layout.rows());
  if (shape.rows.output != rows) {
    return InvalidArgument(op, ": Number of rows of out_backprop doesn't match computed: actual = ",
                           rows, ", computed = ", shape.rows.output);
  }
  const int64_t cols = out_backprop.dim(attrs.layout.cols());
  if (shape.cols.output != cols) {
    return InvalidArgument(
        op, ": Number of columns of out_backprop doesn't match computed: actual = ", cols,
        ", computed = ", shape.cols.output);
  }
  return shape;
}

}  // namespace formwork
