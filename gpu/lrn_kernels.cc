// Local response normalisation on a GPU, and its gradient.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/lrn_items.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

absl::StatusOr<std::unique_ptr<ItemKernel>> KernelOf(absl::string_view item, const LrnAttrs& attrs,
                                                     DType dtype) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, LrnItemName(item, attrs, dtype));
  auto kernel = std::make_unique<ItemKernel>(name, LrnText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

// Of any type, here and below: pointers and numbers alone.

absl::StatusOr<KernelFn> MakeLrn(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const LrnAttrs attrs, LrnAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf("LrnItem", attrs, init.input_dtypes()[0]));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckLrn(ctx.input(0).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    const element::LrnItem<char> item{InputBytes(ctx, 0), OutputBytes(out),
                                      LrnSizesOf(attrs, out.dim(3))};
    return kernel->Enqueue(item, static_cast<uint64_t>(out.num_elements()), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeLrnGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const LrnAttrs attrs, LrnAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(auto norm, KernelOf("LrnNormItem", attrs, dtype));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf("LrnGradItem", attrs, dtype));
  return KernelFn([attrs, norm = std::move(norm),
                   kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckLrnGrad(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                          ctx.input(2).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const auto n = static_cast<uint64_t>(out.num_elements());
    FORMWORK_ASSIGN_OR_RETURN(const Buffer norms, ScratchOf(ctx, n * sizeof(float)));
    auto* const of_elements = static_cast<float*>(norms.data());
    const element::LrnSizes sizes = LrnSizesOf(attrs, out.dim(3));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    FORMWORK_RETURN_IF_ERROR(norm->Enqueue(
        element::LrnNormItem<char>{InputBytes(ctx, 1), of_elements, sizes}, n, {}, stream));
    return kernel->Enqueue(
        element::LrnGradItem<char>{InputBytes(ctx, 0), InputBytes(ctx, 1), InputBytes(ctx, 2),
                                   of_elements, OutputBytes(out), sizes},
        n, {}, stream);
  });
}

}  // namespace

void RegisterGpuLrnKernels(KernelRegistry& registry) {
  registry.Add("LRN", &MakeLrn);
  registry.Add("LRNGrad", &MakeLrnGrad);
}

}  // namespace formwork
