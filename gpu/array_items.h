#pragma once

// Choices, one-hot values, bands, ranges and sums of several values on a GPU (array_functions.h):
// how a call's shapes and memory become the items' numbers. Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/ops/diagonal.h"
#include "core/ops/gather.h"
#include "core/tensor/tensor.h"
#include "gpu/array_functions.h"

namespace formwork {

/// How a choice goes through its output, which has the dimensions that the op's Prepare says.
struct SelectPlan {
  Shape output;
  formwork_element::SelectItem<char> dimensions{};  ///< But for the pointers.
};
/// Of SelectV2, or of Select where `by_rows`, whose condition may be a vector that chooses rows.
/// Errors: those of PrepareSelectV2 and PrepareSelect; kUnimplemented if more than kMostChosenDims
/// dimensions are left of those that differ.
absl::StatusOr<SelectPlan> PlanSelect(const Shape& condition, const Shape& then,
                                      const Shape& otherwise, bool by_rows);

/// Of elements as units E; inputs 0 to 2 of the call.
template <typename E>
formwork_element::SelectItem<E> SelectItemOf(const SelectPlan& plan, const KernelContext& ctx,
                                             Tensor& out) {
  formwork_element::SelectItem<E> item{};
  item.condition = static_cast<const bool*>(ctx.input(0).raw());
  item.values[0] = static_cast<const E*>(ctx.input(1).raw());
  item.values[1] = static_cast<const E*>(ctx.input(2).raw());
  item.to = static_cast<E*>(out.mutable_raw());
  item.rank = plan.dimensions.rank;
  for (int d = 0; d < item.rank; ++d) {
    item.sizes[d] = plan.dimensions.sizes[d];
    for (int k = 0; k < 3; ++k) item.strides[k][d] = plan.dimensions.strides[k][d];
  }
  return item;
}

/// Inputs 0 (indices), 2 and 3 of the call.
template <typename E, typename Index>
formwork_element::OneHotItem<E, Index> OneHotItemOf(const OneHotGeometry& geometry,
                                                    const KernelContext& ctx, Tensor& out) {
  return {static_cast<const Index*>(ctx.input(0).raw()), static_cast<const E*>(ctx.input(2).raw()),
          static_cast<const E*>(ctx.input(3).raw()),     static_cast<E*>(out.mutable_raw()),
          static_cast<uint64_t>(geometry.depth),         static_cast<uint64_t>(geometry.suffix)};
}

template <typename E>
formwork_element::BandItem<E> BandItemOf(const BandPart& part, const Tensor& from, Tensor& out) {
  return {static_cast<const E*>(from.raw()),
          static_cast<E*>(out.mutable_raw()),
          static_cast<uint64_t>(from.dim(from.rank() - 2)),
          static_cast<uint64_t>(from.dim(from.rank() - 1)),
          part.lower,
          part.upper};
}

/// Inputs 0 and 2 of the call, in host memory.
template <typename E>
formwork_element::RangeItem<E> RangeItemOf(const KernelContext& ctx, Tensor& out) {
  return {ctx.input(0).scalar<E>(), ctx.input(2).scalar<E>(), static_cast<E*>(out.mutable_raw())};
}

/// Of AddN, whose terms are all inputs: those from `first` on, and what `out` is of those before.
/// So many as one item takes; `next` is the one behind them.
template <typename E>
formwork_element::SumItem<E> SumItemOf(const KernelContext& ctx, int first, Tensor& out,
                                       int& next) {
  formwork_element::SumItem<E> item{};
  item.to = static_cast<E*>(out.mutable_raw());
  if (first > 0) item.terms[item.count++] = item.to;
  for (next = first; next < ctx.num_inputs() && item.count < formwork_element::kMostTerms; ++next) {
    item.terms[item.count++] = static_cast<const E*>(ctx.input(next).raw());
  }
  return item;
}

/// The text of a kernel of such an item, as ItemSource's (item_source.h).
std::string ArraySource(absl::string_view item);

}  // namespace formwork
