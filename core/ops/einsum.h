#pragma once

// Einsum's equation, shared by its shape function and its kernels.

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"

namespace formwork {

/// "ij,...k->i...": a label per dimension. A label is a character's code, kEllipsis, or, once the
/// ellipses are expanded, a broadcast label.
struct EinsumEquation {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;

  /// Errors: kInvalidArgument in TensorFlow's words if it is not one for so many inputs.
  static absl::StatusOr<EinsumEquation> FromAttrs(const AttrMap& attrs, int num_inputs);
};

inline constexpr int kEllipsis = -1;
inline constexpr int kFirstBroadcastLabel = 1000;
inline bool IsBroadcastLabel(int label) { return label >= kFirstBroadcastLabel; }
inline bool HasLabel(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// Puts broadcast labels, counted from the last dimension, in the place of the ellipses.
/// Errors: kInvalidArgument if the ranks do not fit the labels.
absl::Status ExpandEllipses(EinsumEquation& equation, absl::Span<const int> ranks);

}  // namespace formwork
