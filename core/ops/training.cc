#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterTrainingOps(OpRegistry& registry) {
  registry.Add(
      "ResourceApplyAdam(var: resource, m: resource, v: resource, beta1_power: T, "
      "beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T) -> (); T: {float, "
      "double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
      "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; use_locking: "
      "bool = false; use_nesterov: bool = false",
      {.effect = Effect::kWrite});
  registry.Add(
      "ResourceApplyGradientDescent(var: resource, alpha: T, delta: T) -> (); T: {float, "
      "double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
      "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; use_locking: "
      "bool = false",
      {.effect = Effect::kWrite});
}

}  // namespace formwork
