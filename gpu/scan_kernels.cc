// Running sums, products and logarithms of sums on a GPU.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/scan_items.h"

namespace formwork {
namespace {

const ScanOp& OpNamed(absl::string_view name) {
  for (const ScanOp& op : ScanOps()) {
    if (op.op == name) return op;
  }
  std::abort();  // Registered by the same table.
}

template <typename E>
absl::Status Run(ItemKernel& kernel, KernelContext& ctx, const ScanPlan& plan,
                 const ScanAttrs& attrs, E first) {
  Stream& stream = StreamOf(ctx);
  Tensor out = OutputOf(ctx, 0);
  FORMWORK_ASSIGN_OR_RETURN(const Buffer totals, ScratchOf(ctx, plan.totals() * sizeof(E)));
  // Of any op: pointers and numbers alone.
  for (const auto& step : ScanSteps<E, formwork_element::ScanSum>(
           plan, attrs, first, ctx.input(0).raw(), out.mutable_raw(),
           totals ? totals.data() : nullptr, sizeof(E))) {
    FORMWORK_RETURN_IF_ERROR(kernel.Enqueue(step.item, step.n, {}, CudaStreamOf(stream)));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeScan(KernelInit& init) {
  const ScanOp& op = OpNamed(init.op().name);
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const ScanAttrs attrs, ScanAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, ScanItemName(op, dtype));
  auto kernel = std::make_unique<ItemKernel>(ScanSource(name), ItemKernel::OfText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn(
      [&op, dtype, attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
        const Tensor& x = ctx.input(0);
        FORMWORK_ASSIGN_OR_RETURN(const int axis, PrepareScan(x.rank(), ctx.input(1)));
        if (x.num_elements() == 0) return absl::OkStatus();
        const ScanPlan plan = PlanScan(ExtentAlong(x.shape().dims(), axis));
        switch (dtype) {
          FORMWORK_REAL_CASES(return Run(*kernel, ctx, plan, attrs, FirstOfScan<T>(op)))
          default:
            return Internal(op.op, " of ", DTypeName(dtype));
        }
      });
}

}  // namespace

void RegisterGpuScanKernels(KernelRegistry& registry) {
  for (const ScanOp& op : ScanOps()) registry.Add(op.op, &MakeScan);
}

}  // namespace formwork
