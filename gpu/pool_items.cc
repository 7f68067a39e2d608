#include "gpu/pool_items.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/image_functions_text.h"
#include "gpu/pool_functions_text.h"

namespace formwork {

absl::StatusOr<std::string> PoolItemName(absl::string_view op, DType dtype) {
  const absl::string_view element = ElementTypeName(dtype);
  const bool averages = absl::StartsWith(op, "Avg");
  if (element.empty() || dtype == DType::kBool || (averages && !IsFloating(dtype))) {
    return Unimplemented(op, " of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat(op, "Item<", element, ">");
}

const std::string& PoolText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kImageFunctionsText, kPoolFunctionsText));
  return *text;
}

}  // namespace formwork
