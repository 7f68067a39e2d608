#include "core/kernels/variant/tensor_part.h"

#include <utility>

#include "core/base/status.h"
#include "core/kernels/variant/variant_nesting.h"

namespace formwork {

absl::StatusOr<Variant> PartOf(Tensor tensor) {
  auto part = std::make_shared<TensorPart>();
  FORMWORK_RETURN_IF_ERROR(CountNesting(*part, tensor));
  part->tensor = std::move(tensor);
  return Variant(std::move(part));
}

}  // namespace formwork
