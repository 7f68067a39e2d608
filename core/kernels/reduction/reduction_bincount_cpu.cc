#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/reduction/reduction.h"

namespace formwork {
namespace {

// Counts values[0..n) into bins[0..size); values of size and more are left out.
template <typename I, typename T>
void Count(const I* values, const T* weights, int64_t n, int64_t size, bool binary, T* bins) {
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    if (values[i] >= size) continue;
    T& bin = bins[values[i]];
    if (binary) {
      bin = T(1);
    } else {
      bin += weights == nullptr ? T(1) : weights[i];
    }
  }
}

template <typename I>
absl::Status DenseBincount(KernelContext& ctx, const BincountAttrs& attrs) {
  const Tensor& values = ctx.input(0);
  const Tensor& weights = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount(values.shape().dims(), &ctx.input(1)));
  if (weights.num_elements() != 0 && weights.shape() != values.shape()) {
    return InvalidArgument(
        "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts "
        "as all weights equal to 1. Received ",
        weights.shape().ToString());
  }
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (values.data<I>()[i] < 0) return InvalidArgument("Input arr must be non-negative!");
  }
  const int64_t rows = values.rank() == 2 ? values.dim(0) : 1;
  const int64_t n = values.rank() == 2 ? values.dim(1) : values.num_elements();
  const int64_t size = dims.back();
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, weights.dtype(), shape));
  auto fill = [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    T* bins = out->mutable_data<T>();
    FillElements(out->dtype(), &zero, out->num_elements(), bins);
    ForBlocks(rows, std::max<int64_t>(kCheapItems / std::max<int64_t>(n, 1), 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r) {
                  const T* row_weights =
                      weights.num_elements() == 0 ? nullptr : weights.data<T>() + r * n;
                  Count(values.data<I>() + r * n, row_weights, n, size, attrs.binary_output,
                        bins + r * size);
                }
              });
    return absl::OkStatus();
  };
  switch (weights.dtype()) {
    FORMWORK_CASE(float, return fill(T(0)))
    FORMWORK_CASE(double, return fill(T(0)))
    case DType::kInt32:
      return fill(uint32_t{0});  // Counts wrap around.
    case DType::kInt64:
      return fill(uint64_t{0});
    default:
      return Unimplemented("DenseBincount: dtype ", DTypeName(weights.dtype()),
                           " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeDenseBincount(KernelInit& init) {
  const bool wide = init.input_dtypes()[0] == DType::kInt64;
  FORMWORK_ASSIGN_OR_RETURN(const BincountAttrs attrs, BincountAttrs::FromAttrs(init.attrs()));
  return KernelFn([wide, attrs](KernelContext& ctx) -> absl::Status {
    return wide ? DenseBincount<int64_t>(ctx, attrs) : DenseBincount<int32_t>(ctx, attrs);
  });
}

}  // namespace

void RegisterBincountKernels(KernelRegistry& registry) {
  registry.Add("DenseBincount", MakeDenseBincount);
}

}  // namespace formwork
