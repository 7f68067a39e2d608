#pragma once

// Values that are looked up among sorted ones on a GPU (search_functions.h): how a call's shapes
// and memory become the items' numbers. Needs no CUDA itself.

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"
#include "gpu/search_functions.h"

namespace formwork {

/// "SearchItem<...>", for the op, which ends in Bound, or is Bucketize: among floats. Errors:
/// kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> SearchItemName(absl::string_view op, DType dtype, DType index);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& SearchText();

/// LowerBound, UpperBound.
template <typename T, typename Index>
formwork_element::SearchItem<T, T, Index> BoundItemOf(const Tensor& sorted, const Tensor& values,
                                                      bool upper, Tensor& out) {
  return {static_cast<const T*>(sorted.raw()),    static_cast<const T*>(values.raw()),
          static_cast<Index*>(out.mutable_raw()), static_cast<uint64_t>(sorted.dim(1)),
          static_cast<uint64_t>(values.dim(1)),   upper};
}
/// Bucketize. `boundaries`: where `count` of them are.
template <typename T>
formwork_element::SearchItem<T, float, int32_t> BucketItemOf(const void* boundaries, size_t count,
                                                             const Tensor& values, Tensor& out) {
  return {static_cast<const float*>(boundaries),
          static_cast<const T*>(values.raw()),
          static_cast<int32_t*>(out.mutable_raw()),
          count,
          static_cast<uint64_t>(std::max<int64_t>(values.num_elements(), 1)),
          /*upper=*/true};
}

}  // namespace formwork
