#include "core/ops/random.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<SeedAttrs> SeedAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<SeedAttrs>(attrs, "seed", &SeedAttrs::seed, "seed2", &SeedAttrs::seed2);
}

// Not RandomUniformInt: integers that follow from what the host knows stay there.
bool FillsFromSequence(absl::string_view op) {
  return op == "RandomUniform" || op == "RandomStandardNormal" || op == "TruncatedNormal";
}

bool TakesKeyAndCounter(absl::string_view op) {
  return op == "StatelessRandomUniformV2" || op == "StatelessRandomNormalV2" ||
         op == "StatelessTruncatedNormalV2" || op == "StatelessRandomUniformIntV2" ||
         op == "StatelessRandomUniformFullIntV2";
}

namespace {

constexpr int64_t kThreeFryAlgorithm = 2;
constexpr int64_t kAutoAlgorithm = 3;  // Philox on every device that there is.

absl::Status CheckAlgorithm(int64_t algorithm) {
  if (algorithm == kPhiloxAlgorithm || algorithm == kAutoAlgorithm) return absl::OkStatus();
  return InvalidArgument("Unsupported algorithm id: ", algorithm);
}

}  // namespace

absl::StatusOr<Shape> PrepareRandomShape(const Tensor& shape) {
  if (shape.rank() != 1) {
    return InvalidArgument("shape must be a vector of {int32,int64}, got shape ",
                           shape.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, IntegersOf(shape, "shape"));
  for (int64_t dim : dims) {
    if (dim < 0) return InvalidArgument("Dimension ", dim, " must be >= 0");
  }
  return Shape::Make(dims);
}

absl::Status CheckRandomScalar(int i, absl::Span<const int64_t> input) {
  if (input.empty()) return absl::OkStatus();
  return InvalidArgument("input ", i, " (0-based) must have shape [], not ", DimsText(input));
}

absl::Status CheckSeed(absl::Span<const int64_t> seed) {
  if (seed.size() == 1 && MayBeEqual(seed[0], 2)) return absl::OkStatus();
  return InvalidArgument("seed must have shape [2], not ", DimsText(seed));
}

absl::Status CheckStatelessRandom(absl::Span<const int64_t> key, absl::Span<const int64_t> counter,
                                  const Tensor& alg) {
  FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(3, alg.shape().dims()));
  FORMWORK_RETURN_IF_ERROR(CheckAlgorithm(alg.scalar<int32_t>()));
  if (key.size() != 1 || !MayBeEqual(key[0], 1)) {
    return InvalidArgument("key must have shape [1], not ", DimsText(key),
                           ". (Note that batched keys are not supported yet.)");
  }
  if (counter.size() != 1 || (counter[0] >= 0 && counter[0] < 2)) {
    return InvalidArgument(
        "counter must be a vector with length at least 2; got shape: ", DimsText(counter),
        ". (Note that batched counters are not supported yet.)");
  }
  return absl::OkStatus();
}

absl::Status CheckUniformBounds(absl::Span<const int64_t> minval,
                                absl::Span<const int64_t> maxval) {
  if (!minval.empty()) return InvalidArgument("minval must be 0-D, got shape ", DimsText(minval));
  if (!maxval.empty()) return InvalidArgument("maxval must be 0-D, got shape ", DimsText(maxval));
  return absl::OkStatus();
}

absl::StatusOr<Dims> PrepareMultinomial(absl::Span<const int64_t> logits,
                                        const Tensor* num_samples) {
  if (logits.size() != 2) {
    return InvalidArgument("logits should be a matrix, got shape ", DimsText(logits));
  }
  if (num_samples == nullptr) return Dims{logits[0], -1};
  if (num_samples->rank() != 0) {
    return InvalidArgument("num_samples should be a scalar, got shape ",
                           num_samples->shape().ToString());
  }
  const int32_t samples = num_samples->scalar<int32_t>();
  if (samples < 0) return InvalidArgument("num_samples should be non-negative, got ", samples);
  if (logits[1] == 0) return InvalidArgument("num_classes should be positive, got 0");
  return Dims{logits[0], samples};
}

absl::Status CheckGeneratorAlgorithm(int64_t algorithm) {
  if (algorithm == kThreeFryAlgorithm) {
    return Unimplemented("Non-XLA devices don't support the ThreeFry algorithm.");
  }
  return CheckAlgorithm(algorithm);
}

absl::Status CheckGeneratorState(const Tensor& state) {
  if (state.dtype() != DType::kInt64) {
    return InvalidArgument("dtype of RNG state variable must be int64, not ",
                           GraphDTypeName(state.dtype()));
  }
  if (state.rank() != 1) {
    return InvalidArgument("RNG state must have one and only one dimension, not ", state.rank());
  }
  if (state.dim(0) < 3) {
    return InvalidArgument("For the Philox algorithm, the size of state must be at least 3; got ",
                           state.dim(0));
  }
  return absl::OkStatus();
}

namespace {

// What input 0 lists, as far as it is constant.
absl::Status RandomShape(InferenceContext& c) {
  if (c.constant(0) == nullptr) return shapes::FromShapeInput(c);
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, PrepareRandomShape(*c.constant(0)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// What input 2 lists, behind the handle of a generator and its algorithm.
absl::Status GeneratorShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::ShapeFromInput(c, 2));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status KeyCounterShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(CheckSeed(shapes::OrOfRank(c.input(0), 1).dims()));
  c.set_output(0, Shape({1}));
  c.set_output(1, Shape({2}));
  return absl::OkStatus();
}

absl::Status MultinomialShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims, PrepareMultinomial(shapes::OrOfRank(c.input(0), 2).dims(), c.constant(1)));
  c.set_output(0, PartialShape::Trusted(dims));
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
      {.shape_fn = RandomShape, .sized_by_value = true});
  registry.Add(
      "RandomUniform(shape: host T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = RandomShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessRandomNormalV2(shape: host Tshape, key: uint64, counter: uint64, alg: host int32) "
      "-> (output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = RandomShape, .sized_by_value = true});
  registry.Add(
      "RngReadAndSkip(resource: resource, alg: host int32, delta: host uint64) -> (value: int64)",
      {.shape_fn = ReadAndSkipShape, .effect = Effect::kWrite});
  registry.Add(
      "RandomStandardNormal(shape: host T) -> (output: dtype); seed: int = 0; seed2: int = 0; "
      "dtype: floattype; T: indextype",
      {.shape_fn = RandomShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformIntV2(shape: host Tshape, key: uint64, counter: uint64, alg: host "
      "int32, minval: host dtype, maxval: host dtype) -> (output: dtype); dtype: {int32, int64, "
      "uint32, uint64}; Tshape: indextype = int32",
      {.shape_fn = RandomShape, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformFullIntV2(shape: host Tshape, key: uint64, counter: uint64, alg: host "
      "int32) -> (output: dtype); dtype: {int32, int64, uint32, uint64} = uint64; Tshape: "
      "indextype = int32",
      {.shape_fn = RandomShape, .sized_by_value = true});
  registry.Add(
      "StatelessTruncatedNormalV2(shape: host Tshape, key: uint64, counter: uint64, alg: host "
      "int32) -> (output: dtype); dtype: floattype = float; Tshape: indextype = int32",
      {.shape_fn = RandomShape, .sized_by_value = true});
  // The first versions take the seed itself.
  for (const char* name :
       {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"}) {
    registry.Add(absl::StrCat(name,
                              "(shape: host T, seed: host Tseed) -> (output: dtype); dtype: "
                              "floattype = float; T: indextype = int32; Tseed: indextype = int64"),
                 {.shape_fn = RandomShape, .sized_by_value = true});
  }
  registry.Add(
      "StatelessRandomUniformInt(shape: host T, seed: host Tseed, minval: host dtype, maxval: host "
      "dtype) -> (output: dtype); dtype: indextype; T: indextype; Tseed: indextype = int64",
      {.shape_fn = RandomShape, .sized_by_value = true});
  registry.Add(
      "StatelessRandomUniformFullInt(shape: host T, seed: host Tseed) -> (output: dtype); dtype: "
      "{int32, int64, uint32, uint64} = uint64; T: indextype = int32; Tseed: {int32, int64, "
      "uint32, uint64} = int64",
      {.shape_fn = RandomShape, .sized_by_value = true});
  registry.Add("StatelessRandomGetAlg() -> (alg: host int32)", {.shape_fn = shapes::Scalar});
  registry.Add(
      "RandomUniformInt(shape: host T, minval: host Tout, maxval: host Tout) -> (output: Tout); "
      "seed: int = 0; seed2: int = 0; Tout: indextype; T: indextype",
      {.shape_fn = RandomShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "TruncatedNormal(shape: host T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: "
      "floattype; T: indextype",
      {.shape_fn = RandomShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "NonDeterministicInts(shape: host shape_dtype) -> (output: dtype); dtype: type = int64; "
      "shape_dtype: type = int64",
      {.shape_fn = RandomShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add("RandomShuffle(value: T) -> (output: T); seed: int = 0; seed2: int = 0; T: type",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kRandom});
  registry.Add(
      "StatelessShuffle(value: T, key: uint64, counter: uint64, alg: host int32) -> (output: T); "
      "T: "
      "type",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("RngSkip(resource: resource, algorithm: host int64, delta: host int64) -> ()",
               {.effect = Effect::kWrite});
  // Of a tf.random.Generator, which goes on by what they draw.
  for (const char* name :
       {"StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"}) {
    registry.Add(absl::StrCat(name,
                              "(resource: resource, algorithm: host int64, shape: host "
                              "shape_dtype) -> (output: dtype); dtype: type = float; shape_dtype: "
                              "type = int64"),
                 {.shape_fn = GeneratorShape, .effect = Effect::kWrite, .sized_by_value = true});
  }
  registry.Add(
      "StatefulUniformFullInt(resource: resource, algorithm: host int64, shape: host shape_dtype) "
      "-> (output: dtype); dtype: type = uint64; shape_dtype: type = int64",
      {.shape_fn = GeneratorShape, .effect = Effect::kWrite, .sized_by_value = true});
  registry.Add(
      "StatefulUniformInt(resource: resource, algorithm: host int64, shape: host shape_dtype, "
      "minval: host dtype, maxval: host dtype) -> (output: dtype); dtype: type = int64; "
      "shape_dtype: type = int64",
      {.shape_fn = GeneratorShape, .effect = Effect::kWrite, .sized_by_value = true});
  registry.Add(
      "Multinomial(logits: T, num_samples: host int32) -> (output: output_dtype); seed: int = 0; "
      "seed2: int = 0; T: realnumbertype; output_dtype: indextype = int64",
      {.shape_fn = MultinomialShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatelessMultinomial(logits: T, num_samples: host int32, seed: host Tseed) -> (output: "
      "output_dtype); T: realnumbertype; Tseed: indextype = int64; output_dtype: indextype = int64",
      {.shape_fn = MultinomialShape, .sized_by_value = true});
}

}  // namespace formwork
