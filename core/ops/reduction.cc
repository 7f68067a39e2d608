#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterReductionOps(OpRegistry& registry) {
  registry.Add(
      "Sum(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
      "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; Tidx: {int32, "
      "int64} = int32",
      {});
  registry.Add(
      "Prod(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
      "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; Tidx: {int32, "
      "int64} = int32",
      {});
  registry.Add(
      "Mean(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
      "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; Tidx: {int32, "
      "int64} = int32",
      {});
  registry.Add(
      "Max(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
      "uint64, qint8, quint8, qint32, qint16, quint16}; Tidx: {int32, int64} = int32",
      {});
  registry.Add(
      "Min(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
      "uint64, qint8, quint8, qint32, qint16, quint16}; Tidx: {int32, int64} = int32",
      {});
  registry.Add(
      "All(input: bool, reduction_indices: Tidx) -> (output: bool); keep_dims: bool = "
      "false; Tidx: {int32, int64} = int32",
      {});
  registry.Add(
      "Any(input: bool, reduction_indices: Tidx) -> (output: bool); keep_dims: bool = "
      "false; Tidx: {int32, int64} = int32",
      {});
  registry.Add(
      "ArgMax(input: T, dimension: Tidx) -> (output: output_type); T: {float, double, "
      "int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, "
      "quint8, qint32, qint16, quint16, bool}; Tidx: {int16, int32, int64} = int32; "
      "output_type: {int16, uint16, int32, int64} = int64",
      {});
  registry.Add(
      "Cumsum(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; reverse: bool = "
      "false; T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, "
      "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, "
      "uint64}; Tidx: {int32, int64} = int32",
      {});
  registry.Add(
      "DenseBincount(input: Tidx, size: Tidx, weights: T) -> (output: T); Tidx: {int32, "
      "int64}; T: {int32, int64, float, double}; binary_output: bool = false",
      {});
  registry.Add("L2Loss(t: T) -> (output: T); T: {half, bfloat16, float, double}", {});
}

}  // namespace formwork
