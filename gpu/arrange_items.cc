#include "gpu/arrange_items.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "gpu/arrange_functions_text.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/moves.h"

namespace formwork {
namespace {

using formwork_element::kMostArrangedDims;

// From `x` to the plan's output; entry k of dimension d is entry k + starts[d] of `x`. Neighbouring
// dimensions that stay as they are are one.
absl::Status AddDims(const Shape& x, const Dims& starts, size_t bytes, ShiftPlan& plan) {
  formwork_element::ShiftItem<char>& item = plan.item;
  bool kept_before = false;
  const auto add = [&](int64_t size, int64_t from_size, int64_t start) -> absl::Status {
    if (item.rank == kMostArrangedDims) {
      return Unimplemented("more than ", kMostArrangedDims, " dimensions on a GPU");
    }
    item.sizes[item.rank] = size;
    item.from_sizes[item.rank] = from_size;
    item.starts[item.rank++] = start;
    return absl::OkStatus();
  };
  plan.unit = bytes;
  plan.items = static_cast<uint64_t>(plan.output.num_elements());
  if (plan.items == 0) return absl::OkStatus();
  for (int d = x.rank(); d-- > 0;) {
    const int64_t size = plan.output.dim(d);
    const bool kept = size == x.dim(d) && starts[d] == 0;
    if (kept && size == 1) continue;
    if (kept && kept_before) {
      item.sizes[item.rank - 1] *= size;
      item.from_sizes[item.rank - 1] *= size;
    } else {
      FORMWORK_RETURN_IF_ERROR(add(size, x.dim(d), starts[d]));
    }
    kept_before = kept;
  }
  if (item.rank > 0 && item.starts[0] == 0 && item.sizes[0] == item.from_sizes[0]) {
    const size_t together = static_cast<size_t>(item.sizes[0]) * bytes;
    plan.unit = UnitOf(together);
    plan.items = plan.items * bytes / plan.unit;
    item.sizes[0] = item.from_sizes[0] = static_cast<int64_t>(together / plan.unit);
  }
  return absl::OkStatus();
}

// Between `space` and `batched`, of which the output is one.
absl::Status AddBlocks(const BlocksGeometry& blocks, const Shape& space, const Shape& batched,
                       size_t bytes, BlocksPlan& plan) {
  formwork_element::BlocksItem<char>& item = plan.item;
  plan.unit = bytes;
  plan.items = static_cast<uint64_t>(plan.output.num_elements());
  if (plan.items == 0) return absl::OkStatus();
  const auto rank = static_cast<int>(blocks.size.size());
  if (rank > kMostArrangedDims) {
    return Unimplemented("blocks of more than ", kMostArrangedDims, " dimensions on a GPU");
  }
  item.rank = rank;
  for (int d = 0; d < rank; ++d) {
    const int from = rank - 1 - d;
    item.block[d] = blocks.size[from];
    item.before[d] = blocks.before[from];
    item.space[d] = space.dim(from + 1);
    item.blocks[d] = batched.dim(from + 1);
  }
  int64_t inner = 1;
  for (int d = rank + 1; d < space.rank(); ++d) inner *= space.dim(d);
  const size_t together = static_cast<size_t>(inner) * bytes;
  plan.unit = UnitOf(together);
  plan.items = plan.items * bytes / plan.unit;
  item.inner = static_cast<int64_t>(together / plan.unit);
  item.batch = space.dim(0);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ShiftPlan> PlanRoll(const Shape& x, const Tensor& shift, const Tensor& axis,
                                   size_t bytes) {
  FORMWORK_ASSIGN_OR_RETURN(Dims starts, PrepareRoll(x.dims(), shift, axis));
  for (int64_t& start : starts) start = -start;
  ShiftPlan plan;
  plan.output = x;
  FORMWORK_RETURN_IF_ERROR(AddDims(x, starts, bytes, plan));
  return plan;
}

absl::StatusOr<ShiftPlan> PlanMirrorPad(const MirrorAttrs& attrs, const Shape& x,
                                        const Tensor& paddings, size_t bytes) {
  FORMWORK_ASSIGN_OR_RETURN(const PadGeometry geometry,
                            PrepareMirrorPad(attrs, x.dims(), paddings));
  ShiftPlan plan;
  FORMWORK_ASSIGN_OR_RETURN(plan.output, Shape::Make(geometry.output));
  plan.item.mirrors = true;
  plan.item.offset = attrs.offset;
  Dims starts = geometry.before;
  for (int64_t& start : starts) start = -start;
  FORMWORK_RETURN_IF_ERROR(AddDims(x, starts, bytes, plan));
  return plan;
}

uint64_t FoldPlan::between() const {
  return std::accumulate(items.begin(), items.end() - 1, uint64_t{0});
}

absl::StatusOr<FoldPlan> PlanMirrorPadGrad(const MirrorAttrs& attrs, const Shape& grads,
                                           const Tensor& paddings) {
  FORMWORK_ASSIGN_OR_RETURN(const PadGeometry geometry,
                            PrepareMirrorPadGrad(attrs, grads.dims(), paddings));
  FoldPlan plan;
  Dims dims(grads.dims().begin(), grads.dims().end());
  const auto add = [&](int64_t inner, int64_t size, int64_t before, int64_t after) {
    plan.folds.push_back({nullptr, nullptr, inner, size, before, after, attrs.offset});
    plan.items.push_back(static_cast<uint64_t>(CountElements(dims)));
  };
  for (size_t d = 0; d < dims.size(); ++d) {
    if (geometry.before[d] + geometry.after[d] == 0) continue;
    dims[d] = geometry.output[d];
    add(CountElements(absl::MakeConstSpan(dims).subspan(d + 1)), dims[d], geometry.before[d],
        geometry.after[d]);
  }
  if (plan.folds.empty()) add(1, 1, 0, 0);
  return plan;
}

absl::StatusOr<std::string> FoldItemName(DType dtype) {
  if (ElementTypeName(dtype).empty() || dtype == DType::kBool) {
    return Unimplemented("MirrorPadGrad of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat("FoldItem<", ElementTypeName(dtype), ">");
}

absl::StatusOr<BlocksPlan> PlanSpaceToBatch(const Shape& x, const Tensor& block_shape,
                                            const Tensor& paddings, size_t bytes) {
  FORMWORK_ASSIGN_OR_RETURN(const BlocksGeometry blocks,
                            PrepareSpaceToBatch(x.dims(), block_shape, paddings));
  BlocksPlan plan;
  FORMWORK_ASSIGN_OR_RETURN(plan.output, Shape::Make(blocks.output));
  plan.item.to_batch = true;
  FORMWORK_RETURN_IF_ERROR(AddBlocks(blocks, x, plan.output, bytes, plan));
  return plan;
}

absl::StatusOr<BlocksPlan> PlanBatchToSpace(const Shape& x, const Tensor& block_shape,
                                            const Tensor& crops, size_t bytes) {
  FORMWORK_ASSIGN_OR_RETURN(const BlocksGeometry blocks,
                            PrepareBatchToSpace(x.dims(), block_shape, crops));
  BlocksPlan plan;
  FORMWORK_ASSIGN_OR_RETURN(plan.output, Shape::Make(blocks.output));
  FORMWORK_RETURN_IF_ERROR(AddBlocks(blocks, plan.output, x, bytes, plan));
  return plan;
}

absl::StatusOr<SequencePlan> PlanReverseSequence(const ReverseSequenceAttrs& attrs, const Shape& x,
                                                 const Shape& lengths, size_t bytes) {
  FORMWORK_RETURN_IF_ERROR(CheckReverseSequence(attrs, x.dims(), lengths.dims()));
  SequencePlan plan;
  plan.seq_size = static_cast<uint64_t>(x.dim(static_cast<int>(attrs.seq_dim)));
  plan.batch_size = static_cast<uint64_t>(x.dim(static_cast<int>(attrs.batch_dim)));
  if (x.num_elements() == 0) return plan;
  const Dims strides = RowMajorStrides(x);
  const auto together =
      bytes * static_cast<size_t>(std::min(strides[attrs.seq_dim], strides[attrs.batch_dim]));
  plan.unit = UnitOf(together);
  const auto in_units = [&](int64_t elements) {
    return static_cast<uint64_t>(elements) * bytes / plan.unit;
  };
  plan.seq_stride = in_units(strides[attrs.seq_dim]);
  plan.batch_stride = in_units(strides[attrs.batch_dim]);
  plan.items = in_units(x.num_elements());
  return plan;
}

absl::Status LengthOutOfRange(uint64_t where, int64_t seq_dim) {
  const uint64_t position = where >> 32;
  const auto told = static_cast<uint32_t>(where);
  std::string lengths = "seq_lens";
  if (position < formwork_element::kMostTold) absl::StrAppend(&lengths, "(", position, ")");
  if (told == 0) {  // Its value is not known.
    return InvalidArgument(lengths, " is not in [0, input.dims(", seq_dim, ")]");
  }
  const bool negative = told < (uint32_t{1} << 31);
  if (negative) return InvalidArgument(lengths, " < 0");
  return InvalidArgument(lengths, " > input.dims(", seq_dim, ")");
}

formwork_element::DiagonalBand DiagonalBandOf(const Band& band) {
  formwork_element::DiagonalBand of{band.lower,   band.upper,      band.rows,    band.cols,
                                    band.longest, band.left_super, band.left_sub};
  if (band.longest == 0) of.upper = of.lower - 1;  // There is none.
  return of;
}

absl::string_view ArrangeText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kArrangeFunctionsText));
  return *text;
}

}  // namespace formwork
