#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterRandomOps(OpRegistry& registry) {
  registry.Add(
      "StatelessRandomGetKeyCounter(seed: Tseed) -> (key: uint64, counter: uint64); Tseed: "
      "{int32, int64} = int64",
      {});
  registry.Add(
      "StatelessRandomUniformV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) ->"
      " (output: dtype); dtype: {half, bfloat16, float, double} = float; Tshape: {int32, "
      "int64} = int32",
      {});
  registry.Add(
      "RandomUniform(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "{half, bfloat16, float, double}; T: {int32, int64}",
      {.effect = Effect::kRandom});
  registry.Add(
      "StatelessRandomNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> "
      "(output: dtype); dtype: {half, bfloat16, float, double} = float; Tshape: {int32, "
      "int64} = int32",
      {});
  registry.Add("RngReadAndSkip(resource: resource, alg: int32, delta: uint64) -> (value: int64)",
               {.effect = Effect::kRandom});
  registry.Add(
      "RandomStandardNormal(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; "
      "dtype: {half, bfloat16, float, double}; T: {int32, int64}",
      {.effect = Effect::kRandom});
  registry.Add(
      "StatelessRandomUniformIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32,"
      " minval: dtype, maxval: dtype) -> (output: dtype); dtype: {int32, int64, uint32, "
      "uint64}; Tshape: {int32, int64} = int32",
      {});
}

}  // namespace formwork
