#pragma once

// Gathers, scatters and stitches as items (item_functions.h): how a call's shapes and memory become
// the items' numbers, and what their failures are called. Needs no CUDA itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/gather.h"
#include "core/ops/scatter.h"
#include "core/tensor/tensor.h"
#include "gpu/item_functions.h"

namespace formwork {

/// The error of an index that is out of range: `where` of the word, of indices of shape `indices`
/// (without the dimension of a row), of which each is in [0, `dim`).
absl::Status IndexOutOfRange(uint64_t where, absl::Span<const int64_t> indices, int64_t dim);
/// The same of a row of indices; `wanted`: what it does not do, such as "index into shape [3]".
absl::Status RowOutOfRange(uint64_t where, absl::Span<const int64_t> rows,
                           const std::string& wanted);

/// Rows of `depth` indices into the first dimensions of `target`. Errors: kUnimplemented if they
/// are more than kMostIndexed.
absl::StatusOr<formwork_element::IndexRows> IndexRowsOf(const Shape& target, int64_t depth);

/// Of slices of `bytes` as units E.
template <typename E, typename Index>
formwork_element::GatherItem<E, Index> GatherItemOf(const GatherGeometry& geometry, size_t bytes,
                                                    const Tensor& params, const Tensor& indices,
                                                    Tensor& out,
                                                    formwork_element::MayFailItem may_fail) {
  return {static_cast<const E*>(params.raw()),   static_cast<const Index*>(indices.raw()),
          static_cast<E*>(out.mutable_raw()),    static_cast<uint64_t>(geometry.outer),
          static_cast<uint64_t>(geometry.dim),   bytes / sizeof(E),
          static_cast<uint64_t>(geometry.count), may_fail};
}

template <typename E, typename Index>
formwork_element::GatherNdItem<E, Index> GatherNdItemOf(const formwork_element::IndexRows& rows,
                                                        size_t bytes, bool ignores,
                                                        const Tensor& params, const Tensor& indices,
                                                        Tensor& out,
                                                        formwork_element::MayFailItem may_fail) {
  return {static_cast<const E*>(params.raw()),
          static_cast<const Index*>(indices.raw()),
          static_cast<E*>(out.mutable_raw()),
          bytes / sizeof(E),
          rows,
          ignores,
          may_fail};
}

/// Of slices of `inner` elements T.
template <typename T, typename Index, typename Op>
formwork_element::ScatterItem<T, Index, Op> ScatterItemOf(const formwork_element::IndexRows& rows,
                                                          size_t inner, Tensor& target,
                                                          const Tensor& indices,
                                                          const Tensor& updates, bool one) {
  return {static_cast<T*>(target.mutable_raw()),
          static_cast<const Index*>(indices.raw()),
          static_cast<const T*>(updates.raw()),
          inner,
          rows,
          one};
}

/// DynamicStitch, whose indices the host knows: the output's dimensions, and where each row of data
/// goes, one input's after the other's; -1 where a later one goes there, too.
struct StitchPlan {
  Dims output;
  std::vector<int32_t> rows;
  bool leaves_gaps;  ///< Some rows of the output are of no input.
};
/// Of a call's inputs. Errors: kInvalidArgument, the op's.
absl::StatusOr<StitchPlan> PlanStitch(const KernelContext& ctx);

/// Of one input, whose indices have become `to`: of slices of `bytes` as units E.
template <typename E>
formwork_element::ScatterItem<E, int32_t, formwork_element::ScatterUpdate> StitchItemOf(
    const formwork_element::IndexRows& rows, size_t bytes, Tensor& out, const int32_t* to,
    const Tensor& data) {
  return {static_cast<E*>(out.mutable_raw()),
          to,
          static_cast<const E*>(data.raw()),
          bytes / sizeof(E),
          rows,
          /*one=*/false};
}

}  // namespace formwork
