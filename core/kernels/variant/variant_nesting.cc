#include "core/kernels/variant/variant_nesting.h"

#include <algorithm>

#include "core/base/status.h"

namespace formwork {

absl::Status CountNesting(VariantObject& holder, const Tensor& item) {
  if (item.dtype() != DType::kVariant) return absl::OkStatus();
  for (const Variant& variant : item.span<Variant>()) {
    if (variant == nullptr) continue;
    if (variant->nesting >= kMaxVariantNesting) {
      return InvalidArgument(holder.type_name(),
                             ": variants are nested too deep: limit=", kMaxVariantNesting);
    }
    holder.nesting = std::max(holder.nesting, variant->nesting + 1);
  }
  return absl::OkStatus();
}

}  // namespace formwork
