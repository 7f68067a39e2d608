#pragma once

// BatchNormWithGlobalNormalization, of graphs before version 9, and its gradient, on every device.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"

namespace formwork {

struct GlobalNormAttrs {
  float variance_epsilon = 0;
  bool scale_after_normalization = false;  ///< Else gamma has no effect.

  static absl::StatusOr<GlobalNormAttrs> FromAttrs(const AttrMap& attrs);
};

struct GlobalNormGeometry {
  int64_t pixels;  ///< In all images.
  int64_t channels;
};

using NamedDims = std::pair<absl::string_view, absl::Span<const int64_t>>;

/// `input`: [batch, rows, columns, channels]; `vectors`: those that have an element for each
/// channel, by TensorFlow's names. Errors: kInvalidArgument in TensorFlow's words for other ranks;
/// and if there is not an element for each channel, where TensorFlow reads what is not there.
absl::StatusOr<GlobalNormGeometry> PrepareGlobalNorm(absl::Span<const int64_t> input,
                                                     const std::vector<NamedDims>& vectors);
/// Errors: also if `backprop` is not shaped as the input.
absl::StatusOr<GlobalNormGeometry> PrepareGlobalNormGrad(absl::Span<const int64_t> input,
                                                         const std::vector<NamedDims>& vectors,
                                                         absl::Span<const int64_t> backprop);

}  // namespace formwork
