#include "gpu/resize_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/resize_functions_text.h"

namespace formwork {
namespace {

formwork_element::ResizeAxis AxisOf(const ResizeAttrs& attrs, int64_t in, int64_t out) {
  const float scale = attrs.align_corners && out > 1
                          ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                          : static_cast<float>(in) / static_cast<float>(out);
  return {in, out, scale, attrs.align_corners, attrs.half_pixel_centers};
}

}  // namespace

formwork_element::ResizeSizes ResizeSizesOf(const ResizeAttrs& attrs,
                                            const ResizeGeometry& geometry, int64_t channels) {
  return {AxisOf(attrs, geometry.in_rows, geometry.out_rows),
          AxisOf(attrs, geometry.in_cols, geometry.out_cols), channels};
}

absl::StatusOr<std::string> ResizeItemName(absl::string_view op, DType dtype) {
  const absl::string_view element = ElementTypeName(dtype);
  if (!element.empty() && dtype != DType::kBool) {
    if (op == "ResizeBilinear") return absl::StrCat("BilinearItem<", element, ">");
    // Of memory of 8 bits nothing can be exchanged; and half precision is summed in float.
    if (op == "ResizeNearestNeighborGrad" && DTypeSize(dtype) > 1) {
      return absl::StrCat("NearestGradItem<", element, ">");
    }
    if (op == "ResizeBilinearGrad" && (dtype == DType::kFloat || dtype == DType::kDouble)) {
      return absl::StrCat("BilinearGradItem<", element, ">");
    }
  }
  return Unimplemented(op, " of ", DTypeName(dtype), " on a GPU");
}

const std::string& ResizeText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kResizeFunctionsText));
  return *text;
}

}  // namespace formwork
