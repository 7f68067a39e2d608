#include "core/ops/random.h"

#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<SeedAttrs> SeedAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<SeedAttrs>(attrs, "seed", &SeedAttrs::seed, "seed2", &SeedAttrs::seed2);
}

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
      "StatelessRandomGetKeyCounter(seed: host Tseed) -> (key: host uint64, counter: host uint64); "
      "Tseed: indextype = int64",
      {.shape_fn = KeyCounterShape});
  registry.Add(
      "StatelessRandomUniformV2(shape: host Tshape, key: uint64, counter: uint64, alg: host int32) "
      "-> (output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "RandomUniform(shape: host T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessRandomNormalV2(shape: host Tshape, key: uint64, counter: uint64, alg: host int32) "
      "-> (output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "RngReadAndSkip(resource: resource, alg: host int32, delta: host uint64) -> (value: int64)",
      {.shape_fn = ReadAndSkipShape, .effect = Effect::kWrite});
  registry.Add(
      "RandomStandardNormal(shape: host T) -> (output: dtype); seed: int = 0; seed2: int = 0; "
      "dtype: floattype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformIntV2(shape: host Tshape, key: uint64, counter: uint64, alg: host "
      "int32, minval: host dtype, maxval: host dtype) -> (output: dtype); dtype: {int32, int64, "
      "uint32, uint64}; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformFullIntV2(shape: host Tshape, key: uint64, counter: uint64, alg: host "
      "int32) -> (output: dtype); dtype: {int32, int64, uint32, uint64} = uint64; Tshape: "
      "indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add(
      "StatelessTruncatedNormalV2(shape: host Tshape, key: uint64, counter: uint64, alg: host "
      "int32) -> (output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = shapes::FromShapeInput, .sized_by_value = true});
  registry.Add("StatelessRandomGetAlg() -> (alg: host int32)", {.shape_fn = shapes::Scalar});
  registry.Add(
      "RandomUniformInt(shape: host T, minval: host Tout, maxval: host Tout) -> (output: Tout); "
      "seed: int = 0; seed2: int = 0; Tout: indextype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "TruncatedNormal(shape: host T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = shapes::FromShapeInput, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add("RandomShuffle(value: T) -> (output: T); seed: int = 0; seed2: int = 0; T: type",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kRandom});
  registry.Add("RngSkip(resource: resource, algorithm: host int64, delta: host int64) -> ()",
               {.effect = Effect::kWrite});
}

}  // namespace formwork
