#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterElementwiseOps(OpRegistry& registry) {
  registry.Add(
      "Mul(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, uint8, int8, uint16, "
      "int16, int32, uint32, uint64, int64, complex64, complex128}",
      {});
  registry.Add(
      "AddV2(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, uint8, uint16, "
      "uint32, uint64, int8, int16, int32, int64, complex64, complex128}",
      {});
  registry.Add("Cast(x: SrcT) -> (y: DstT); SrcT: type; DstT: type; Truncate: bool = false", {});
  registry.Add(
      "Sub(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, uint8, int8, uint16, "
      "int16, int32, int64, complex64, complex128, uint32, uint64}",
      {});
  registry.Add(
      "Neg(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, int16, int32, int64, "
      "complex64, complex128}",
      {});
  registry.Add(
      "RealDiv(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, uint8, int8, "
      "uint16, int16, int32, uint32, uint64, int64, complex64, complex128}",
      {});
  registry.Add(
      "Less(x: T, y: T) -> (z: bool); T: {float, double, int32, uint8, int16, int8, int64, "
      "bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add("SelectV2(condition: bool, t: T, e: T) -> (output: T); T: type", {});
  registry.Add(
      "Maximum(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, int8, uint8, "
      "int16, uint16, int32, uint32, int64, uint64}",
      {});
  registry.Add(
      "DivNoNan(x: T, y: T) -> (z: T); T: {half, float, bfloat16, double, complex64, "
      "complex128}",
      {});
  registry.Add("LogicalAnd(x: bool, y: bool) -> (z: bool)", {});
  registry.Add(
      "FloorMod(x: T, y: T) -> (z: T); T: {int8, int16, int32, int64, uint8, uint16, "
      "uint32, uint64, bfloat16, half, float, double}",
      {});
  registry.Add("Equal(x: T, y: T) -> (z: bool); T: type; incompatible_shape_error: bool = true",
               {});
  registry.Add(
      "AddN(inputs: N*T) -> (sum: T); N: int >= 1; T: {float, double, int32, uint8, int16, "
      "int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
      "complex128, half, uint32, uint64, variant}",
      {});
  registry.Add(
      "Square(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, int16, int32, "
      "int64, uint8, uint16, uint32, uint64, complex64, complex128}",
      {});
  registry.Add("Rsqrt(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add(
      "GreaterEqual(x: T, y: T) -> (z: bool); T: {float, double, int32, uint8, int16, int8,"
      " int64, bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add(
      "Pow(x: T, y: T) -> (z: T); T: {bfloat16, float, half, double, int8, int16, int32, "
      "int64, complex64, complex128}",
      {});
  registry.Add("Tanh(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add("Sqrt(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add(
      "Minimum(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, int8, uint8, "
      "int16, uint16, int32, uint32, int64, uint64}",
      {});
  registry.Add("Sigmoid(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add(
      "SquaredDifference(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, int32, "
      "int64, complex64, complex128}",
      {});
  registry.Add(
      "Greater(x: T, y: T) -> (z: bool); T: {float, double, int32, uint8, int16, int8, "
      "int64, bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add(
      "TanhGrad(y: T, dy: T) -> (z: T); T: {bfloat16, half, float, double, complex64, "
      "complex128}",
      {});
  registry.Add("Select(condition: bool, t: T, e: T) -> (output: T); T: type", {});
  registry.Add("NotEqual(x: T, y: T) -> (z: bool); T: type; incompatible_shape_error: bool = true",
               {});
  registry.Add("Exp(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add(
      "LessEqual(x: T, y: T) -> (z: bool); T: {float, double, int32, uint8, int16, int8, "
      "int64, bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add(
      "RsqrtGrad(y: T, dy: T) -> (z: T); T: {bfloat16, half, float, double, complex64, "
      "complex128}",
      {});
  registry.Add("Erfc(x: T) -> (y: T); T: {bfloat16, half, float, double}", {});
  registry.Add("Log(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add(
      "BitwiseAnd(x: T, y: T) -> (z: T); T: {int8, int16, int32, int64, uint8, uint16, "
      "uint32, uint64}",
      {});
  registry.Add(
      "FloorDiv(x: T, y: T) -> (z: T); T: {bfloat16, half, float, double, uint8, int8, "
      "uint16, int16, int32, uint32, uint64, int64, complex64, complex128}",
      {});
  registry.Add(
      "SigmoidGrad(y: T, dy: T) -> (z: T); T: {bfloat16, half, float, double, complex64, "
      "complex128}",
      {});
  registry.Add(
      "Reciprocal(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, int16, int32, "
      "int64, complex64, complex128}",
      {});
  registry.Add("Cos(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add("Sin(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add("LogicalNot(x: bool) -> (y: bool)", {});
  registry.Add("Abs(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, int16, int32, int64}",
               {});
  registry.Add("LogicalOr(x: bool, y: bool) -> (z: bool)", {});
  registry.Add("Ceil(x: T) -> (y: T); T: {bfloat16, half, float, double}", {});
  registry.Add("Floor(x: T) -> (y: T); T: {bfloat16, half, float, double}", {});
  registry.Add(
      "Sign(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, int16, int32, int64, "
      "complex64, complex128}",
      {});
  registry.Add("Log1p(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add("IsFinite(x: T) -> (y: bool); T: {bfloat16, half, float, double}", {});
  registry.Add(
      "SqrtGrad(y: T, dy: T) -> (z: T); T: {bfloat16, half, float, double, complex64, "
      "complex128}",
      {});
  registry.Add(
      "Round(x: T) -> (y: T); T: {bfloat16, half, float, double, int8, int16, int32, int64,"
      " complex64, complex128}",
      {});
  registry.Add(
      "ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> (output: T); T: {float, "
      "double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
      "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}",
      {});
  registry.Add("Atan(x: T) -> (y: T); T: {bfloat16, half, float, double, complex64, complex128}",
               {});
  registry.Add(
      "Relu(features: T) -> (activations: T); T: {float, double, int32, uint8, int16, int8,"
      " int64, bfloat16, uint16, half, uint32, uint64, qint8}",
      {});
  registry.Add(
      "ReluGrad(gradients: T, features: T) -> (backprops: T); T: {float, double, int32, "
      "uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add(
      "Relu6(features: T) -> (activations: T); T: {float, double, int32, uint8, int16, "
      "int8, int64, bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add(
      "Relu6Grad(gradients: T, features: T) -> (backprops: T); T: {float, double, int32, "
      "uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}",
      {});
  registry.Add("Softplus(features: T) -> (activations: T); T: {half, bfloat16, float, double}", {});
}

}  // namespace formwork
