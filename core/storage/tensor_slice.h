#pragma once

// Parts of tensors, as checkpoints have them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A part of a tensor, as SaveV2 and RestoreV2 name it: a range of each dimension.
struct TensorSlice {
  struct Range {
    int64_t start = 0;
    int64_t length = -1;  ///< -1: the whole dimension.
  };
  /// "3 4 0,2:-" is the first two rows of a tensor of shape [3,4]. Errors: kInvalidArgument.
  static absl::StatusOr<TensorSlice> Parse(absl::string_view shape_and_slice);

  Shape full;  ///< Of the whole tensor.
  std::vector<Range> ranges;
  Shape shape() const;  ///< The part's own.
  /// Errors: kInvalidArgument if a range leaves its dimension.
  absl::Status Check() const;
};

/// The key under which a tensor bundle has that part of the tensor of `key`.
std::string SliceKey(absl::string_view key, const TensorSlice& slice);

/// Calls `copy(at in the whole, at in the part, length)`, in bytes, for each row of the innermost
/// dimension, which stands together in both; `size`: of an element.
template <typename Copy>
void ForRows(const TensorSlice& slice, size_t size, const Copy& copy) {
  const Shape part = slice.shape();
  if (part.num_elements() == 0) return;
  const int rank = part.rank();
  const int64_t row = rank == 0 ? 1 : part.dim(rank - 1);
  Dims at(static_cast<size_t>(std::max(rank - 1, 0)), 0);
  for (int64_t done = 0; done < part.num_elements(); done += row) {
    int64_t whole = 0;
    for (int i = 0; i < rank; ++i) {
      const int64_t index = slice.ranges[i].start + (i < rank - 1 ? at[i] : 0);
      whole = whole * slice.full.dim(i) + index;
    }
    copy(static_cast<size_t>(whole) * size, static_cast<size_t>(done) * size,
         static_cast<size_t>(row) * size);
    for (int i = rank - 2; i >= 0 && ++at[i] == part.dim(i); --i) at[i] = 0;
  }
}

}  // namespace formwork
