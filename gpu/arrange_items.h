#pragma once

// Rolls, mirrored margins, reversed sequences, blocks of space and diagonals on a GPU
// (arrange_functions.h): how a call's shapes and memory become the items' numbers. Elements are
// moved as units, of several where those stay together (moves.h). Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/blocks.h"
#include "core/ops/diagonal.h"
#include "core/ops/pad.h"
#include "core/ops/permute.h"
#include "core/tensor/tensor.h"
#include "gpu/arrange_functions.h"

namespace formwork {

/// An item but for its pointers, and how many there are: of units of `unit` bytes.
template <template <typename> typename Item>
struct ArrangePlan {
  Shape output;
  size_t unit = 1;
  uint64_t items = 0;
  Item<char> item{};
};

using ShiftPlan = ArrangePlan<formwork_element::ShiftItem>;
using BlocksPlan = ArrangePlan<formwork_element::BlocksItem>;

/// Of elements of `bytes` each. Errors: the op's own (core/ops); kUnimplemented if more than
/// kMostArrangedDims dimensions are left.
absl::StatusOr<ShiftPlan> PlanRoll(const Shape& x, const Tensor& shift, const Tensor& axis,
                                   size_t bytes);
absl::StatusOr<ShiftPlan> PlanMirrorPad(const MirrorAttrs& attrs, const Shape& x,
                                        const Tensor& paddings, size_t bytes);
absl::StatusOr<BlocksPlan> PlanSpaceToBatch(const Shape& x, const Tensor& block_shape,
                                            const Tensor& paddings, size_t bytes);
absl::StatusOr<BlocksPlan> PlanBatchToSpace(const Shape& x, const Tensor& block_shape,
                                            const Tensor& crops, size_t bytes);

template <typename E>
formwork_element::ShiftItem<E> ShiftItemOf(const ShiftPlan& plan, const void* from, void* to) {
  const formwork_element::ShiftItem<char>& of = plan.item;
  formwork_element::ShiftItem<E> item{};
  item.from = static_cast<const E*>(from);
  item.to = static_cast<E*>(to);
  item.rank = of.rank;
  item.mirrors = of.mirrors;
  item.offset = of.offset;
  for (int d = 0; d < of.rank; ++d) {
    item.sizes[d] = of.sizes[d];
    item.from_sizes[d] = of.from_sizes[d];
    item.starts[d] = of.starts[d];
  }
  return item;
}

template <typename E>
formwork_element::BlocksItem<E> BlocksItemOf(const BlocksPlan& plan, const void* from, void* to) {
  const formwork_element::BlocksItem<char>& of = plan.item;
  formwork_element::BlocksItem<E> item{};
  item.from = static_cast<const E*>(from);
  item.to = static_cast<E*>(to);
  item.rank = of.rank;
  item.to_batch = of.to_batch;
  item.inner = of.inner;
  item.batch = of.batch;
  for (int d = 0; d < of.rank; ++d) {
    item.block[d] = of.block[d];
    item.before[d] = of.before[d];
    item.space[d] = of.space[d];
    item.blocks[d] = of.blocks[d];
  }
  return item;
}

struct SequencePlan {
  size_t unit = 1;
  uint64_t items = 0;  ///< 0: there are no elements, but lengths to check.
  uint64_t seq_size = 0, seq_stride = 0, batch_size = 0, batch_stride = 0;
};
/// Errors: CheckReverseSequence's.
absl::StatusOr<SequencePlan> PlanReverseSequence(const ReverseSequenceAttrs& attrs, const Shape& x,
                                                 const Shape& lengths, size_t bytes);
template <typename E, typename Length>
formwork_element::ReverseSequenceItem<E, Length> ReverseSequenceItemOf(
    const SequencePlan& plan, const void* from, const Tensor& lengths, void* to,
    formwork_element::MayFailItem may_fail) {
  return {static_cast<const E*>(from),
          static_cast<const Length*>(lengths.raw()),
          static_cast<E*>(to),
          plan.seq_size,
          plan.seq_stride,
          plan.batch_size,
          plan.batch_stride,
          may_fail};
}
/// The error of a length that is negative or more than dimension `seq_dim` has.
absl::Status LengthOutOfRange(uint64_t where, int64_t seq_dim);

/// As items find it.
formwork_element::DiagonalBand DiagonalBandOf(const Band& band);

/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
absl::string_view ArrangeText();

}  // namespace formwork
