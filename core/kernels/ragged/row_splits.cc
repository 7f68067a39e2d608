#include "core/kernels/ragged/row_splits.h"

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"

namespace formwork {

absl::StatusOr<std::vector<IndexValues>> NestedSplits(KernelContext& ctx, int first, int count,
                                                      int64_t rows) {
  std::vector<IndexValues> nested;
  nested.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const Tensor& input = ctx.input(first + i);
    if (input.rank() != 1) {
      return InvalidArgument("ragged splits must be vectors, not of shape ",
                             input.shape().ToString());
    }
    nested.emplace_back(input);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const IndexValues& splits = nested.back();
    if (splits.size() == 0) return InvalidArgument("ragged splits may not be empty.");
    if (splits[0] != 0) return InvalidArgument("First value of ragged splits must be 0.");
    for (int64_t k = 1; k < splits.size(); ++k) {
      if (WorkIsCutAt(k)) return WorkStatus();
      if (splits[k] < splits[k - 1]) {
        return InvalidArgument("Ragged splits should be non decreasing, but we got ", splits[k - 1],
                               " followed by ", splits[k]);
      }
    }
    if (i > 0 && nested[static_cast<size_t>(i) - 1].back() != splits.size() - 1) {
      return InvalidArgument(
          "Final value of ragged splits must match the length the corresponding ragged values.");
    }
  }
  if (count > 0 && nested.back().back() != rows) {
    return InvalidArgument(
        "Final value of ragged splits must match the length the corresponding ragged values.");
  }
  return nested;
}

absl::StatusOr<Tensor> CopyRows(Allocator& allocator, const Tensor& values, int64_t begin,
                                int64_t end) {
  Dims dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = end - begin;
  const int64_t width = ProductOf(values.shape().dims().subspan(1));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(allocator, values.dtype(), shape));
  ByElement(values.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    CopyElements(static_cast<const E*>(values.raw()) + begin * width, shape.num_elements(),
                 static_cast<E*>(rows.mutable_raw()));
  });
  return rows;
}

}  // namespace formwork
