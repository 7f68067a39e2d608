#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterMatmulOps(OpRegistry& registry) {
  registry.Add(
      "MatMul(a: T, b: T) -> (product: T); transpose_a: bool = false; transpose_b: bool = "
      "false; T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, "
      "uint64, complex64, complex128}; grad_a: bool = false; grad_b: bool = false",
      {});
  registry.Add(
      "BatchMatMulV2(x: T, y: T) -> (output: T); T: {bfloat16, half, float, double, int16, "
      "int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}; adj_x: bool = "
      "false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
      {});
  registry.Add("Einsum(inputs: N*T) -> (output: T); equation: string; N: int >= 1; T: type", {});
}

}  // namespace formwork
