#pragma once

// Sums and the like of segments, and counts, on a GPU (segment_functions.h): how a call's shapes
// and memory become the items' numbers, and what their failures are called. Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/reduction.h"
#include "core/ops/segment.h"
#include "core/tensor/tensor.h"
#include "gpu/segment_functions.h"

namespace formwork {

/// An op over segments by ids in any order, and the name of what it does of two elements.
struct SegmentOp {
  absl::string_view op;
  absl::string_view combine;  ///< In segment_functions.h.
};
/// UnsortedSegmentSum, UnsortedSegmentProd, UnsortedSegmentMax, UnsortedSegmentMin.
absl::Span<const SegmentOp> SegmentOps();

/// "SegmentItem<...>". Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> SegmentItemName(const SegmentOp& op, DType dtype, DType ids);
/// The element that an empty segment has, at the beginning; of a dtype that has an item.
formwork_element::Bytes16 FirstOfSegment(const SegmentOp& op, DType dtype);
/// How many items there are.
inline uint64_t SegmentItems(const SegmentGeometry& geometry, const Tensor& ids) {
  return static_cast<uint64_t>(ids.num_elements() * std::max<int64_t>(geometry.width, 1));
}
template <typename T, typename Index, typename Op>
formwork_element::SegmentItem<T, Index, Op> SegmentItemOf(const SegmentGeometry& geometry,
                                                          const Tensor& data, const Tensor& ids,
                                                          Tensor& out,
                                                          formwork_element::MayFailItem may_fail) {
  return {static_cast<const T*>(data.raw()),
          static_cast<const Index*>(ids.raw()),
          static_cast<T*>(out.mutable_raw()),
          static_cast<uint64_t>(geometry.width),
          geometry.output[0],
          may_fail};
}
/// The error of an id that is none of `count` segments.
absl::Status SegmentOutOfRange(uint64_t where, int64_t count);

/// "CountItem<...>". Errors: as SegmentItemName's.
absl::StatusOr<std::string> CountItemName(DType dtype, DType values);
/// The output's dimensions, and checks of the inputs' shapes. Errors: kInvalidArgument.
absl::StatusOr<Dims> PrepareCounts(const Shape& values, const Tensor& size, const Shape& weights);
template <typename T, typename Index>
formwork_element::CountItem<T, Index> CountItemOf(const Tensor& values, const Tensor& weights,
                                                  bool binary, Tensor& bins,
                                                  formwork_element::MayFailItem may_fail) {
  const int64_t width = values.rank() == 2 ? values.dim(1) : values.num_elements();
  return {static_cast<const Index*>(values.raw()),
          weights.num_elements() == 0 ? nullptr : static_cast<const T*>(weights.raw()),
          static_cast<T*>(bins.mutable_raw()),
          static_cast<uint64_t>(width),
          bins.dim(bins.rank() - 1),
          binary,
          may_fail};
}
absl::Status NegativeCounted();

/// The text of a kernel of such an item, as ItemSource's (item_source.h).
std::string SegmentSource(absl::string_view item);

}  // namespace formwork
