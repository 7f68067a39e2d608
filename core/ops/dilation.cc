#include "core/ops/dilation.h"

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

absl::StatusOr<DilationAttrs> DilationAttrs::FromAttrs(const AttrMap& attrs) {
  struct Given {
    std::string padding;
    std::vector<int64_t> strides;
    std::vector<int64_t> rates;
  };
  FORMWORK_ASSIGN_OR_RETURN(const Given given,
                            ReadAttrs<Given>(attrs, "padding", &Given::padding, "strides",
                                             &Given::strides, "rates", &Given::rates));
  for (const std::vector<int64_t>* sizes : {&given.strides, &given.rates}) {
    const bool strides = sizes == &given.strides;
    if (sizes->size() != 4) {
      return InvalidArgument(
          strides ? "Sliding window stride field" : "Input stride (atrous rate)",
          strides ? " must specify 4 dimensions" : " field must specify 4 dimensions");
    }
    if ((*sizes)[0] != 1 || (*sizes)[3] != 1) {
      return Unimplemented(strides ? "Stride" : "Rate",
                           " is only supported across spatial dimensions.");
    }
    for (const int64_t size : {(*sizes)[1], (*sizes)[2]}) {
      if (size > 0 && size <= std::numeric_limits<int32_t>::max()) continue;
      return InvalidArgument(strides ? "Strides" : "Rates", " must be positive: ", size);
    }
  }
  DilationAttrs read;
  read.padding = given.padding == "SAME" ? Padding::kSame : Padding::kValid;
  for (size_t i = 0; i < 2; ++i) {
    read.windows[i].stride = given.strides[i + 1];
    read.windows[i].dilation = given.rates[i + 1];
  }
  return read;
}

absl::StatusOr<DilationGeometry> PrepareDilation(const DilationAttrs& attrs,
                                                 absl::Span<const int64_t> input,
                                                 absl::Span<const int64_t> filter) {
  if (input.size() != 4) {
    return InvalidArgument("input must be 4-dimensional: ", DimsText(input));
  }
  if (filter.size() != 3) {
    return InvalidArgument("filter must be 3-dimensional: ", DimsText(filter));
  }
  if (!MayBeEqual(input[3], filter[2])) {
    return InvalidArgument("input and filter must have the same depth: ", input[3], " vs ",
                           filter[2]);
  }
  const auto axis = [&](size_t i) -> absl::StatusOr<DilationAxis> {
    const WindowAttr& window = attrs.windows[i];
    if (filter[i] == 0) return InvalidArgument("filter must not be empty: ", DimsText(filter));
    FORMWORK_ASSIGN_OR_RETURN(const WindowedSize slid,
                              SlideWindow(input[i + 1], filter[i], window, attrs.padding));
    return DilationAxis{input[i + 1],  slid.output,     filter[i],
                        window.stride, window.dilation, slid.pad_before};
  };
  DilationGeometry geometry = {input[0], {}, {}, input[3]};
  FORMWORK_ASSIGN_OR_RETURN(geometry.rows, axis(0));
  FORMWORK_ASSIGN_OR_RETURN(geometry.cols, axis(1));
  return geometry;
}

namespace {

absl::Status DilationShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const DilationAttrs attrs, DilationAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const DilationGeometry geometry,
                            PrepareDilation(attrs, shapes::OrOfRank(c.input(0), 4).dims(),
                                            shapes::OrOfRank(c.input(1), 3).dims()));
  return array_shapes::SetOutput(c, 0, geometry.output_dims());
}

absl::Status FilterGradientShape(InferenceContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterDilationOps(OpRegistry& registry) {
  registry.Add(
      "Dilation2D(input: T, filter: T) -> (output: T); T: realnumbertype; strides: list(int) >= 4; "
      "rates: list(int) >= 4; padding: {\"SAME\", \"VALID\"}",
      {.shape_fn = DilationShape});
  registry.Add(
      "Dilation2DBackpropInput(input: T, filter: T, out_backprop: T) -> (in_backprop: T); T: "
      "realnumbertype; strides: list(int) >= 4; rates: list(int) >= 4; padding: {\"SAME\", "
      "\"VALID\"}",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "Dilation2DBackpropFilter(input: T, filter: T, out_backprop: T) -> (filter_backprop: T); T: "
      "realnumbertype; strides: list(int) >= 4; rates: list(int) >= 4; padding: {\"SAME\", "
      "\"VALID\"}",
      {.shape_fn = FilterGradientShape});
}

}  // namespace formwork
