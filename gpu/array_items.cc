#include "gpu/array_items.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/elementwise.h"
#include "gpu/array_functions_text.h"
#include "gpu/element_access_text.h"
#include "gpu/item_source.h"

namespace formwork {

// Neighbouring dimensions in which every operand goes on in the same way are one.
absl::StatusOr<SelectPlan> PlanSelect(const Shape& condition, const Shape& then,
                                      const Shape& otherwise, bool by_rows) {
  const auto prepare = by_rows ? &PrepareSelect : &PrepareSelectV2;
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            prepare(condition.dims(), then.dims(), otherwise.dims()));
  SelectPlan plan;
  FORMWORK_ASSIGN_OR_RETURN(plan.output, Shape::Make(dims));
  Dims of_condition(condition.dims().begin(), condition.dims().end());
  if (by_rows && condition.rank() == 1) of_condition.resize(dims.size(), 1);
  const std::array<absl::Span<const int64_t>, 3> operands = {of_condition, then.dims(),
                                                             otherwise.dims()};
  formwork_element::SelectItem<char>& to = plan.dimensions;
  uint64_t reached[3] = {1, 1, 1};  // Elements of each operand in the dimensions so far.
  bool repeated_before[3] = {};
  for (size_t d = 1; d <= dims.size(); ++d) {  // From the last one.
    const auto dim = static_cast<uint64_t>(dims[dims.size() - d]);
    if (dim == 1) continue;
    bool repeated[3] = {};
    bool as_before = to.rank > 0;
    for (size_t k = 0; k < 3; ++k) {
      const absl::Span<const int64_t> operand = operands[k];
      repeated[k] = d > operand.size() || operand[operand.size() - d] == 1;
      as_before = as_before && repeated[k] == repeated_before[k];
    }
    if (as_before) {
      to.sizes[to.rank - 1] *= dim;
    } else {
      if (to.rank == formwork_element::kMostChosenDims) {
        return Unimplemented("a choice that broadcasts in more than ", to.rank,
                             " dimensions on a GPU");
      }
      to.sizes[to.rank] = dim;
      for (size_t k = 0; k < 3; ++k) {
        to.strides[k][to.rank] = repeated[k] ? 0 : reached[k];
        repeated_before[k] = repeated[k];
      }
      ++to.rank;
    }
    for (size_t k = 0; k < 3; ++k) {
      if (!repeated[k]) reached[k] *= dim;
    }
  }
  return plan;
}

std::string ArraySource(absl::string_view item) {
  return ItemSource(item, absl::StrCat(kElementAccessText, kArrayFunctionsText));
}

}  // namespace formwork
