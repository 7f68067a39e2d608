#pragma once

// RandomIndexShuffle: where elements of a shuffled range go, one by one, on every device. Errors
// are kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

struct IndexShuffleAttrs {
  int64_t rounds = 4;  ///< Of the cipher; even. (TensorFlow does not look.)

  static absl::StatusOr<IndexShuffleAttrs> FromAttrs(const AttrMap& attrs);
};

/// The output's shape. Each of `index` and `max_index` is a scalar or a vector as long as the
/// output, and `seed` three numbers, or as many rows of these.
absl::StatusOr<Shape> PrepareIndexShuffle(const Shape& index, const Shape& seed,
                                          const Shape& max_index);

}  // namespace formwork
