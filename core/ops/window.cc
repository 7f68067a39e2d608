#include "core/ops/window.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/read_attrs.h"

namespace formwork {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

// As the attrs give them.
struct Given {
  std::string format;
  std::string padding;
  Ints strides;
  Ints dilations;  // A convolution's.
  Ints ksize;      // Pooling's.
};

absl::StatusOr<SlidingAttrs> LayoutAndPadding(const Given& given, const AttrMap& attrs) {
  SlidingAttrs parsed;
  if (given.format != "NHWC" && given.format != "NCHW") {
    return Unimplemented("data_format is not supported on the CPU: ", given.format);
  }
  parsed.layout.channels_first = given.format == "NCHW";
  parsed.padding = given.padding == "SAME"    ? Padding::kSame
                   : given.padding == "VALID" ? Padding::kValid
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

absl::StatusOr<SlidingAttrs> SlidingAttrs::OfConv(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Given given,
      ReadAttrs<Given>(attrs, "data_format", &Given::format, "padding", &Given::padding, "strides",
                       &Given::strides, "dilations", &Given::dilations));
  FORMWORK_ASSIGN_OR_RETURN(SlidingAttrs parsed, LayoutAndPadding(given, attrs));
  const int rows = parsed.layout.rows();
  const int cols = parsed.layout.cols();
  const int channels = parsed.layout.channels();

  const Ints& strides = given.strides;
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

  const Ints& dilations = given.dilations;
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

absl::StatusOr<SlidingAttrs> SlidingAttrs::OfPool(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Given given,
      ReadAttrs<Given>(attrs, "data_format", &Given::format, "padding", &Given::padding, "strides",
                       &Given::strides, "ksize", &Given::ksize));
  FORMWORK_ASSIGN_OR_RETURN(SlidingAttrs parsed, LayoutAndPadding(given, attrs));
  const int rows = parsed.layout.rows();
  const int cols = parsed.layout.cols();
  const int channels = parsed.layout.channels();

  const Ints& ksize = given.ksize;
  const Ints& strides = given.strides;
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

absl::StatusOr<WindowedSize> SlideWindow(int64_t input, int64_t window, const WindowAttr& attr,
                                         Padding padding) {
  // The output of "SAME" does not depend on the window.
  if (input < 0 || (window < 0 && padding != Padding::kSame)) return WindowedSize{-1, 0, 0};
  // int32's range for all but `input` keeps these products and sums within int64.
  if (input > (int64_t{1} << 48) || window > kInt32Max) {
    return InvalidArgument("Sliding window: size out of range: input=", input, " window=", window);
  }
  const int64_t effective = window <= 0 ? 0 : (window - 1) * attr.dilation + 1;
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

}  // namespace formwork
