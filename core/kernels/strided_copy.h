#pragma once

// The one loop nest behind transposes, slices, broadcasts, tiles, pads, concatenations and the
// like: a copy between two strided views.

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// One dimension of a copy: its length, and how many elements apart its entries are on each side.
/// A source stride may be 0 (repeat) or negative (backwards).
struct CopyDim {
  int64_t size;
  int64_t src;
  int64_t dst;
};
using CopyDims = absl::InlinedVector<CopyDim, 8>;

/// dst[sum i_d * dims[d].dst] = src[sum i_d * dims[d].src] for all i. `src` and `dst` point to the
/// elements of index 0; the destination's elements must be distinct, exist (strings are assigned
/// to), and not overlap the source's. Runs over the compute threads where it is large.
void CopyStrided(DType dtype, const void* src, void* dst, absl::Span<const CopyDim> dims);

/// The product of some of a Shape's dimensions. 0 where it overflows: only a shape without elements
/// has such dimensions.
int64_t ProductOf(absl::Span<const int64_t> dims);

}  // namespace formwork
