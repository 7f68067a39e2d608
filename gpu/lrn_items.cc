#include "gpu/lrn_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/lrn_functions_text.h"

namespace formwork {
namespace {

// A thread asks all neighbours, and no call can stop it.
constexpr int64_t kMostNeighbours = 1024;

}  // namespace

formwork_element::LrnSizes LrnSizesOf(const LrnAttrs& attrs, int64_t depth) {
  return {depth, attrs.depth_radius, attrs.bias, attrs.alpha, attrs.beta};
}

absl::StatusOr<std::string> LrnItemName(absl::string_view item, const LrnAttrs& attrs,
                                        DType dtype) {
  if (dtype != DType::kFloat && dtype != DType::kHalf) {
    return Unimplemented("LRN of ", DTypeName(dtype), " on a GPU");
  }
  if (attrs.depth_radius > kMostNeighbours) {
    return Unimplemented("LRN of ", attrs.depth_radius, " neighbours on a GPU");
  }
  return absl::StrCat(item, "<", ElementTypeName(dtype), ">");
}

const std::string& LrnText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kLrnFunctionsText));
  return *text;
}

}  // namespace formwork
