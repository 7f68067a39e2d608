#include "gpu/norm_items.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/item_source.h"
#include "gpu/norm_functions_text.h"

namespace formwork {

std::string NormItemName(NormStage stage, DType dtype) {
  const absl::string_view element = ElementTypeName(dtype);
  switch (stage) {
    case NormStage::kSums:
      return absl::StrCat("NormSumsItem<", element, ", SumOf>");
    case NormStage::kMean:
      return "NormMeanItem";
    case NormStage::kSquares:
      return absl::StrCat("NormSumsItem<", element, ", SquaresOf>");
    case NormStage::kStatistics:
      return "NormStatisticsItem";
    case NormStage::kGiven:
      return "NormGivenItem";
    case NormStage::kScale:
      return absl::StrCat("NormScaleItem<", element, ">");
    case NormStage::kProducts:
      return absl::StrCat("NormSumsItem<", element, ", ProductsOf>");
    case NormStage::kCoefficients:
      return "NormCoefficientsItem";
    case NormStage::kGradient:
      return absl::StrCat("NormGradientItem<", element, ">");
  }
  return "";
}

const std::string& NormText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kNormFunctionsText));
  return *text;
}

formwork_element::NormSizes NormSizesOf(const BatchNormGeometry& geometry) {
  const int64_t channels = geometry.channels;
  const int64_t per_channel = geometry.outer * geometry.inner;
  const int64_t runs = per_channel / formwork_element::kFloatRun;  // Each worth an item.
  const int64_t parts = std::min(runs, kBusyItems / std::max<int64_t>(channels, 1));
  return {geometry.outer, channels, geometry.inner, std::max<int64_t>(parts, 1)};
}

}  // namespace formwork
