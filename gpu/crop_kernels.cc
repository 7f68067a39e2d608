// CropAndResize and its gradients on a GPU. Boxes are checked there, and a bad one fails its step
// by the call's word.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/crop_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/determinism.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

ItemKernel& CheckKernel() {
  static auto* const kernel = new ItemKernel("CheckBoxesItem", CropText());
  return *kernel;
}

absl::StatusOr<std::unique_ptr<ItemKernel>> KernelOf(const KernelInit& init, DType images) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, CropItemName(init.op().name, images));
  auto kernel = std::make_unique<ItemKernel>(name, CropText());
  FORMWORK_RETURN_IF_ERROR(CheckKernel().Prepare());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

// First all boxes are checked, of which input `boxes` has the corners; what comes behind is skipped
// where one is bad.
absl::StatusOr<FailurePlace> Check(KernelContext& ctx, const CropGeometry& geometry, int boxes) {
  FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place, MayFail(ctx, &BadBoxes));
  FORMWORK_RETURN_IF_ERROR(CheckKernel().Enqueue(
      CheckBoxesItemOf(geometry, ctx, boxes, formwork_element::MayFailItem{place.word, place.step}),
      static_cast<uint64_t>(geometry.boxes), place, CudaStreamOf(StreamOf(ctx))));
  return FailurePlace{place.word, 0};  // This step's failure counts, too.
}

absl::StatusOr<KernelFn> MakeCrop(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const float outside, init.attrs().Get<float>("extrapolation_value"));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init, init.input_dtypes()[0]));
  return KernelFn([attrs, outside, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CropGeometry geometry,
                              PrepareCrop(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                          ctx.input(2).shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place, Check(ctx, geometry, 1));
    Tensor out = OutputOf(ctx, 0);
    // Of any type, here and below: pointers and numbers alone.
    return kernel->Enqueue(CropItemOf<char>(geometry, ctx, attrs.nearest, outside, out),
                           static_cast<uint64_t>(out.num_elements()), place,
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeGradImage(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init, init.output_dtypes()[0]));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const CropGeometry geometry,
        PrepareCropGradImage(grads.shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place, Check(ctx, geometry, 1));
    Tensor out = OutputOf(ctx, 0);
    FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, CudaStreamOf(StreamOf(ctx))));
    return kernel->Enqueue(CropGradImageItemOf<char>(geometry, ctx, attrs.nearest, out),
                           static_cast<uint64_t>(grads.num_elements()), place,
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeGradBoxes(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init, init.input_dtypes()[1]));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const CropGeometry geometry,
        PrepareCropGradBoxes(grads.shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims(), ctx.input(3).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place, Check(ctx, geometry, 2));
    Tensor out = OutputOf(ctx, 0);
    FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, CudaStreamOf(StreamOf(ctx))));
    if (grads.num_elements() == 0) return absl::OkStatus();
    return kernel->Enqueue(CropGradBoxesItemOf<char>(geometry, ctx, out),
                           static_cast<uint64_t>(grads.num_elements() / geometry.channels), place,
                           CudaStreamOf(StreamOf(ctx)));
  });
}

}  // namespace

void RegisterCropKernels(KernelRegistry& registry) {
  registry.Add("CropAndResize", &MakeCrop);
  AddOfOpenOrder(registry, "CropAndResizeGradBoxes", &MakeGradBoxes);
  AddOfOpenOrder(registry, "CropAndResizeGradImage", &MakeGradImage);
}

}  // namespace formwork
