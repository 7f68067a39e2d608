#pragma once

// Segments of rows that indices choose, and their gradients, on a GPU (sparse_segment_functions.h):
// how a call's shapes and memory become the items' numbers, and what their failures are called.
// Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/ops/segment.h"
#include "core/tensor/tensor.h"
#include "gpu/sparse_segment_functions.h"

namespace formwork {

struct SparseSegmentOp {
  absl::string_view op;
  formwork_element::RowScale scale;
  bool is_gradient;
};
/// Those whose outputs' sizes the host knows: SparseSegment...WithNumSegments,
/// SparseSegment...Grad.
absl::Span<const SparseSegmentOp> SparseSegmentOps();
/// Of a call's inputs.
absl::StatusOr<SegmentGeometry> PrepareSparseSegmentCall(const SparseSegmentOp& op,
                                                         const KernelContext& ctx);

/// The item of the op. Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> SparseSegmentItemName(const SparseSegmentOp& op, DType dtype,
                                                  DType index, DType ids);
std::string CheckRowsItemName(DType index, DType ids);
std::string CountIdsItemName(DType ids);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& SparseSegmentText();

/// Of inputs 1 and 2.
template <typename Index, typename Id>
formwork_element::CheckRowsItem<Index, Id> CheckRowsItemOf(const SparseSegmentOp& op,
                                                           const SegmentGeometry& geometry,
                                                           const KernelContext& ctx,
                                                           formwork_element::MayFailItem may_fail) {
  const int64_t first = ctx.input(0).dim(0), sized = geometry.output[0];
  return {static_cast<const Index*>(ctx.input(1).raw()),
          static_cast<const Id*>(ctx.input(2).raw()),
          op.is_gradient ? sized : first,
          op.is_gradient ? first : sized,
          !op.is_gradient,
          may_fail};
}
/// What such an item has found.
absl::Status BadRow(const SparseSegmentOp& op, int64_t rows, int64_t segments, uint64_t where);

template <typename T, typename Index, typename Id>
formwork_element::SparseSegmentItem<T, Index, Id> SparseSegmentItemOf(
    const SparseSegmentOp& op, const SegmentGeometry& geometry, const KernelContext& ctx,
    Tensor& out) {
  return {static_cast<const T*>(ctx.input(0).raw()),
          static_cast<const Index*>(ctx.input(1).raw()),
          static_cast<const Id*>(ctx.input(2).raw()),
          static_cast<T*>(out.mutable_raw()),
          static_cast<uint64_t>(geometry.width),
          static_cast<uint64_t>(ctx.input(1).num_elements()),
          op.scale};
}
/// `counts`: of as many segments as input 0 has rows; null for sums.
template <typename T, typename Index, typename Id>
formwork_element::SparseSegmentGradItem<T, Index, Id> SparseSegmentGradItemOf(
    const SparseSegmentOp& op, const SegmentGeometry& geometry, const KernelContext& ctx,
    const void* counts, Tensor& out) {
  return {static_cast<const T*>(ctx.input(0).raw()),
          static_cast<const Index*>(ctx.input(1).raw()),
          static_cast<const Id*>(ctx.input(2).raw()),
          static_cast<const uint64_t*>(counts),
          static_cast<T*>(out.mutable_raw()),
          static_cast<uint64_t>(geometry.width),
          op.scale};
}

}  // namespace formwork
