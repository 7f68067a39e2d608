#include "core/ops/conv3d.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

using DimsView = absl::Span<const int64_t>;

constexpr absl::string_view kInputGradient = "Conv3DBackpropInputOp";
constexpr absl::string_view kFilterGradient = "Conv3DBackpropFilterOp";

// Dimensions of volumes and of filters.
constexpr int kRank = 5;
constexpr int kChannels = 4;
constexpr int kFilterIn = 3;
constexpr int kFilterOut = 4;

absl::StatusOr<Conv3dShape> Slide(const Conv3dAttrs& attrs, DimsView input, DimsView filter) {
  Conv3dShape shape;
  shape.batch = input[0];
  shape.in_channels = input[kChannels];
  shape.out_channels = filter[kFilterOut];
  for (size_t i = 0; i < shape.axes.size(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(
        shape.axes[i], MakeConvAxis(input[i + 1], filter[i], attrs.windows[i], attrs.padding));
  }
  return shape;
}

// What input `what` of a gradient lists.
absl::StatusOr<Shape> SizesOf(const Tensor& sizes, absl::string_view what) {
  if (sizes.rank() != 1) {
    return InvalidArgument(what, " must be 1-dimensional: ", sizes.shape().ToString());
  }
  return ShapeFromTensor(sizes, what);
}

}  // namespace

absl::StatusOr<Conv3dAttrs> Conv3dAttrs::FromAttrs(const AttrMap& attrs) {
  struct Given {
    std::string format;
    std::string padding;
    std::vector<int64_t> strides;
    std::vector<int64_t> dilations;
  };
  FORMWORK_ASSIGN_OR_RETURN(
      const Given given,
      ReadAttrs<Given>(attrs, "data_format", &Given::format, "padding", &Given::padding, "strides",
                       &Given::strides, "dilations", &Given::dilations));
  if (given.format != "NDHWC") {
    return InvalidArgument("Convolution of volumes only supports NDHWC on the CPU.");
  }
  if (given.strides.size() != kRank) {
    return InvalidArgument("Sliding window strides field must specify 5 dimensions");
  }
  if (given.dilations.size() != kRank) {
    return InvalidArgument("Dilation rates field must specify 5 dimensions");
  }
  for (const int64_t stride : given.strides) {
    if (stride <= 0 || stride > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("Spatial strides should be larger than 0 and fit int32: ", stride);
    }
  }
  if (given.strides[0] != 1 || given.strides[kChannels] != 1) {
    return InvalidArgument(
        "Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  if (given.dilations[0] != 1 || given.dilations[kChannels] != 1) {
    return InvalidArgument(
        "Current implementation does not yet support dilation rates in the batch and depth "
        "dimensions.");
  }
  for (const int64_t dilation : given.dilations) {
    if (dilation == 1) continue;
    return InvalidArgument("CPU implementation of Conv3D only supports dilated rates of 1.");
  }
  Conv3dAttrs read;
  read.padding = given.padding == "SAME" ? Padding::kSame : Padding::kValid;
  for (size_t i = 0; i < read.windows.size(); ++i) read.windows[i].stride = given.strides[i + 1];
  return read;
}

absl::StatusOr<Conv3dShape> PrepareConv3d(const Conv3dAttrs& attrs, DimsView input,
                                          DimsView filter) {
  if (input.size() != kRank) return InvalidArgument("input must be 5-dimensional");
  if (filter.size() != kRank) return InvalidArgument("filter must be 5-dimensional");
  if (!MayBeEqual(input[kChannels], filter[kFilterIn])) {
    return InvalidArgument("Number of channels in filter (", filter[kFilterIn],
                           ") must match last dimension of input (", input[kChannels], ")");
  }
  for (const int64_t dim : filter) {
    if (dim == 0) {
      return InvalidArgument(
          "filter must not have zero elements (i.e. all dimensions must be non-zero)");
    }
  }
  return Slide(attrs, input, filter);
}

absl::StatusOr<Conv3dShape> PrepareConv3dGradient(absl::string_view op, const Conv3dAttrs& attrs,
                                                  DimsView input, DimsView filter,
                                                  DimsView out_backprop) {
  if (input.size() != kRank) return InvalidArgument("input tensor must have 5 dimensions");
  if (filter.size() != kRank) {
    return InvalidArgument("filter_sizes tensor must have 5 dimensions");
  }
  if (out_backprop.size() != kRank) {
    return InvalidArgument("out_backprop tensor must have 5 dimensions");
  }
  if (!MayBeEqual(input[kChannels], filter[kFilterIn])) {
    return InvalidArgument("input and filter_sizes must have the same number of channels. Got ",
                           input[kChannels], " for input and ", filter[kFilterIn],
                           " for filter_sizes");
  }
  if (!MayBeEqual(out_backprop[kChannels], filter[kFilterOut])) {
    return InvalidArgument(
        "out_backprop and filter_sizes must have the same number of channels. Got ",
        out_backprop[kChannels], " for out_backprop and ", filter[kFilterOut], " for filter_sizes");
  }
  if (!MayBeEqual(input[0], out_backprop[0])) {
    return InvalidArgument(
        op, ": input and out_backprop must have the same batch size. Input batch: ", input[0],
        ", outbackprop batch: ", out_backprop[0], ", batch_dim: 0");
  }
  if (filter[kFilterIn] == 0) {
    return InvalidArgument(op, ": filter depth must be strictly greated than zero");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dShape shape, Slide(attrs, input, filter));
  for (size_t i = 0; i < shape.axes.size(); ++i) {
    FORMWORK_RETURN_IF_ERROR(
        CheckGradientAxis(op, shape.axes[i], out_backprop[i + 1], static_cast<int>(i) + 1));
  }
  return shape;
}

absl::StatusOr<Conv3dShape> PrepareConv3dInputGradient(const Conv3dAttrs& attrs,
                                                       const Tensor& sizes, DimsView filter,
                                                       DimsView out_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape input, SizesOf(sizes, "input_sizes"));
  return PrepareConv3dGradient(kInputGradient, attrs, input.dims(), filter, out_backprop);
}

absl::StatusOr<Conv3dShape> PrepareConv3dFilterGradient(const Conv3dAttrs& attrs, DimsView input,
                                                        const Tensor& sizes,
                                                        DimsView out_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape filter, SizesOf(sizes, "filter_sizes"));
  return PrepareConv3dGradient(kFilterGradient, attrs, input, filter.dims(), out_backprop);
}

namespace {

absl::Status Conv3dForwardShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dAttrs attrs, Conv3dAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dShape shape,
                            PrepareConv3d(attrs, shapes::OrOfRank(c.input(0), kRank).dims(),
                                          shapes::OrOfRank(c.input(1), kRank).dims()));
  return array_shapes::SetOutput(c, 0, shape.output_dims());
}

// Input `sizes` lists the dimensions of the output; the other two have theirs.
template <int sizes>
absl::Status GradientShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dAttrs attrs, Conv3dAttrs::FromAttrs(c.attrs()));
  PartialShape inputs[] = {c.input(0), c.input(1), c.input(2)};
  FORMWORK_ASSIGN_OR_RETURN(inputs[sizes], shapes::ShapeFromInput(c, sizes));
  for (PartialShape& input : inputs) input = shapes::OrOfRank(input, kRank);
  FORMWORK_ASSIGN_OR_RETURN(
      const Conv3dShape shape,
      PrepareConv3dGradient(sizes == 0 ? kInputGradient : kFilterGradient, attrs, inputs[0].dims(),
                            inputs[1].dims(), inputs[2].dims()));
  return array_shapes::SetOutput(c, 0, sizes == 0 ? shape.input_dims() : shape.filter_dims());
}

}  // namespace

void RegisterConv3dOps(OpRegistry& registry) {
  registry.Add(
      "Conv3D(input: T, filter: T) -> (output: T); T: floattype; strides: list(int) >= 5; padding: "
      "{\"SAME\", \"VALID\"}; data_format: {\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; dilations: "
      "list(int) = [1, 1, 1, 1, 1]",
      {.shape_fn = Conv3dForwardShape});
  registry.Add(
      "Conv3DBackpropInputV2(input_sizes: host Tshape, filter: T, out_backprop: T) -> (output: T); "
      "T: floattype; strides: list(int) >= 5; padding: {\"SAME\", \"VALID\"}; data_format: "
      "{\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; dilations: list(int) = [1, 1, 1, 1, 1]; Tshape: "
      "indextype = int32",
      {.shape_fn = GradientShape<0>, .sized_by_value = true});
  registry.Add(
      "Conv3DBackpropFilterV2(input: T, filter_sizes: host int32, out_backprop: T) -> (output: T); "
      "T: floattype; strides: list(int) >= 5; padding: {\"SAME\", \"VALID\"}; data_format: "
      "{\"NDHWC\", \"NCDHW\"} = \"NDHWC\"; dilations: list(int) = [1, 1, 1, 1, 1]",
      {.shape_fn = GradientShape<1>, .sized_by_value = true});
}

}  // namespace formwork
