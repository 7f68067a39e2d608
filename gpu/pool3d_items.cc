#include "gpu/pool3d_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_source.h"
#include "gpu/pool3d_functions_text.h"
#include "gpu/pool_items.h"

namespace formwork {

absl::StatusOr<std::string> Pool3dItemName(absl::string_view op, DType dtype) {
  // As TensorFlow's kernels for the CPU.
  if (dtype != DType::kFloat && dtype != DType::kBfloat16) {
    return Unimplemented(op, " of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat(op, "Item<", ElementTypeName(dtype), ">");
}

const std::string& Pool3dText() {
  static const auto* const text = new std::string(absl::StrCat(PoolText(), kPool3dFunctionsText));
  return *text;
}

}  // namespace formwork
