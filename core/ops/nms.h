#pragma once

// Non-maximum suppression on every device: what the ops want of boxes and scores. Shape functions
// use it, for which dimensions may be unknown (-1), and kernels. Errors are kInvalidArgument in
// TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Boxes of [n, 4] with n scores.
absl::Status CheckNmsBoxes(absl::Span<const int64_t> boxes, absl::Span<const int64_t> scores);
/// Overlaps of [n, n] with n scores.
absl::Status CheckNmsOverlaps(absl::Span<const int64_t> overlaps, absl::Span<const int64_t> scores);
/// CombinedNonMaxSuppression: boxes of [batch, n, 1 or classes, 4], scores of [batch, n, classes].
absl::Status CheckCombinedNms(absl::Span<const int64_t> boxes, absl::Span<const int64_t> scores);
/// How many boxes it gives for each of the batch. Errors: those of limits that are not positive.
absl::StatusOr<int64_t> CombinedNmsSize(int64_t per_class, int64_t total, int64_t classes,
                                        bool pad_per_class);
/// A scalar that errors call `what`.
absl::Status CheckNmsScalar(const Tensor& tensor, absl::string_view what);
absl::Status CheckNmsSize(int64_t max_output_size);

}  // namespace formwork
