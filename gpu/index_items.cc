#include "gpu/index_items.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

// The position that `where` tells, of a shape; empty where it does not.
std::string PositionOf(uint64_t where, absl::Span<const int64_t> shape) {
  const uint64_t position = where >> 32;
  if (position >= formwork_element::kMostTold || shape.empty()) return "";
  auto flat = static_cast<int64_t>(position);
  Dims at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = flat % shape[d];
    flat /= shape[d];
  }
  return absl::StrCat("[", absl::StrJoin(at, ","), "]");
}

}  // namespace

absl::Status IndexOutOfRange(uint64_t where, absl::Span<const int64_t> indices, int64_t dim) {
  const uint32_t told = static_cast<uint32_t>(where);
  const std::string value =
      told == 0 ? "" : absl::StrCat(" = ", static_cast<int64_t>(told) - (int64_t{1} << 31));
  return InvalidArgument("indices", PositionOf(where, indices), value, " is not in [0, ", dim, ")");
}

absl::Status RowOutOfRange(uint64_t where, absl::Span<const int64_t> rows,
                           const std::string& wanted) {
  return InvalidArgument("indices", PositionOf(where, rows), " does not ", wanted);
}

absl::StatusOr<formwork_element::IndexRows> IndexRowsOf(const Shape& target, int64_t depth) {
  if (depth > formwork_element::kMostIndexed) {
    return Unimplemented("indices into more than ", formwork_element::kMostIndexed,
                         " dimensions on a GPU");
  }
  formwork_element::IndexRows rows{};
  rows.depth = static_cast<int32_t>(depth);
  int64_t stride = 1;
  for (int64_t d = depth; d-- > 0;) {
    rows.dims[d] = target.dim(static_cast<int>(d));
    rows.strides[d] = stride;
    stride *= rows.dims[d];
  }
  return rows;
}

absl::StatusOr<StitchPlan> PlanStitch(const KernelContext& ctx) {
  const int n = ctx.num_inputs() / 2;
  const absl::Span<const int64_t> first = ctx.input(0).shape().dims();
  StitchPlan plan;
  int64_t count = 0;
  for (int i = 0; i < n; ++i) {
    const Tensor& indices = ctx.input(i);
    FORMWORK_RETURN_IF_ERROR(CheckStitched(i, first, ctx.input(n).shape().dims(),
                                           indices.shape().dims(),
                                           ctx.input(n + i).shape().dims()));
    const absl::Span<const int32_t> rows = indices.span<int32_t>();
    for (size_t j = 0; j < rows.size(); ++j) {
      if (rows[j] < 0) return InvalidArgument("indices[", j, "] is out of range");
      count = std::max<int64_t>(count, int64_t{rows[j]} + 1);
    }
    plan.rows.insert(plan.rows.end(), rows.begin(), rows.end());
  }
  absl::flat_hash_set<int32_t> seen;
  for (size_t j = plan.rows.size(); j-- > 0;) {
    if (!seen.insert(plan.rows[j]).second) plan.rows[j] = -1;
  }
  plan.leaves_gaps = static_cast<int64_t>(seen.size()) < count;
  plan.output = {count};
  const absl::Span<const int64_t> slice = ctx.input(n).shape().dims().subspan(first.size());
  plan.output.insert(plan.output.end(), slice.begin(), slice.end());
  return plan;
}

}  // namespace formwork
