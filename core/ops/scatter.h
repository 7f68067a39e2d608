#pragma once

// What scatters by index are on every device: attrs, and geometry from shapes, which are known.
// Kernels' own checks are those of the indices' values.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// What becomes of indices that are out of range, in scatters and in GatherNd.
struct BadIndices {
  bool ignored = false;  ///< Else they fail the call.

  /// Of attr bad_indices_policy. Errors: kInvalidArgument if it is none of TensorFlow's names.
  static absl::StatusOr<BadIndices> FromAttrs(const AttrMap& attrs);
};

/// `count` slices of `inner` elements go to some of `rows` of the target, each found by `depth`
/// indices.
struct ScatterGeometry {
  int64_t depth;
  int64_t rows;
  int64_t count;
  int64_t inner;
  bool scalar_update = false;  ///< One element goes to all.
};

/// ResourceScatterNd.... Errors: kInvalidArgument in TensorFlow's words
/// if the shapes do not fit.
absl::StatusOr<ScatterGeometry> PrepareScatterNdUpdate(absl::Span<const int64_t> target,
                                                       absl::Span<const int64_t> indices,
                                                       absl::Span<const int64_t> updates);
/// TensorScatter..., which says the same in other words.
absl::StatusOr<ScatterGeometry> PrepareTensorScatter(absl::Span<const int64_t> target,
                                                     absl::Span<const int64_t> indices,
                                                     absl::Span<const int64_t> updates);
/// ResourceScatter...: updates have the shape indices.shape + target.shape[1:], or are a scalar.
absl::StatusOr<ScatterGeometry> PrepareScatterRows(absl::Span<const int64_t> target,
                                                   absl::Span<const int64_t> indices,
                                                   absl::Span<const int64_t> updates);

/// Inplace...: updates have the shape indices.shape + target.shape[1:].
absl::StatusOr<ScatterGeometry> PrepareInplace(absl::Span<const int64_t> target,
                                               absl::Span<const int64_t> indices,
                                               absl::Span<const int64_t> updates);

struct NewScatterGeometry {
  Shape output;
  ScatterGeometry scatter;
};

/// ScatterNd, into zeros of `shape`. Errors: as above.
absl::StatusOr<NewScatterGeometry> PrepareScatterNd(const Tensor& shape,
                                                    absl::Span<const int64_t> indices,
                                                    absl::Span<const int64_t> updates);

}  // namespace formwork
