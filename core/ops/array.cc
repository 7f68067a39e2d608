#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterArrayOps(OpRegistry& registry) {
  registry.Add("Shape(input: T) -> (output: out_type); T: type; out_type: {int32, int64} = int32",
               {});
  registry.Add(
      "Reshape(tensor: T, shape: Tshape) -> (output: T); T: type; Tshape: {int32, int64} = "
      "int32",
      {});
  registry.Add("Pack(values: N*T) -> (output: T); N: int >= 1; T: type; axis: int = 0", {});
  registry.Add(
      "Fill(dims: index_type, value: T) -> (output: T); T: type; index_type: {int32, int64}"
      " = int32",
      {});
  registry.Add(
      "ExpandDims(input: T, dim: Tdim) -> (output: T); T: type; Tdim: {int32, int64} = "
      "int32",
      {});
  registry.Add(
      "ConcatV2(values: N*T, axis: Tidx) -> (output: T); N: int >= 2; T: type; Tidx: "
      "{int32, int64} = int32",
      {});
  registry.Add(
      "Tile(input: T, multiples: Tmultiples) -> (output: T); T: type; Tmultiples: {int32, "
      "int64} = int32",
      {});
  registry.Add("Transpose(x: T, perm: Tperm) -> (y: T); T: type; Tperm: {int32, int64} = int32",
               {});
  registry.Add("Squeeze(input: T) -> (output: T); T: type; squeeze_dims: list(int) >= 0 = []", {});
  registry.Add(
      "BroadcastTo(input: T, shape: Tidx) -> (output: T); T: type; Tidx: {int32, int64} = "
      "int32",
      {});
  registry.Add("BroadcastGradientArgs(s0: T, s1: T) -> (r0: T, r1: T); T: {int32, int64} = int32",
               {});
  registry.Add("ZerosLike(x: T) -> (y: T); T: type", {});
  registry.Add("Size(input: T) -> (output: out_type); T: type; out_type: {int32, int64} = int32",
               {});
  registry.Add(
      "Split(split_dim: int32, value: T) -> (output: num_split*T); num_split: int >= 1; T: "
      "type",
      {});
  registry.Add("InvertPermutation(x: T) -> (y: T); T: {int32, int64} = int32", {});
  registry.Add(
      "Pad(input: T, paddings: Tpaddings) -> (output: T); T: type; Tpaddings: {int32, "
      "int64} = int32",
      {});
  registry.Add(
      "PadV2(input: T, paddings: Tpaddings, constant_values: T) -> (output: T); T: type; "
      "Tpaddings: {int32, int64} = int32",
      {});
  registry.Add(
      "ShapeN(input: N*T) -> (output: N*out_type); N: int >= 1; T: type; out_type: {int32, "
      "int64} = int32",
      {});
  registry.Add(
      "Bitcast(input: T) -> (output: type); T: {bfloat16, half, float, double, int64, "
      "int32, uint8, uint16, uint32, uint64, int8, int16, complex64, complex128, qint8, "
      "quint8, qint16, quint16, qint32}; type: {bfloat16, half, float, double, int64, "
      "int32, uint8, uint16, uint32, uint64, int8, int16, complex64, complex128, qint8, "
      "quint8, qint16, quint16, qint32}",
      {});
  registry.Add(
      "ConcatOffset(concat_dim: int32, shape: N*shape_type) -> (offset: N*shape_type); N: "
      "int >= 2; shape_type: {int32, int64} = int32",
      {});
  registry.Add(
      "ReverseV2(tensor: T, axis: Tidx) -> (output: T); Tidx: {int32, int64} = int32; T: "
      "{uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, "
      "float, double, complex64, complex128, string}",
      {});
  registry.Add("Unpack(value: T) -> (output: num*T); num: int >= 0; T: type; axis: int = 0", {});
  registry.Add(
      "OnesLike(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, uint8, int16, "
      "uint16, int32, uint32, int64, uint64, complex64, complex128, bool}",
      {});
  registry.Add(
      "MatrixBandPart(input: T, num_lower: Tindex, num_upper: Tindex) -> (band: T); T: "
      "type; Tindex: {int32, int64} = int64",
      {});
  registry.Add(
      "SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> (output:"
      " T); T: type; Tblock_shape: {int32, int64} = int32; Tpaddings: {int32, int64} = "
      "int32",
      {});
  registry.Add(
      "BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> (output: T); "
      "T: type; Tblock_shape: {int32, int64} = int32; Tcrops: {int32, int64} = int32",
      {});
  registry.Add(
      "SplitV(value: T, size_splits: Tlen, split_dim: int32) -> (output: num_split*T); "
      "num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64",
      {});
  registry.Add(
      "MatrixDiagPartV3(input: T, k: int32, padding_value: T) -> (diagonal: T); T: type; "
      "align: {\"LEFT_RIGHT\", \"RIGHT_LEFT\", \"LEFT_LEFT\", \"RIGHT_RIGHT\"} = \"RIGHT_LEFT\"",
      {});
  registry.Add("Rank(input: T) -> (output: int32); T: type", {});
  registry.Add(
      "Range(start: Tidx, limit: Tidx, delta: Tidx) -> (output: Tidx); Tidx: {bfloat16, "
      "half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = int32",
      {});
  registry.Add(
      "Slice(input: T, begin: Index, size: Index) -> (output: T); T: type; Index: {int32, "
      "int64}",
      {});
  registry.Add(
      "StridedSlice(input: T, begin: Index, end: Index, strides: Index) -> (output: T); T: "
      "type; Index: {int16, int32, int64}; begin_mask: int = 0; end_mask: int = 0; "
      "ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
      {});
  registry.Add(
      "StridedSliceGrad(shape: Index, begin: Index, end: Index, strides: Index, dy: T) -> "
      "(output: T); T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0;"
      " ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
      {});
}

}  // namespace formwork
