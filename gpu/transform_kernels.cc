// Projective transforms of images on a GPU.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/transform_items.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeTransform(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const TransformAttrs attrs, TransformAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, TransformItemName(init.input_dtypes()[0]));
  auto kernel = std::make_unique<ItemKernel>(name, TransformText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TransformGeometry geometry, PrepareTransformCall(ctx));
    Tensor out = OutputOf(ctx, 0);
    // Of any type: pointers and numbers alone.
    return kernel->Enqueue(TransformItemOf<char>(attrs, geometry, ctx, out),
                           static_cast<uint64_t>(out.num_elements()), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

}  // namespace

void RegisterTransformKernels(KernelRegistry& registry) {
  registry.Add("ImageProjectiveTransformV2", &MakeTransform);
  registry.Add("ImageProjectiveTransformV3", &MakeTransform);
}

}  // namespace formwork
