#include "gpu/conv3d_items.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/ops/dims.h"
#include "gpu/conv3d_functions_text.h"
#include "gpu/element_source.h"

namespace formwork {

formwork_element::ConvVolume ConvVolumeOf(const Conv3dShape& shape) {
  const auto line = [&](int i) {
    const ConvAxis& a = shape.axes[static_cast<size_t>(i)];
    return formwork_element::ConvLine{a.input,  a.output,   a.taps,
                                      a.stride, a.dilation, a.pad_before};
  };
  return {line(0), line(1), line(2)};
}

std::optional<PatchPlan> PlanConv3d(const Conv3dShape& shape, size_t element_bytes) {
  const int64_t filter = CountElements(shape.filter_dims());
  if (filter == 0 || CountElements(shape.input_dims()) == 0 ||
      CountElements(shape.output_dims()) == 0) {
    return std::nullopt;
  }
  const bool are_images = std::all_of(shape.axes.begin(), shape.axes.end(), [](const ConvAxis& a) {
    return a.taps == 1 && a.stride == 1 && a.input == a.output && a.pad_before == 0;
  });
  return PatchPlan::Of(shape.batch,
                       shape.axes[0].output * shape.axes[1].output * shape.axes[2].output,
                       filter / shape.out_channels, shape.out_channels, are_images, element_bytes);
}

std::string Unpatch3dItemName(DType dtype) {
  return absl::StrCat("Unpatch3dItem<", ElementTypeName(dtype), ">");
}

const std::string& Conv3dText() {
  static const auto* const text = new std::string(absl::StrCat(ConvText(), kConv3dFunctionsText));
  return *text;
}

}  // namespace formwork
