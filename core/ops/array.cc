#include "core/ops/array_shapes.h"
#include "core/ops/register_ops.h"

namespace formwork {

void RegisterArrayOps(OpRegistry& registry) {
  registry.Add("Shape(input: T) -> (output: host out_type); T: type; out_type: indextype = int32",
               {.shape_fn = array_shapes::ShapeOf, .shape_only = true});
  registry.Add(
      "Reshape(tensor: T, shape: host Tshape) -> (output: T); T: type; Tshape: indextype = int32",
      {.shape_fn = array_shapes::Reshape});
  registry.Add("Pack(values: N*T) -> (output: T); N: int >= 1; T: type; axis: int = 0",
               {.shape_fn = array_shapes::Pack});
  registry.Add(
      "Fill(dims: host index_type, value: T) -> (output: T); T: type; index_type: indextype = "
      "int32",
      {.shape_fn = array_shapes::Fill, .sized_by_value = true});
  registry.Add(
      "ExpandDims(input: T, dim: host Tdim) -> (output: T); T: type; Tdim: indextype = int32",
      {.shape_fn = array_shapes::ExpandDims});
  registry.Add("ParallelConcat(values: N*T) -> (output: T); N: int >= 1; T: type; shape: shape",
               {.shape_fn = array_shapes::ParallelConcat});
  registry.Add(
      "ConcatV2(values: N*T, axis: host Tidx) -> (output: T); N: int >= 2; T: type; Tidx: "
      "indextype = int32",
      {.shape_fn = array_shapes::ConcatV2});
  registry.Add(
      "Tile(input: T, multiples: host Tmultiples) -> (output: T); T: type; Tmultiples: indextype = "
      "int32",
      {.shape_fn = array_shapes::Tile, .sized_by_value = true});
  registry.Add("Transpose(x: T, perm: host Tperm) -> (y: T); T: type; Tperm: indextype = int32",
               {.shape_fn = array_shapes::Transpose});
  registry.Add("Squeeze(input: T) -> (output: T); T: type; squeeze_dims: list(int) >= 0 = []",
               {.shape_fn = array_shapes::Squeeze});
  registry.Add(
      "BroadcastTo(input: T, shape: host Tidx) -> (output: T); T: type; Tidx: indextype = int32",
      {.shape_fn = array_shapes::BroadcastTo, .sized_by_value = true});
  registry.Add(
      "BroadcastGradientArgs(s0: host T, s1: host T) -> (r0: host T, r1: host T); T: indextype = "
      "int32",
      {.shape_fn = array_shapes::BroadcastGradientArgs});
  registry.Add("ZerosLike(x: T) -> (y: T); T: type", {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("Size(input: T) -> (output: host out_type); T: type; out_type: indextype = int32",
               {.shape_fn = shapes::Scalar, .shape_only = true});
  registry.Add(
      "Split(split_dim: host int32, value: T) -> (output: num_split*T); num_split: int >= 1; T: "
      "type",
      {.shape_fn = array_shapes::Split});
  registry.Add("InvertPermutation(x: host T) -> (y: host T); T: indextype = int32",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "Pad(input: T, paddings: host Tpaddings) -> (output: T); T: type; Tpaddings: indextype = "
      "int32",
      {.shape_fn = array_shapes::Pad, .sized_by_value = true});
  registry.Add(
      "PadV2(input: T, paddings: host Tpaddings, constant_values: host T) -> (output: T); T: type; "
      "Tpaddings: indextype = int32",
      {.shape_fn = array_shapes::Pad, .sized_by_value = true});
  registry.Add(
      "ShapeN(input: N*T) -> (output: host N*out_type); N: int >= 1; T: type; out_type: indextype "
      "= int32",
      {.shape_fn = array_shapes::ShapeOf, .shape_only = true});
  registry.Add("Bitcast(input: T) -> (output: type); T: numbertype; type: numbertype",
               {.shape_fn = array_shapes::Bitcast});
  registry.Add(
      "ConcatOffset(concat_dim: host int32, shape: host N*shape_type) -> (offset: host "
      "N*shape_type); N: int >= 2; shape_type: indextype = int32",
      {.shape_fn = array_shapes::ConcatOffset});
  registry.Add(
      "ReverseV2(tensor: T, axis: host Tidx) -> (output: T); Tidx: indextype = int32; T: "
      "{realnumbertype, complextype, bool, string}",
      {.shape_fn = array_shapes::ReverseV2});
  registry.Add("Unpack(value: T) -> (output: num*T); num: int >= 0; T: type; axis: int = 0",
               {.shape_fn = array_shapes::Unpack});
  registry.Add("OnesLike(x: T) -> (y: T); T: {realnumbertype, complextype, bool}",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "MatrixBandPart(input: T, num_lower: host Tindex, num_upper: host Tindex) -> (band: T); T: "
      "type; Tindex: indextype = int64",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "SpaceToBatchND(input: T, block_shape: host Tblock_shape, paddings: host Tpaddings) -> "
      "(output: T); T: type; Tblock_shape: indextype = int32; Tpaddings: indextype = int32",
      {.shape_fn = array_shapes::SpaceToBatchNd, .sized_by_value = true});
  registry.Add(
      "BatchToSpaceND(input: T, block_shape: host Tblock_shape, crops: host Tcrops) -> (output: "
      "T); T: type; Tblock_shape: indextype = int32; Tcrops: indextype = int32",
      {.shape_fn = array_shapes::BatchToSpaceNd});
  registry.Add(
      "SpaceToBatch(input: T, paddings: host Tpaddings) -> (output: T); T: type; Tpaddings: "
      "indextype = int32; block_size: int >= 2",
      {.shape_fn = array_shapes::SpaceToBatchNd, .sized_by_value = true});
  registry.Add(
      "BatchToSpace(input: T, crops: host Tidx) -> (output: T); T: type; block_size: int >= 2; "
      "Tidx: indextype = int32",
      {.shape_fn = array_shapes::BatchToSpaceNd});
  registry.Add(
      "SplitV(value: T, size_splits: host Tlen, split_dim: host int32) -> (output: num_split*T); "
      "num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64",
      {.shape_fn = array_shapes::SplitV});
  registry.Add("MatrixDiagPart(input: T) -> (diagonal: T); T: type",
               {.shape_fn = array_shapes::MatrixDiagPart});
  registry.Add("MatrixDiag(diagonal: T) -> (output: T); T: type",
               {.shape_fn = array_shapes::MatrixDiag});
  registry.Add("MatrixSetDiag(input: T, diagonal: T) -> (output: T); T: type",
               {.shape_fn = array_shapes::MatrixSetDiag});
  registry.Add(
      "MatrixDiagPartV2(input: T, k: host int32, padding_value: host T) -> (diagonal: T); T: type",
      {.shape_fn = array_shapes::MatrixDiagPart});
  registry.Add(
      "MatrixDiagV2(diagonal: T, k: host int32, num_rows: host int32, num_cols: host int32, "
      "padding_value: host T) -> (output: T); T: type",
      {.shape_fn = array_shapes::MatrixDiag});
  registry.Add("MatrixSetDiagV2(input: T, diagonal: T, k: host int32) -> (output: T); T: type",
               {.shape_fn = array_shapes::MatrixSetDiag});
  registry.Add(
      "MatrixDiagPartV3(input: T, k: host int32, padding_value: host T) -> (diagonal: T); T: type; "
      "align: {\"LEFT_RIGHT\", \"RIGHT_LEFT\", \"LEFT_LEFT\", \"RIGHT_RIGHT\"} = \"RIGHT_LEFT\"",
      {.shape_fn = array_shapes::MatrixDiagPart});
  registry.Add("Rank(input: T) -> (output: host int32); T: type",
               {.shape_fn = shapes::Scalar, .shape_only = true});
  registry.Add(
      "Range(start: host Tidx, limit: host Tidx, delta: host Tidx) -> (output: Tidx); Tidx: "
      "{floattype, int8, int16, int32, int64, uint16, uint32, uint64} = int32",
      {.shape_fn = array_shapes::Range, .sized_by_value = true});
  registry.Add(
      "LinSpace(start: host T, stop: host T, num: host Tidx) -> (output: host T); T: floattype; "
      "Tidx: indextype = int32",
      {.shape_fn = array_shapes::LinSpace, .sized_by_value = true});
  registry.Add(
      "Slice(input: T, begin: host Index, size: host Index) -> (output: T); T: type; Index: "
      "indextype",
      {.shape_fn = array_shapes::Slice});
  registry.Add(
      "StridedSlice(input: T, begin: host Index, end: host Index, strides: host Index) -> (output: "
      "T); T: type; Index: {int16, int32, int64}; begin_mask: int = 0; end_mask: int = 0; "
      "ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
      {.shape_fn = array_shapes::StridedSlice});
  registry.Add(
      "StridedSliceGrad(shape: host Index, begin: host Index, end: host Index, strides: host "
      "Index, dy: T) -> (output: T); T: type; Index: indextype; begin_mask: int = 0; end_mask: int "
      "= 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
      {.shape_fn = array_shapes::Fill, .sized_by_value = true});
  registry.Add("BroadcastArgs(s0: host T, s1: host T) -> (r0: host T); T: indextype = int32",
               {.shape_fn = array_shapes::BroadcastArgs});
  registry.Add(
      "MatrixDiagV3(diagonal: T, k: host int32, num_rows: host int32, num_cols: host int32, "
      "padding_value: host T) -> (output: T); T: type; align: {\"LEFT_RIGHT\", \"RIGHT_LEFT\", "
      "\"LEFT_LEFT\", \"RIGHT_RIGHT\"} = \"RIGHT_LEFT\"",
      {.shape_fn = array_shapes::MatrixDiag, .sized_by_value = true});
  registry.Add(
      "MatrixSetDiagV3(input: T, diagonal: T, k: host int32) -> (output: T); T: type; align: "
      "{\"LEFT_RIGHT\", \"RIGHT_LEFT\", \"LEFT_LEFT\", \"RIGHT_RIGHT\"} = \"RIGHT_LEFT\"",
      {.shape_fn = array_shapes::MatrixSetDiag});
  registry.Add("Diag(diagonal: T) -> (output: T); T: {floattype, complextype, int32, int64}",
               {.shape_fn = array_shapes::Diag});
  registry.Add("DiagPart(input: T) -> (diagonal: T); T: {floattype, complextype, int32, int64}",
               {.shape_fn = array_shapes::DiagPart});
  registry.Add(
      "Roll(input: T, shift: host Tshift, axis: host Taxis) -> (output: T); T: type; Tshift: "
      "indextype; Taxis: indextype",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "ReverseSequence(input: T, seq_lengths: Tlen) -> (output: T); seq_dim: int; batch_dim: int = "
      "0; T: type; Tlen: indextype = int64",
      {.shape_fn = array_shapes::ReverseSequence});
  registry.Add(
      "ConjugateTranspose(x: T, perm: host Tperm) -> (y: T); T: type; Tperm: indextype = int32",
      {.shape_fn = array_shapes::Transpose});
  registry.Add(
      "MirrorPad(input: T, paddings: host Tpaddings) -> (output: T); T: type; Tpaddings: indextype "
      "= int32; mode: {\"REFLECT\", \"SYMMETRIC\"}",
      {.shape_fn = array_shapes::MirrorPad, .sized_by_value = true});
  registry.Add(
      "MirrorPadGrad(input: T, paddings: host Tpaddings) -> (output: T); T: type; Tpaddings: "
      "indextype = int32; mode: {\"REFLECT\", \"SYMMETRIC\"}",
      {.shape_fn = array_shapes::MirrorPadGrad});
  registry.Add("FakeParam() -> (output: dtype); dtype: type; shape: shape",
               {.shape_fn = shapes::FromShapeAttr});
  registry.Add("Empty(shape: host int32) -> (output: dtype); dtype: type; init: bool = false",
               {.shape_fn = array_shapes::Fill, .sized_by_value = true});
  registry.Add(
      "SpaceToDepth(input: T) -> (output: T); T: type; block_size: int >= 2; data_format: "
      "{\"NHWC\", \"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\"",
      {.shape_fn = array_shapes::SpaceToDepth});
  registry.Add(
      "DepthToSpace(input: T) -> (output: T); T: type; block_size: int >= 2; data_format: "
      "{\"NHWC\", \"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\"",
      {.shape_fn = array_shapes::DepthToSpace});
  registry.Add(
      "TensorStridedSliceUpdate(input: T, begin: host Index, end: host Index, strides: host Index, "
      "value: T) -> (output: T); T: type; Index: indextype; begin_mask: int = 0; end_mask: int = "
      "0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "XlaDynamicSlice(input: T, start_indices: Tindices, size_indices: host Tindices) -> (output: "
      "T); T: type; Tindices: indextype",
      {.shape_fn = array_shapes::DynamicSlice});
  registry.Add(
      "XlaDynamicUpdateSlice(input: T, update: T, indices: Tindices) -> (output: T); T: type; "
      "Tindices: indextype",
      {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
