#include "gpu/scan_items.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/item_source.h"
#include "gpu/scan_functions_text.h"

namespace formwork {

uint64_t ScanPlan::totals() const {
  uint64_t sum = 0;
  for (size_t k = 1; k < levels.size(); ++k) sum += outer * levels[k].length * inner;
  return sum;
}

ScanPlan PlanScan(const ReduceExtent& extent, uint64_t many_rows, uint64_t chunk) {
  ScanPlan plan{static_cast<uint64_t>(extent.outer), static_cast<uint64_t>(extent.inner), {}};
  auto length = static_cast<uint64_t>(extent.reduced);
  // Two chunks are worth no pass of their own.
  while (plan.outer * plan.inner < many_rows && length > 2 * chunk) {
    const uint64_t chunks = (length + chunk - 1) / chunk;
    plan.levels.push_back({length, chunk, chunks});
    length = chunks;
  }
  plan.levels.push_back({length, length, 1});
  return plan;
}

absl::Span<const ScanOp> ScanOps() {
  static constexpr ScanOp kOps[] = {
      {"Cumsum", "ScanSum", 0},
      {"Cumprod", "ScanProduct", 1},
      {"CumulativeLogsumexp", "ScanLogSumExp", -std::numeric_limits<double>::infinity()}};
  return kOps;
}

absl::StatusOr<std::string> ScanItemName(const ScanOp& op, DType dtype) {
  const absl::string_view element = ElementTypeName(dtype);
  const bool floats = op.combine == "ScanLogSumExp";
  if (element.empty() || dtype == DType::kBool || (floats && !IsFloating(dtype))) {
    return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat("ScanItem<", element, ", ", op.combine, ">");
}

std::string ScanSource(absl::string_view item) {
  return ItemSource(item, absl::StrCat(kElementAccessText, kScanFunctionsText));
}

}  // namespace formwork
