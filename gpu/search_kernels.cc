// Values that are looked up among sorted ones on a GPU.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/gather.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/search_items.h"

namespace formwork {
namespace {

absl::StatusOr<std::unique_ptr<ItemKernel>> KernelOf(const KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(
      const std::string name,
      SearchItemName(init.op().name, init.input_dtypes()[0], init.output_dtypes()[0]));
  auto kernel = std::make_unique<ItemKernel>(name, SearchText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

template <bool kUpper>
absl::StatusOr<KernelFn> MakeBound(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& sorted = ctx.input(0);
    const Tensor& values = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckBound(sorted.shape().dims(), values.shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    // Of any types, here and below: pointers and numbers alone.
    return kernel->Enqueue(BoundItemOf<char, char>(sorted, values, kUpper, out),
                           static_cast<uint64_t>(values.num_elements()), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeBucketize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(BucketizeAttrs attrs, BucketizeAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init));
  return KernelFn([boundaries = std::move(attrs.boundaries),
                   kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& values = ctx.input(0);
    Tensor out = OutputOf(ctx, 0);
    if (values.num_elements() == 0) return absl::OkStatus();
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    const size_t bytes = boundaries.size() * sizeof(float);
    FORMWORK_ASSIGN_OR_RETURN(const Buffer there, ScratchOf(ctx, bytes));
    void* const of = there ? there.data() : nullptr;
    FORMWORK_RETURN_IF_ERROR(CopyFromHost(StreamOf(ctx), boundaries.data(), of, bytes));
    return kernel->Enqueue(BucketItemOf<char>(of, boundaries.size(), values, out),
                           static_cast<uint64_t>(values.num_elements()), {}, stream);
  });
}

}  // namespace

void RegisterSearchKernels(KernelRegistry& registry) {
  registry.Add("Bucketize", &MakeBucketize);
  registry.Add("LowerBound", &MakeBound<false>);
  registry.Add("UpperBound", &MakeBound<true>);
}

}  // namespace formwork
