#pragma once

// Rolls, mirrored margins, reversed sequences, blocks of space and diagonals on a GPU
// (arrange_functions.h): how a call's shapes and memory become the items' numbers. Elements are
// moved as units, of several where those stay together (moves.h). Needs no CUDA itself.

#include <string>
#include <vector>

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

/// MirrorPadGrad: a dimension after the other, and each but for its pointers.
struct FoldPlan {
  std::vector<formwork_element::FoldItem<char>> folds;  ///< One at least, of no margins then.
  std::vector<uint64_t> items;                          ///< Of each.

  /// Elements of all that comes between the folds.
  uint64_t between() const;
};
absl::StatusOr<FoldPlan> PlanMirrorPadGrad(const MirrorAttrs& attrs, const Shape& grads,
                                           const Tensor& paddings);
/// What is run one after the other. `between`: memory for plan.between() elements, of `bytes` each.
template <typename E>
std::vector<formwork_element::FoldItem<E>> FoldItemsOf(const FoldPlan& plan, const void* grads,
                                                       void* out, void* between, size_t bytes) {
  std::vector<formwork_element::FoldItem<E>> items;
  for (size_t k = 0; k < plan.folds.size(); ++k) {
    const formwork_element::FoldItem<char>& of = plan.folds[k];
    void* const to = k + 1 == plan.folds.size() ? out : between;
    items.push_back({static_cast<const E*>(grads), static_cast<E*>(to), of.inner, of.size,
                     of.before, of.after, of.offset});
    grads = to;
    if (to == between) between = static_cast<char*>(between) + plan.items[k] * bytes;
  }
  return items;
}
/// "FoldItem<...>". Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> FoldItemName(DType dtype);

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
