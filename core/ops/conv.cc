#include "core/ops/conv.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

using Ints = std::vector<int64_t>;
constexpr char kReluAttr[] = "_relu";
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

absl::StatusOr<SlidingAttrs> ParseLayoutAndPadding(const AttrMap& attrs) {
  SlidingAttrs parsed;
  FORMWORK_ASSIGN_OR_RETURN(const std::string format, attrs.Get<std::string>("data_format"));
  if (format != "NHWC" && format != "NCHW") {
    return Unimplemented("data_format is not supported on the CPU: ", format);
  }
  parsed.layout.channels_first = format == "NCHW";
  FORMWORK_ASSIGN_OR_RETURN(const std::string padding, attrs.Get<std::string>("padding"));
  parsed.padding = padding == "SAME"    ? Padding::kSame
                   : padding == "VALID" ? Padding::kValid
                                        : Padding::kExplicit;
  // AvgPool has no such attr.
  const Ints pads = attrs.GetOr<Ints>("explicit_paddings", {});
  if (parsed.padding != Padding::kExplicit) {
    if (!pads.empty()) {
      return InvalidArgument(
          "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
    }
    return parsed;
  }
  if (pads.size() != 8) {
    return InvalidArgument("explicit_paddings attribute must contain 8 values, but got: ",
                           pads.size());
  }
  for (int64_t pad : pads) {
    if (pad < 0) return InvalidArgument("All elements of explicit_paddings must be nonnegative");
    if (pad > kInt32Max) {
      return InvalidArgument("explicit_paddings are out of range for an int32: ", pad);
    }
  }
  const int channels = parsed.layout.channels();
  if (pads[0] != 0 || pads[1] != 0 || pads[2 * channels] != 0 || pads[2 * channels + 1] != 0) {
    return InvalidArgument(
        "Nonzero explicit padding in the batch or depth dimensions is not supported");
  }
  const int rows = parsed.layout.rows();
  const int cols = parsed.layout.cols();
  parsed.rows.pad_before = pads[2 * rows];
  parsed.rows.pad_after = pads[2 * rows + 1];
  parsed.cols.pad_before = pads[2 * cols];
  parsed.cols.pad_after = pads[2 * cols + 1];
  return parsed;
}

absl::Status CheckInt32(absl::string_view attr, const Ints& values) {
  for (int64_t value : values) {
    if (value > kInt32Max || value < -kInt32Max - 1) {
      return InvalidArgument("Attr ", attr, " has value ", value, " out of range for an int32");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SlidingAttrs> ParseConvAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(SlidingAttrs parsed, ParseLayoutAndPadding(attrs));
  const int rows = parsed.layout.rows();
  const int cols = parsed.layout.cols();
  const int channels = parsed.layout.channels();

  FORMWORK_ASSIGN_OR_RETURN(const Ints strides, attrs.Get<Ints>("strides"));
  FORMWORK_RETURN_IF_ERROR(CheckInt32("strides", strides));
  if (strides.size() != 4) {
    return InvalidArgument("Sliding window strides field must specify 4 dimensions");
  }
  if (strides[0] != 1 || strides[channels] != 1) {
    return Unimplemented(
        "Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  if (strides[rows] < 1 || strides[cols] < 1) {
    return InvalidArgument("Row and column strides should be larger than 0.");
  }
  parsed.rows.stride = strides[rows];
  parsed.cols.stride = strides[cols];

  FORMWORK_ASSIGN_OR_RETURN(const Ints dilations, attrs.Get<Ints>("dilations"));
  FORMWORK_RETURN_IF_ERROR(CheckInt32("dilations", dilations));
  if (dilations.size() != 4) {
    return InvalidArgument("Sliding window dilations field must specify 4 dimensions");
  }
  if (dilations[0] != 1 || dilations[channels] != 1) {
    return Unimplemented(
        "Current implementation does not yet support dilations in the batch and depth dimensions.");
  }
  if (dilations[rows] < 1 || dilations[cols] < 1) {
    return InvalidArgument("Dilated rates should be larger than 0.");
  }
  parsed.rows.dilation = dilations[rows];
  parsed.cols.dilation = dilations[cols];
  return parsed;
}

absl::StatusOr<SlidingAttrs> ParsePoolAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(SlidingAttrs parsed, ParseLayoutAndPadding(attrs));
  const int rows = parsed.layout.rows();
  const int cols = parsed.layout.cols();
  const int channels = parsed.layout.channels();

  FORMWORK_ASSIGN_OR_RETURN(const Ints ksize, attrs.Get<Ints>("ksize"));
  FORMWORK_ASSIGN_OR_RETURN(const Ints strides, attrs.Get<Ints>("strides"));
  FORMWORK_RETURN_IF_ERROR(CheckInt32("ksize", ksize));
  FORMWORK_RETURN_IF_ERROR(CheckInt32("strides", strides));
  if (ksize.size() != 4) {
    return InvalidArgument("Sliding window ksize field must specify 4 dimensions");
  }
  if (strides.size() != 4) {
    return InvalidArgument("Sliding window stride field must specify 4 dimensions");
  }
  for (int64_t size : ksize) {
    if (size < 1) {
      return InvalidArgument(
          "Sliding window ksize must be positive. The specified or inferred ksize is: ",
          absl::StrJoin(ksize, ","));
    }
  }
  for (int64_t stride : strides) {
    if (stride < 1) return InvalidArgument("Stride must be > 0, but got ", stride);
  }
  if (ksize[0] != 1 || strides[0] != 1) {
    return Unimplemented("Pooling is not yet supported on the batch dimension.");
  }
  parsed.rows.size = ksize[rows];
  parsed.cols.size = ksize[cols];
  parsed.rows.stride = strides[rows];
  parsed.cols.stride = strides[cols];
  parsed.depth_window = ksize[channels];
  if (parsed.depth_window > 1) {
    if (ksize[rows] != 1 || ksize[cols] != 1) {
      return Unimplemented(
          "MaxPooling supports exactly one of pooling across depth or pooling across "
          "width/height.");
    }
    if (strides[channels] != parsed.depth_window) {
      return Unimplemented(
          "Depthwise max pooling requires the depth window to equal the depth stride");
    }
  }
  if (parsed.padding == Padding::kExplicit) {
    const std::array<std::pair<const char*, std::pair<int64_t, int64_t>>, 4> sides = {{
        {"Top", {parsed.rows.pad_before, parsed.rows.size}},
        {"Bottom", {parsed.rows.pad_after, parsed.rows.size}},
        {"Left", {parsed.cols.pad_before, parsed.cols.size}},
        {"Right", {parsed.cols.pad_after, parsed.cols.size}},
    }};
    for (const auto& [name, pad_and_size] : sides) {
      if (pad_and_size.first >= pad_and_size.second) {
        return InvalidArgument(name, " padding ", pad_and_size.first,
                               " needs to be smaller than the window size ", pad_and_size.second);
      }
    }
  }
  return parsed;
}

bool OfRelu(const AttrMap& attrs) { return attrs.GetOr(kReluAttr, false); }
void SetOfRelu(AttrMap& attrs) { attrs.Set(kReluAttr, true); }

absl::StatusOr<WindowedSize> SlideWindow(int64_t input, int64_t window, const WindowAttr& attr,
                                         Padding padding) {
  // int32's range for all but `input` keeps these products and sums within int64.
  if (input > (int64_t{1} << 48) || window > kInt32Max) {
    return InvalidArgument("Sliding window: size out of range: input=", input, " window=", window);
  }
  const int64_t effective = window == 0 ? 0 : (window - 1) * attr.dilation + 1;
  WindowedSize size;
  if (padding == Padding::kSame) {
    size.output = (input + attr.stride - 1) / attr.stride;
    const int64_t needed =
        std::max<int64_t>(0, (size.output - 1) * attr.stride + effective - input);
    size.pad_before = needed / 2;
    size.pad_after = needed - size.pad_before;
  } else {
    if (padding == Padding::kExplicit) {
      size.pad_before = attr.pad_before;
      size.pad_after = attr.pad_after;
    }
    size.output =
        (input + size.pad_before + size.pad_after - effective + attr.stride) / attr.stride;
  }
  if (size.output < 0) {
    return InvalidArgument("Computed output size would be negative: ", size.output,
                           " [input_size: ", input, ", effective_filter_size: ", effective,
                           ", stride: ", attr.stride, "]");
  }
  return size;
}

namespace {

/// Output's spatial size, or -1 where an input is not known.
absl::StatusOr<int64_t> InferWindow(int64_t input, int64_t window, const WindowAttr& attr,
                                    Padding padding) {
  if (input < 0 || (window < 0 && padding != Padding::kSame)) return -1;
  FORMWORK_ASSIGN_OR_RETURN(const WindowedSize size,
                            SlideWindow(input, std::max<int64_t>(window, 1), attr, padding));
  return size.output;
}

PartialShape ImageShape(const ImageLayout& layout, int64_t batch, int64_t rows, int64_t cols,
                        int64_t channels) {
  PartialShape shape = PartialShape::OfRank(4);
  shape.set_dim(0, batch);
  shape.set_dim(layout.rows(), rows);
  shape.set_dim(layout.cols(), cols);
  shape.set_dim(layout.channels(), channels);
  return shape;
}

absl::Status InferConvOutput(InferenceContext& c, bool depthwise) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, ParseConvAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape input,
                            shapes::WithRank(c.input(0), 4, "convolution input"));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape filter,
                            shapes::WithRank(c.input(1), 4, "convolution filter"));
  FORMWORK_ASSIGN_OR_RETURN(
      const int64_t rows,
      InferWindow(input.dim(attrs.layout.rows()), filter.dim(0), attrs.rows, attrs.padding));
  FORMWORK_ASSIGN_OR_RETURN(
      const int64_t cols,
      InferWindow(input.dim(attrs.layout.cols()), filter.dim(1), attrs.cols, attrs.padding));
  int64_t channels = filter.dim(3);
  if (depthwise) {
    // A product that overflows cannot be a tensor's; the kernel says so.
    if (filter.dim(2) < 0 || channels < 0 ||
        __builtin_mul_overflow(filter.dim(2), filter.dim(3), &channels)) {
      channels = -1;
    }
  }
  c.set_output(0, ImageShape(attrs.layout, input.dim(0), rows, cols, channels));
  return absl::OkStatus();
}

absl::Status InferConv(InferenceContext& c) { return InferConvOutput(c, false); }
absl::Status InferDepthwise(InferenceContext& c) { return InferConvOutput(c, true); }

/// The output's shape is what input `sizes` holds, of rank 4.
absl::Status InferFromSizes(InferenceContext& c, int sizes) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::ShapeFromInput(c, sizes));
  c.set_output(0, shape.known_rank() && shape.rank() == 4 ? shape : PartialShape::OfRank(4));
  return absl::OkStatus();
}

absl::Status InferFromFirst(InferenceContext& c) { return InferFromSizes(c, 0); }
absl::Status InferFromSecond(InferenceContext& c) { return InferFromSizes(c, 1); }

absl::Status InferConvInputGradient(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, ParseConvAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape sizes, shapes::ShapeFromInput(c, 0));
  if (!sizes.known_rank() || sizes.rank() != 2) return InferFromSizes(c, 0);
  // Rows and columns alone: the rest follows from the other inputs.
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape filter,
                            shapes::WithRank(c.input(1), 4, "convolution filter"));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape gradient,
                            shapes::WithRank(c.input(2), 4, "out_backprop"));
  c.set_output(
      0, ImageShape(attrs.layout, gradient.dim(0), sizes.dim(0), sizes.dim(1), filter.dim(2)));
  return absl::OkStatus();
}

absl::Status InferPool(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, ParsePoolAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape input,
                            shapes::WithRank(c.input(0), 4, "pooling input"));
  FORMWORK_ASSIGN_OR_RETURN(
      const int64_t rows,
      InferWindow(input.dim(attrs.layout.rows()), attrs.rows.size, attrs.rows, attrs.padding));
  FORMWORK_ASSIGN_OR_RETURN(
      const int64_t cols,
      InferWindow(input.dim(attrs.layout.cols()), attrs.cols.size, attrs.cols, attrs.padding));
  int64_t channels = input.dim(attrs.layout.channels());
  if (channels > 0) channels /= attrs.depth_window;
  c.set_output(0, ImageShape(attrs.layout, input.dim(0), rows, cols, channels));
  return absl::OkStatus();
}

}  // namespace

void RegisterConvOps(OpRegistry& registry) {
  registry.Add(
      "Conv2D(input: T, filter: T) -> (output: T); T: {floattype, int32}; strides: list(int); "
      "use_cudnn_on_gpu: bool = true; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; "
      "explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: "
      "list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferConv});
  registry.Add(
      "Conv2DBackpropInput(input_sizes: host int32, filter: T, out_backprop: T) -> (output: T); T: "
      "{floattype, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferConvInputGradient, .sized_by_value = true});
  registry.Add(
      "Conv2DBackpropFilter(input: T, filter_sizes: host int32, out_backprop: T) -> (output: T); "
      "T: floattype; strides: list(int); use_cudnn_on_gpu: bool = true; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferFromSecond, .sized_by_value = true});
  registry.Add(
      "MaxPool(input: T) -> (output: T); T: {floattype, int32, int64, uint8, int16, int8, uint16, "
      "qint8} = float; ksize: list(int) >= 4; strides: list(int) >= 4; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\"",
      {.shape_fn = InferPool});
  registry.Add(
      "DepthwiseConv2dNative(input: T, filter: T) -> (output: T); T: floattype; strides: "
      "list(int); padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; "
      "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferDepthwise});
  registry.Add(
      "MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int) >= 4; "
      "strides: list(int) >= 4; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: "
      "list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; T: realnumbertype = float",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "AvgPool(value: T) -> (output: T); ksize: list(int) >= 4; strides: list(int) >= 4; padding: "
      "{\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; T: floattype",
      {.shape_fn = InferPool});
  registry.Add(
      "DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: host int32, out_backprop: T) -> "
      "(output: T); T: floattype; strides: list(int); padding: {\"SAME\", \"VALID\", "
      "\"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = "
      "\"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferFromSecond, .sized_by_value = true});
  registry.Add(
      "DepthwiseConv2dNativeBackpropInput(input_sizes: host int32, filter: T, out_backprop: T) -> "
      "(output: T); T: floattype; strides: list(int); padding: {\"SAME\", \"VALID\", "
      "\"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = "
      "\"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {.shape_fn = InferFromFirst, .sized_by_value = true});
  registry.Add(
      "AvgPoolGrad(orig_input_shape: host int32, grad: T) -> (output: T); ksize: list(int) >= 4; "
      "strides: list(int) >= 4; padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} "
      "= \"NHWC\"; T: floattype",
      {.shape_fn = InferFromFirst, .sized_by_value = true});
}

}  // namespace formwork
