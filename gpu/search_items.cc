#include "gpu/search_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/search_functions_text.h"

namespace formwork {

absl::StatusOr<std::string> SearchItemName(absl::string_view op, DType dtype, DType index) {
  const absl::string_view element = ElementTypeName(dtype);
  if (element.empty()) return Unimplemented(op, " of ", DTypeName(dtype), " on a GPU");
  return absl::StrCat("SearchItem<", element, ", ", op == "Bucketize" ? "float" : element, ", ",
                      ElementTypeName(index), ">");
}

const std::string& SearchText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kSearchFunctionsText));
  return *text;
}

}  // namespace formwork
