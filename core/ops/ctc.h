#pragma once

// Connectionist temporal classification on every device: what its ops want of their inputs.
// Errors are in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"

namespace formwork {

/// Of inputs of [steps, batch, classes].
struct CtcGeometry {
  int64_t steps;
  int64_t batch;
  int64_t classes;
};

/// Errors: kInvalidArgument if inputs are not of rank 3 or sequence_length is no vector;
/// kFailedPrecondition if that has not an element for each of the batch.
absl::StatusOr<CtcGeometry> PrepareCtc(absl::Span<const int64_t> inputs,
                                       absl::Span<const int64_t> sequence_length);

/// The labels of CTCLoss as a sparse matrix of [batch, labels]. Errors: kInvalidArgument.
absl::Status CheckCtcLabels(absl::Span<const int64_t> indices, absl::Span<const int64_t> values);

struct CtcBeamAttrs {
  int64_t beam_width = 1;      ///< Paths that are followed.
  int64_t top_paths = 1;       ///< The likeliest of them, which are returned.
  bool merge_repeated = true;  ///< Labels that repeat the one before are left out of a result.

  /// Errors: kInvalidArgument unless beam_width is an int32.
  static absl::StatusOr<CtcBeamAttrs> FromAttrs(const AttrMap& attrs);
};

struct CtcLossAttrs {
  bool collapse_repeated = false;  ///< Labels that repeat the one before are left out.
  bool merge_repeated = true;      ///< What repeats without a blank between is one label.
  bool ignore_longer_outputs = false;

  static absl::StatusOr<CtcLossAttrs> FromAttrs(const AttrMap& attrs);
};

}  // namespace formwork
