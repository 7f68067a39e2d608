#include "gpu/conv_items.h"

#include "absl/strings/str_cat.h"
#include "gpu/conv_functions_text.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/image_functions_text.h"
#include "gpu/item_source.h"

namespace formwork {
namespace {

// Of patches in memory at once. What is more gains nothing: a product is large enough before.
constexpr int64_t kPatchBytes = int64_t{128} << 20;

}  // namespace

std::string ConvItemName(ConvStage stage, DType dtype) {
  const absl::string_view element = ElementTypeName(dtype);
  switch (stage) {
    case ConvStage::kPatches:
      return "PatchItem<";
    case ConvStage::kUnpatch:
      return absl::StrCat("UnpatchItem<", element, ">");
    case ConvStage::kForward:
      return absl::StrCat("ConvItem<", element, ">");
    case ConvStage::kInput:
      return absl::StrCat("ConvInputItem<", element, ">");
    case ConvStage::kFilter:
      return absl::StrCat("ConvFilterItem<", element, ">");
    case ConvStage::kFilterSums:
      return absl::StrCat("ConvFilterSumItem<", element, ">");
  }
  return "";
}

const std::string& ConvText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kImageFunctionsText, kConvFunctionsText));
  return *text;
}

formwork_element::ConvSizes ConvSizesOf(const ConvShape& shape) {
  const auto line = [](const ConvAxis& a) {
    return formwork_element::ConvLine{a.input,  a.output,   a.taps,
                                      a.stride, a.dilation, a.pad_before};
  };
  return {shape.in_channels,    shape.out_channels, shape.in_group(), shape.out_group(),
          shape.channels_first, line(shape.rows),   line(shape.cols)};
}

std::optional<PatchPlan> PatchPlan::Of(const ConvShape& shape, size_t element_bytes) {
  if (shape.channels_first || shape.groups != 1) return std::nullopt;
  if (shape.input_elements() == 0 || shape.output_elements() == 0) return std::nullopt;
  const auto is_whole = [](const ConvAxis& a) {
    return a.taps == 1 && a.stride == 1 && a.input == a.output && a.pad_before == 0;
  };
  return Of(shape.batch, shape.rows.output * shape.cols.output,
            shape.filter_elements() / shape.out_channels, shape.out_channels,
            is_whole(shape.rows) && is_whole(shape.cols), element_bytes);
}

PatchPlan PatchPlan::Of(int64_t batch, int64_t rows_of_image, int64_t columns, int64_t out_channels,
                        bool are_images, size_t element_bytes) {
  PatchPlan plan{};
  plan.rows_of_image = rows_of_image;
  plan.rows = batch * plan.rows_of_image;
  plan.columns = columns;
  plan.out_channels = out_channels;
  plan.are_images = are_images;
  plan.element_bytes = element_bytes;
  plan.chunk = plan.rows;
  if (!plan.are_images) {
    const int64_t bytes = plan.columns * static_cast<int64_t>(element_bytes);
    plan.chunk = std::clamp<int64_t>(kPatchBytes / bytes, 1, plan.rows);
    if (plan.chunk > plan.rows_of_image) plan.chunk -= plan.chunk % plan.rows_of_image;
  }
  return plan;
}

int64_t FilterParts(const ConvShape& shape) {
  const int64_t runs =
      shape.batch * shape.rows.output * shape.cols.output / formwork_element::kFloatRun;
  return std::clamp<int64_t>(kBusyItems / std::max<int64_t>(shape.filter_elements(), 1), 1,
                             std::max<int64_t>(runs, 1));
}

}  // namespace formwork
