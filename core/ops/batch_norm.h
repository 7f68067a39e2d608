#pragma once

// Batch normalisation on every device: attrs, and geometry from shapes. Shape functions use it, for
// which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace formwork {

struct BatchNormAttrs {
  float epsilon = 0;
  float factor = 1;  ///< Of the new statistics in the running ones.
  bool is_training = true;
  bool channels_first = false;
  int rank = 4;  ///< Of the values.

  /// Whether the running statistics that are given count.
  bool needs_old() const { return !is_training || factor != 1.0f; }

  static absl::StatusOr<BatchNormAttrs> OfForward(const AttrMap& attrs);
  static absl::StatusOr<BatchNormAttrs> OfGradient(const AttrMap& attrs);
};

/// Whether TensorFlow computes such values by oneDNN: then, of the outputs that neither of its
/// kernels uses, the forward one has shape [0] and those of the gradient are a zero each, and else
/// the other way round.
bool IsOfOnednn(const BatchNormAttrs& attrs, DType dtype);

/// Where the elements of a channel are: [outer, channels, inner]; inner is 1 where channels are
/// last, outer is 0 where there are no elements.
struct BatchNormGeometry {
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 1;
};

/// What has an element for each channel.
struct BatchNormVectors {
  absl::Span<const int64_t> scale;
  absl::Span<const int64_t> offset;
  absl::Span<const int64_t> mean;
  absl::Span<const int64_t> variance;
};

/// Errors: kInvalidArgument in TensorFlow's words if x is not of the format's rank or there is not
/// an element for each channel.
absl::StatusOr<BatchNormGeometry> PrepareBatchNorm(const BatchNormAttrs& attrs,
                                                   absl::Span<const int64_t> x,
                                                   const BatchNormVectors& vectors);
/// Of the vectors there is no offset; mean and variance are reserve_space_1 and 2. Errors: as
/// above, and where `dy` is not shaped as x.
absl::StatusOr<BatchNormGeometry> PrepareBatchNormGrad(const BatchNormAttrs& attrs,
                                                       absl::Span<const int64_t> dy,
                                                       absl::Span<const int64_t> x,
                                                       const BatchNormVectors& vectors);

}  // namespace formwork
