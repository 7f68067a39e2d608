// DynamicStitch on a GPU: the host, which has the indices, says where each row goes.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/index_items.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeStitch(KernelInit& init) {
  static auto* const kernels = new UnitKernels("ScatterItem<", ", int32_t, ScatterUpdate>");
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  FORMWORK_RETURN_IF_ERROR(kernels->Of(DTypeSize(dtype)).Prepare());
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const StitchPlan plan, PlanStitch(ctx));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    Tensor out = OutputOf(ctx, 0);
    if (out.bytes() == 0) return absl::OkStatus();
    if (plan.leaves_gaps) FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, stream));
    const size_t bytes = plan.rows.size() * sizeof(int32_t);
    FORMWORK_ASSIGN_OR_RETURN(const Buffer there, ScratchOf(ctx, bytes));
    FORMWORK_RETURN_IF_ERROR(CopyFromHost(StreamOf(ctx), plan.rows.data(), there.data(), bytes));
    FORMWORK_ASSIGN_OR_RETURN(const auto rows, IndexRowsOf(out.shape(), 1));
    const size_t slice = out.bytes() / static_cast<size_t>(out.dim(0)), unit = UnitOf(slice);
    const auto* to = static_cast<const int32_t*>(there.data());
    const int n = ctx.num_inputs() / 2;
    for (int i = 0; i < n; ++i) {
      const auto count = static_cast<uint64_t>(ctx.input(i).num_elements());
      // Of any unit: pointers and numbers alone.
      auto item = StitchItemOf<char>(rows, slice, out, to, ctx.input(n + i));
      item.inner = slice / unit;
      FORMWORK_RETURN_IF_ERROR(kernels->Of(unit).Enqueue(item, count * item.inner, {}, stream));
      to += count;
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterStitchKernels(KernelRegistry& registry) { registry.Add("DynamicStitch", &MakeStitch); }

}  // namespace formwork
