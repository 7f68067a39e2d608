// DataFormatDimMap and DataFormatVecPermute.

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/ops/data_format.h"

namespace formwork {
namespace {

template <typename T>
absl::Status DimMap(KernelContext& ctx, const Dims& map) {
  const Tensor x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
  const T* const from = x.data<T>();
  T* const to = y->mutable_data<T>();
  const T rank = static_cast<T>(map.size());
  ForBlocks(x.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      // Counted from the end, too; what is beyond counts around.
      const T dim = from[begin] % rank;
      to[begin] = static_cast<T>(map[static_cast<size_t>(dim < 0 ? dim + rank : dim)]);
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDimMap(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DataFormatAttrs attrs, DataFormatAttrs::FromAttrs(init.attrs()));
  return KernelFn([map = attrs.Map()](KernelContext& ctx) {
    return ctx.input(0).dtype() == DType::kInt32 ? DimMap<int32_t>(ctx, map)
                                                 : DimMap<int64_t>(ctx, map);
  });
}

template <typename T>
absl::Status VecPermute(KernelContext& ctx, const DataFormatAttrs& attrs) {
  const Tensor x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const Dims rows, PrepareVecPermute(attrs, x.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
  const int64_t width = x.rank() == 1 ? 1 : 2;
  T* to = y->mutable_data<T>();
  for (const int64_t row : rows) {
    for (int64_t i = 0; i < width; ++i) *to++ = x.data<T>()[row * width + i];
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeVecPermute(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DataFormatAttrs attrs, DataFormatAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) {
    return ctx.input(0).dtype() == DType::kInt32 ? VecPermute<int32_t>(ctx, attrs)
                                                 : VecPermute<int64_t>(ctx, attrs);
  });
}

}  // namespace

void RegisterArrayFormatKernels(KernelRegistry& registry) {
  registry.Add("DataFormatDimMap", MakeDimMap);
  registry.Add("DataFormatVecPermute", MakeVecPermute);
}

}  // namespace formwork
