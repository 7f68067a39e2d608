#include "core/ops/mutex.h"

#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<ResourceType> TypeOfMutex(const AttrMap&) {
  return ResourceType{&kMutexKind, {{DType::kBool, *PartialShape::Make({})}}};
}

}  // namespace

void RegisterMutexOps(OpRegistry& registry) {
  registry.Add(
      "MutexV2() -> (resource: resource); container: string = \"\"; shared_name: string = \"\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfMutex});
  registry.Add("MutexLock(mutex: resource) -> (mutex_lock: variant)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kWrite});
  registry.Add("ConsumeMutexLock(mutex_lock: variant) -> ()", {.effect = Effect::kWrite});
}

}  // namespace formwork
