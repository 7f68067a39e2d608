#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterVariableOps(OpRegistry& registry) {
  registry.Add("ReadVariableOp(resource: resource) -> (value: dtype); dtype: type",
               {.effect = Effect::kRead});
  registry.Add(
      "AssignVariableOp(resource: resource, value: dtype) -> (); dtype: type; "
      "validate_shape: bool = false",
      {.effect = Effect::kWrite});
  registry.Add("AssignAddVariableOp(resource: resource, value: dtype) -> (); dtype: type",
               {.effect = Effect::kWrite});
  registry.Add("AssignSubVariableOp(resource: resource, value: dtype) -> (); dtype: type",
               {.effect = Effect::kWrite});
  registry.Add(
      "VariableShape(input: resource) -> (output: out_type); out_type: {int32, int64} = "
      "int32",
      {.effect = Effect::kRead});
  registry.Add(
      "VarHandleOp() -> (resource: resource); container: string = \"\"; shared_name: string ="
      " \"\"; debug_name: string = \"\"; dtype: type; shape: shape; allowed_devices: "
      "list(string) = []",
      {});
  registry.Add("VarIsInitializedOp(resource: resource) -> (is_initialized: bool)",
               {.effect = Effect::kRead});
  registry.Add(
      "ResourceGather(resource: resource, indices: Tindices) -> (output: dtype); "
      "batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: {int32, "
      "int64}",
      {.effect = Effect::kRead});
  registry.Add(
      "ResourceScatterAdd(resource: resource, indices: Tindices, updates: dtype) -> (); "
      "dtype: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, "
      "qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; "
      "Tindices: {int32, int64}",
      {.effect = Effect::kWrite});
  registry.Add(
      "ResourceScatterSub(resource: resource, indices: Tindices, updates: dtype) -> (); "
      "dtype: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, "
      "qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; "
      "Tindices: {int32, int64}",
      {.effect = Effect::kWrite});
  registry.Add(
      "ResourceScatterUpdate(resource: resource, indices: Tindices, updates: dtype) -> (); "
      "dtype: type; Tindices: {int32, int64}",
      {.effect = Effect::kWrite});
  registry.Add("DestroyResourceOp(resource: resource) -> (); ignore_lookup_error: bool = true",
               {.effect = Effect::kWrite});
}

}  // namespace formwork
