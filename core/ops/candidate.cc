#include "core/ops/candidate.h"

#include <algorithm>
#include <cmath>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<CandidateAttrs> CandidateAttrs::FromAttrs(const AttrMap& attrs) {
  using A = CandidateAttrs;
  FORMWORK_ASSIGN_OR_RETURN(A read, ReadAttrs<A>(attrs, "num_true", &A::num_true, "num_sampled",
                                                 &A::num_sampled, "unique", &A::unique));
  // AllCandidateSampler takes all that there are.
  read.range_max = attrs.GetOr("range_max", read.num_sampled);
  if (read.unique && read.num_sampled > read.range_max) {
    return InvalidArgument("Sampler's range is too small.");
  }
  return read;
}

absl::StatusOr<UnigramAttrs> UnigramAttrs::FromAttrs(const AttrMap& attrs, int64_t range_max) {
  struct Given {
    std::string vocab_file;
    float distortion = 1;
    int64_t num_reserved = 0;
    int64_t num_shards = 1;
    int64_t shard = 0;
    std::vector<float> unigrams;
  };
  FORMWORK_ASSIGN_OR_RETURN(
      const Given given,
      ReadAttrs<Given>(attrs, "vocab_file", &Given::vocab_file, "distortion", &Given::distortion,
                       "num_reserved_ids", &Given::num_reserved, "num_shards", &Given::num_shards,
                       "shard", &Given::shard, "unigrams", &Given::unigrams));
  if (given.vocab_file.empty() && given.unigrams.empty()) {
    return InvalidArgument("Must provide either vocab_file or unigrams.");
  }
  if (!given.vocab_file.empty() && !given.unigrams.empty()) {
    return InvalidArgument("Must only provide one of vocab_file and unigrams.");
  }
  if (!given.vocab_file.empty()) return Unimplemented("vocab_file is not supported");
  const int64_t reserved = given.num_reserved > given.shard
                               ? (given.num_reserved - given.shard - 1) / given.num_shards + 1
                               : 0;
  if (reserved > range_max) {
    return InvalidArgument("range is ", range_max, " must be equal to weights size  ", reserved);
  }
  // Reserved ids are never drawn. The others are counted from where those of this shard end, as
  // TensorFlow counts them.
  UnigramAttrs read;
  read.weights.assign(static_cast<size_t>(reserved), 0);
  for (size_t i = 0; i < given.unigrams.size(); ++i) {
    if ((reserved + static_cast<int64_t>(i)) % given.num_shards != given.shard) continue;
    read.weights.push_back(std::pow(given.unigrams[i], given.distortion));
  }
  if (static_cast<int64_t>(read.weights.size()) != range_max) {
    return InvalidArgument("range is ", range_max, " must be equal to weights size  ",
                           read.weights.size());
  }
  return read;
}

absl::Status CheckTrueClasses(absl::Span<const int64_t> classes, int64_t num_true) {
  if (classes.size() != 2) return InvalidArgument("true_classes must be a matrix");
  if (MayBeEqual(classes[1], num_true)) return absl::OkStatus();
  return InvalidArgument("true_classes must have num_true columns, expected: ", classes[1],
                         " was: ", num_true);
}

absl::Status CheckAccidentalHits(absl::Span<const int64_t> classes,
                                 absl::Span<const int64_t> sampled, int64_t num_true) {
  if (classes.size() != 2 || num_true < 0 || !MayBeEqual(classes[1], num_true)) {
    return InvalidArgument("true_candidates must be a batch_size * num_true matrix, got shape ",
                           DimsText(classes), " for num_true ", num_true);
  }
  if (sampled.size() == 1) return absl::OkStatus();
  return InvalidArgument(
      "sampled_candidates must be a vector, which is typically an output from CandidateSampler, "
      "got shape ",
      DimsText(sampled));
}

namespace {

absl::Status SamplerShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const CandidateAttrs attrs, CandidateAttrs::FromAttrs(c.attrs()));
  const PartialShape classes = shapes::OrOfRank(c.input(0), 2);
  FORMWORK_RETURN_IF_ERROR(CheckTrueClasses(classes.dims(), attrs.num_true));
  c.set_output(0, PartialShape::Trusted({attrs.num_sampled}));
  c.set_output(1, PartialShape::Trusted({classes.dims()[0], attrs.num_true}));
  c.set_output(2, PartialShape::Trusted({attrs.num_sampled}));
  return absl::OkStatus();
}

absl::Status AccidentalHitsShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterCandidateOps(OpRegistry& registry) {
  const OpTraits traits = {
      .shape_fn = SamplerShape, .effect = Effect::kRandom, .sized_by_value = true};
  for (const char* name :
       {"LogUniformCandidateSampler", "UniformCandidateSampler", "LearnedUnigramCandidateSampler",
        "ThreadUnsafeUnigramCandidateSampler"}) {
    registry.Add(
        absl::StrCat(name,
                     "(true_classes: int64) -> (sampled_candidates: int64, true_expected_count: "
                     "float, sampled_expected_count: float); num_true: int >= 1; num_sampled: int "
                     ">= 1; unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0"),
        traits);
  }
  registry.Add(
      "AllCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, "
      "true_expected_count: float, sampled_expected_count: float); num_true: int >= 1; "
      "num_sampled: int >= 1; unique: bool; seed: int = 0; seed2: int = 0",
      traits);
  registry.Add(
      "FixedUnigramCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, "
      "true_expected_count: float, sampled_expected_count: float); num_true: int >= 1; "
      "num_sampled: int >= 1; unique: bool; range_max: int >= 1; vocab_file: string = \"\"; "
      "distortion: float = 1.0; num_reserved_ids: int = 0; num_shards: int >= 1 = 1; shard: int "
      ">= 0 = 0; unigrams: list(float) = []; seed: int = 0; seed2: int = 0",
      traits);
  registry.Add(
      "ComputeAccidentalHits(true_classes: int64, sampled_candidates: int64) -> (indices: int32, "
      "ids: int64, weights: float); num_true: int; seed: int = 0; seed2: int = 0",
      {.shape_fn = AccidentalHitsShape});
}

}  // namespace formwork
