#include "gpu/color_items.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/color_functions_text.h"
#include "gpu/color_rules_text.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/item_source.h"

namespace formwork {

absl::Span<const ColorOp> ColorOps() {
  static constexpr ColorOp kOps[] = {{"RGBToHSV", "ToHsv", ""},
                                     {"HSVToRGB", "ToRgb", ""},
                                     {"AdjustHue", "TurnHue", "delta"},
                                     {"AdjustSaturation", "Saturate", "scale"}};
  return kOps;
}

absl::StatusOr<std::string> ColorItemName(const ColorOp& op, DType dtype) {
  const bool taken = op.by.empty() ? IsFloating(dtype) : dtype == DType::kFloat;
  if (!taken) return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  return absl::StrCat("ColorItem<", ElementTypeName(dtype), ", formwork::color::", op.change, ">");
}

ContrastPlan PlanContrast(const Shape& images) {
  const int rank = images.rank();
  ContrastPlan plan{};
  plan.channels = static_cast<uint64_t>(images.dim(rank - 1));
  plan.pixels = static_cast<uint64_t>(images.dim(rank - 3) * images.dim(rank - 2));
  plan.images = static_cast<uint64_t>(images.num_elements()) / (plan.pixels * plan.channels);
  // As many parts as keep a GPU busy, of a hundred pixels at least.
  const uint64_t wanted = static_cast<uint64_t>(kBusyItems) / plan.means() + 1;
  plan.part = std::max<uint64_t>((plan.pixels + wanted - 1) / wanted, 100);
  plan.parts = (plan.pixels + plan.part - 1) / plan.part;
  return plan;
}

const std::string& ColorText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kColorRulesText, kColorFunctionsText));
  return *text;
}

}  // namespace formwork
