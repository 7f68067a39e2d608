#pragma once

// Arithmetic of dimensions, of which some may be unknown: -1.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace formwork {

/// `axis` counted from the front; -1 where it is not within the rank.
inline int FrontAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

/// a * b and a + b, -1 where one is unknown; nothing where the result overflows.
std::optional<int64_t> MultiplyDims(int64_t a, int64_t b);
std::optional<int64_t> AddDims(int64_t a, int64_t b);

/// What two dimensions broadcast to; nothing where they cannot.
std::optional<int64_t> BroadcastDim(int64_t a, int64_t b);
/// The same of whole shapes, which are aligned at their last dimensions.
std::optional<Dims> BroadcastDims(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

/// False where both are known and `dim` is no multiple of `by`, which is not 0.
inline bool MayDivide(int64_t dim, int64_t by) { return dim < 0 || by < 0 || dim % by == 0; }

/// False where both are known and differ.
inline bool MayBeEqual(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }
/// The same of whole shapes, whose ranks must be equal.
bool MayBeEqual(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

/// How many elements apart entries are along each dimension of a dense value. Where the product of
/// those behind a dimension overflows, 0: only what has no elements has such dimensions.
Dims RowMajorStrides(absl::Span<const int64_t> dims);
inline Dims RowMajorStrides(const Shape& shape) { return RowMajorStrides(shape.dims()); }

/// The number of elements; -1 where a dimension is unknown and none is 0, or it overflows.
int64_t CountElements(absl::Span<const int64_t> dims);

/// "[2,?]", as Shape and PartialShape write it.
std::string DimsText(absl::Span<const int64_t> dims);

}  // namespace formwork
