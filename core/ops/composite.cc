// Composite tensors (extension types) as one element of dtype variant.

#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterCompositeOps(OpRegistry& registry) {
  registry.Add(
      "CompositeTensorVariantFromComponents(components: Tcomponents) -> (encoded: variant); "
      "metadata: string; Tcomponents: list(type) >= 0",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "CompositeTensorVariantToComponents(encoded: variant) -> (components: Tcomponents); "
      "metadata: string; Tcomponents: list(type) >= 0");
}

}  // namespace formwork
