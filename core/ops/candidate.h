#pragma once

// Candidate samplers: classes drawn for a loss over a part of them. Errors are kInvalidArgument in
// TensorFlow's words.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// Of ...CandidateSampler.
struct CandidateAttrs {
  int64_t num_true = 1;
  int64_t num_sampled = 1;
  int64_t range_max = 1;  ///< Classes are in [0, range_max).
  bool unique = false;    ///< Each is drawn once at most; there are enough of them then.

  static absl::StatusOr<CandidateAttrs> FromAttrs(const AttrMap& attrs);
};

/// Of FixedUnigramCandidateSampler: how likely each class is to be drawn.
struct UnigramAttrs {
  std::vector<float> weights;  ///< One for each class of this shard, and at least one.

  /// Errors: also kUnimplemented for a file of a vocabulary.
  static absl::StatusOr<UnigramAttrs> FromAttrs(const AttrMap& attrs, int64_t range_max);
};

/// Input true_classes of a sampler: [any, num_true].
absl::Status CheckTrueClasses(absl::Span<const int64_t> classes, int64_t num_true);

/// ComputeAccidentalHits: [any, num_true], and a vector.
absl::Status CheckAccidentalHits(absl::Span<const int64_t> classes,
                                 absl::Span<const int64_t> sampled, int64_t num_true);

}  // namespace formwork
