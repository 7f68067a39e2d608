#include "gpu/crop_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/crop_functions_text.h"
#include "gpu/element_source.h"
#include "gpu/resize_items.h"

namespace formwork {

absl::Status BadBoxes(uint64_t where) {
  if (where == formwork_element::kNoSuchImage) {
    return absl::OutOfRangeError("box_index has values outside [0, batch_size)");
  }
  return InvalidArgument("Boxes contains at least one element that is not finite");
}

absl::StatusOr<std::string> CropItemName(absl::string_view op, DType dtype) {
  const absl::string_view element = ElementTypeName(dtype);
  // Half precision is summed in float.
  const bool summed = dtype == DType::kFloat || dtype == DType::kDouble;
  if (element.empty() || dtype == DType::kBool || (op == "CropAndResizeGradImage" && !summed)) {
    return Unimplemented(op, " of ", DTypeName(dtype), " on a GPU");
  }
  if (op == "CropAndResizeGradImage") return absl::StrCat("CropGradImageItem<", element, ">");
  if (op == "CropAndResizeGradBoxes") return absl::StrCat("CropGradBoxesItem<", element, ">");
  return absl::StrCat("CropItem<", element, ">");
}

const std::string& CropText() {
  static const auto* const text = new std::string(absl::StrCat(ResizeText(), kCropFunctionsText));
  return *text;
}

}  // namespace formwork
