// CropAndResize on a GPU. Boxes are checked there, and a bad one fails its step by the call's word.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/crop_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

// First all boxes are checked; then, unless one is bad, each element is made.
absl::StatusOr<KernelFn> MakeCrop(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const float outside, init.attrs().Get<float>("extrapolation_value"));
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, CropItemName(init.input_dtypes()[0]));
  static auto* const check = new ItemKernel("CheckBoxesItem", CropText());
  auto kernel = std::make_unique<ItemKernel>(name, CropText());
  FORMWORK_RETURN_IF_ERROR(check->Prepare());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([attrs, outside, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CropGeometry geometry,
                              PrepareCrop(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                          ctx.input(2).shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place, MayFail(ctx, &BadBoxes));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    FORMWORK_RETURN_IF_ERROR(check->Enqueue(
        CheckBoxesItemOf(geometry, ctx, formwork_element::MayFailItem{place.word, place.step}),
        static_cast<uint64_t>(geometry.boxes), place, stream));
    Tensor out = OutputOf(ctx, 0);
    const FailurePlace any{place.word, 0};  // This step's failure counts, too.
    // Of any type: pointers and numbers alone.
    return kernel->Enqueue(CropItemOf<char>(geometry, ctx, attrs.nearest, outside, out),
                           static_cast<uint64_t>(out.num_elements()), any, stream);
  });
}

}  // namespace

void RegisterCropKernels(KernelRegistry& registry) { registry.Add("CropAndResize", &MakeCrop); }

}  // namespace formwork
