#pragma once

// TopKV2 and InTopKV2 on a GPU (top_functions.h): how a call's shapes and memory become the rows'
// numbers, and by which way rows are ordered. Needs no CUDA itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/nn.h"
#include "core/tensor/tensor.h"
#include "gpu/top_functions.h"

namespace formwork {

/// How rows of some length are ordered.
struct TopPlan {
  enum class Way {
    kByRank,    ///< RankItem.
    kByBlock,   ///< TopOfRow, by itself.
    kByNetwork  ///< TopOfRow picks, OrderSteps order, and PickedItem writes.
  };
  Way way;
  uint64_t padded;  ///< Candidates of a row.

  /// Candidates of all rows, which memory is wanted for: at most 2 for each that is written.
  uint64_t picked(uint64_t rows) const { return way == Way::kByNetwork ? rows * padded : 0; }
};
/// Of `n` elements, of which `k` are wanted: 1 at least. Errors: kUnimplemented of rows that are
/// too long for places of 32 bits.
absl::StatusOr<TopPlan> PlanTop(int64_t n, int64_t k);

/// A step of what orders `padded` candidates of each row: OrderChunk of all chunks, from runs of
/// `from`, or OrderItem of all pairs.
struct OrderStep {
  bool by_chunks;
  uint64_t from, size, stride;
};
std::vector<OrderStep> OrderSteps(uint64_t padded);

/// `picked`: memory for plan.picked() candidates.
template <typename T, typename Index>
formwork_element::TopRows<T, Index> TopRowsOf(const TopKGeometry& geometry, const TopPlan& plan,
                                              const Tensor& x, Tensor& values, Tensor& indices,
                                              void* picked) {
  using Rows = formwork_element::TopRows<T, Index>;
  const int64_t rows = values.num_elements() / geometry.k;
  return {static_cast<const T*>(x.raw()),
          static_cast<T*>(values.mutable_raw()),
          static_cast<Index*>(indices.mutable_raw()),
          static_cast<formwork_element::Candidate<typename Rows::Key>*>(picked),
          static_cast<uint64_t>(rows),
          static_cast<uint64_t>(geometry.columns),
          static_cast<uint64_t>(geometry.k),
          plan.padded,
          geometry.k > 1};
}
template <typename Index>
formwork_element::InTopRows<Index> InTopRowsOf(const Tensor& predictions, const Tensor& targets,
                                               const Tensor& k, Tensor& out) {
  return {static_cast<const float*>(predictions.raw()), static_cast<const Index*>(targets.raw()),
          static_cast<const Index*>(k.raw()),           static_cast<bool*>(out.mutable_raw()),
          static_cast<uint64_t>(predictions.dim(0)),    static_cast<uint64_t>(predictions.dim(1))};
}

/// Bytes of a candidate.
size_t CandidateBytes(DType dtype);
/// "RankItem<...>", "PickedItem<...>": `item` of values of `dtype`, which has a kernel.
std::string TopItemName(absl::string_view item, DType dtype, DType index);
/// "OrderItem<...>".
std::string OrderItemName(DType dtype);
/// The text of a kernel of such an item, as ItemSource's (item_source.h).
std::string TopItemSource(absl::string_view item);

/// The text of kernels `top(TopRows)` and `order(OrderItem, uint64 chunks, uint64 from)`, of blocks
/// of kTopThreads, one for each row, or chunk, and then the next.
std::string TopSource(DType dtype, DType index);
/// Likewise of `in_top(InTopRows)`.
std::string InTopSource(DType index);

}  // namespace formwork
