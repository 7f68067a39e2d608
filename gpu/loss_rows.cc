#include "gpu/loss_rows.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_functions_text.h"
#include "gpu/element_source.h"
#include "gpu/item_functions_text.h"
#include "gpu/loss_functions_text.h"
#include "gpu/reduce_functions_text.h"

namespace formwork {

absl::Status LabelOutOfRange(uint64_t where, int64_t classes) {
  const uint32_t told = static_cast<uint32_t>(where);
  const std::string value =
      told == 0 ? "" : absl::StrCat(" of ", static_cast<int64_t>(told) - (int64_t{1} << 31));
  return InvalidArgument("Received a label value", value,
                         " which is outside the valid range of [0, ", classes, ").");
}

std::string LossSource(DType logits, DType labels) {
  const absl::string_view type = ElementTypeName(logits);
  const std::string of_labels = labels == DType::kInvalid
                                    ? absl::StrCat("DenseLabels<", type, ">")
                                    : absl::StrCat("SparseLabels<", ElementTypeName(labels), ">");
  return absl::StrCat(
      kElementFunctionsText, kItemFunctionsText, kElementAccessText, kReduceFunctionsText,
      kLossFunctionsText,
      "using namespace formwork_element;\nextern \"C\" __global__ void __launch_bounds__(256) "
      "loss(LossRows<",
      type, ", ", of_labels,
      "> rows, ReduceBlock block, FailureWord* word, unsigned long long step) {\n"
      "  if (FailedEarlier(word, step)) return;\n  LossAll<",
      logits == DType::kDouble ? "double" : "float", ">(rows, block);\n}\n");
}

}  // namespace formwork
