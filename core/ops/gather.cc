#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterGatherOps(OpRegistry& registry) {
  registry.Add(
      "GatherV2(params: Tparams, indices: Tindices, axis: Taxis) -> (output: Tparams); "
      "batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: {int32, "
      "int64}",
      {});
  registry.Add("DynamicStitch(indices: N*int32, data: N*T) -> (merged: T); N: int >= 1; T: type",
               {});
  registry.Add(
      "Where(input: T) -> (index: int64); T: {float, double, int32, uint8, int16, int8, "
      "complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
      "complex128, half, uint32, uint64, bool} = bool",
      {});
  registry.Add(
      "TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> (output: T); T: "
      "type; Tindices: {int16, int32, int64, uint16}; bad_indices_policy: string = \"\"",
      {});
  registry.Add(
      "ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> (output: T); T: type; "
      "Tindices: {int16, int32, int64}; bad_indices_policy: string = \"\"",
      {});
  registry.Add(
      "GatherNd(params: Tparams, indices: Tindices) -> (output: Tparams); Tparams: type; "
      "Tindices: {int16, int32, int64}; bad_indices_policy: string = \"\"",
      {});
  registry.Add(
      "OneHot(indices: TI, depth: int32, on_value: T, off_value: T) -> (output: T); axis: "
      "int = -1; T: type; TI: {uint8, int8, int32, int64} = int64",
      {});
}

}  // namespace formwork
