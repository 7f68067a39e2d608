#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::Status KeyCounterShape(InferenceContext& c) {
  c.set_output(0, Shape({1}));
  c.set_output(1, Shape({2}));
  return absl::OkStatus();
}

absl::Status ReadAndSkipShape(InferenceContext& c) {
  c.set_output(0, Shape({3}));
  return absl::OkStatus();
}

}  // namespace

void RegisterRandomOps(OpRegistry& registry) {
  registry.Add(
      "StatelessRandomGetKeyCounter(seed: Tseed) -> (key: uint64, counter: uint64); Tseed: "
      "indextype = int64",
      {.shape_fn = KeyCounterShape});
  registry.Add(
      "StatelessRandomUniformV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> "
      "(output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "RandomUniform(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessRandomNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> "
      "(output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add("RngReadAndSkip(resource: resource, alg: int32, delta: uint64) -> (value: int64)",
               {.shape_fn = ReadAndSkipShape, .effect = Effect::kWrite});
  registry.Add(
      "RandomStandardNormal(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32, "
      "minval: dtype, maxval: dtype) -> (output: dtype); dtype: {int32, int64, uint32, uint64}; "
      "Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformFullIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> "
      "(output: dtype); dtype: {int32, int64, uint32, uint64} = uint64; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "StatelessTruncatedNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> "
      "(output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add("StatelessRandomGetAlg() -> (alg: int32)", {.shape_fn = shapes::Scalar});
  registry.Add(
      "RandomUniformInt(shape: T, minval: Tout, maxval: Tout) -> (output: Tout); seed: int = 0; "
      "seed2: int = 0; Tout: indextype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "TruncatedNormal(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add("RandomShuffle(value: T) -> (output: T); seed: int = 0; seed2: int = 0; T: type",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kRandom});
  registry.Add("RngSkip(resource: resource, algorithm: int64, delta: int64) -> ()",
               {.effect = Effect::kWrite});
}

}  // namespace formwork
