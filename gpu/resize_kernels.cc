// Images resized on a GPU, to the nearest element or between four, and the gradients of that.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/determinism.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/resize_items.h"

namespace formwork {
namespace {

namespace element = formwork_element;

uint64_t ElementsOf(const Tensor& value) { return static_cast<uint64_t>(value.num_elements()); }

absl::StatusOr<KernelFn> MakeNearest(KernelInit& init) {
  static auto* const kernels = new UnitKernels("NearestItem<", ">", ResizeText());
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  if (!IsPlainData(dtype)) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  const size_t bytes = DTypeSize(dtype);
  FORMWORK_RETURN_IF_ERROR(kernels->Of(bytes).Prepare());
  return KernelFn([attrs, bytes](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                              PrepareResize(images.shape().dims(), &ctx.input(1)));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const size_t pixel = static_cast<size_t>(geometry.channels) * bytes, unit = UnitOf(pixel);
    // Of any unit or type, here and below: pointers and numbers alone.
    const element::NearestItem<char> item{
        static_cast<const char*>(images.raw()), static_cast<char*>(out.mutable_raw()),
        ResizeSizesOf(attrs, geometry, static_cast<int64_t>(pixel / unit))};
    return kernels->Of(unit).Enqueue(item, out.bytes() / unit, {}, CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<std::unique_ptr<ItemKernel>> KernelOf(const KernelInit& init, DType dtype) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, ResizeItemName(init.op().name, dtype));
  auto kernel = std::make_unique<ItemKernel>(name, ResizeText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

absl::StatusOr<KernelFn> MakeBilinear(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init, init.input_dtypes()[0]));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                              PrepareResize(images.shape().dims(), &ctx.input(1)));
    Tensor out = OutputOf(ctx, 0);
    const element::BilinearItem<char> item{static_cast<const char*>(images.raw()),
                                           static_cast<float*>(out.mutable_raw()),
                                           ResizeSizesOf(attrs, geometry, geometry.channels)};
    return kernel->Enqueue(item, ElementsOf(out), {}, CudaStreamOf(StreamOf(ctx)));
  });
}

// `kNearest`: input 1 is the images' size; otherwise the images.
template <bool kNearest>
absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(init, init.output_dtypes()[0]));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    const Tensor& original = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const ResizeGeometry geometry,
        kNearest ? PrepareNearestGrad(grads.shape().dims(), &original)
                 : PrepareBilinearGrad(grads.shape().dims(), original.shape().dims()));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, stream));
    const element::NearestGradItem<char> item{static_cast<const char*>(grads.raw()),
                                              static_cast<char*>(out.mutable_raw()),
                                              ResizeSizesOf(attrs, geometry, geometry.channels)};
    return kernel->Enqueue(item, ElementsOf(grads), {}, stream);
  });
}

}  // namespace

void RegisterResizeKernels(KernelRegistry& registry) {
  registry.Add("ResizeBilinear", &MakeBilinear);
  AddOfOpenOrder(registry, "ResizeBilinearGrad", &MakeGradient<false>);
  registry.Add("ResizeNearestNeighbor", &MakeNearest);
  AddOfOpenOrder(registry, "ResizeNearestNeighborGrad", &MakeGradient<true>);
}

}  // namespace formwork
