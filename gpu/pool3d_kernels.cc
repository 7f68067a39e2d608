// Pooling of volumes on a GPU, and its gradients.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/pool3d_items.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

struct Pool {
  Pool3dAttrs attrs;
  std::unique_ptr<ItemKernel> kernel;
};

absl::StatusOr<Pool> MakePool(const KernelInit& init) {
  Pool pool;
  FORMWORK_ASSIGN_OR_RETURN(pool.attrs, Pool3dAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  for (const DType input : init.input_dtypes()) {
    if (input != dtype && input != DType::kInt32) {
      return Unimplemented(init.op().name, " of ", DTypeName(input), " on a GPU");
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, Pool3dItemName(init.op().name, dtype));
  pool.kernel = std::make_unique<ItemKernel>(name, Pool3dText());
  FORMWORK_RETURN_IF_ERROR(pool.kernel->Prepare());
  return pool;
}

// Of any type, here and below: pointers and numbers alone.
template <typename Item>
absl::Status Enqueue(const Pool& pool, KernelContext& ctx, const Item& item, const Tensor& out) {
  return pool.kernel->Enqueue(item, static_cast<uint64_t>(out.num_elements()), {},
                              CudaStreamOf(StreamOf(ctx)));
}

template <template <typename> class Item>
absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Pool pool, MakePool(init));
  return KernelFn([pool = std::move(pool)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                              PreparePool3d(pool.attrs, ctx.input(0).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    return Enqueue(pool, ctx,
                   Item<char>{InputBytes(ctx, 0), OutputBytes(out), Pool3dSizesOf(geometry)}, out);
  });
}

absl::StatusOr<KernelFn> MakeMaxPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Pool pool, MakePool(init));
  return KernelFn([pool = std::move(pool)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                              PrepareMaxPool3dGrad(pool.attrs, ctx.input(0).shape(),
                                                   ctx.input(1).shape(), ctx.input(2).shape()));
    Tensor out = OutputOf(ctx, 0);
    const element::MaxPool3DGradItem<char> item{InputBytes(ctx, 0), InputBytes(ctx, 1),
                                                InputBytes(ctx, 2), OutputBytes(out),
                                                Pool3dSizesOf(geometry)};
    return Enqueue(pool, ctx, item, out);
  });
}

absl::StatusOr<KernelFn> MakeAvgPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Pool pool, MakePool(init));
  return KernelFn([pool = std::move(pool)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry geometry,
                              PrepareAvgPool3dGrad(pool.attrs, ctx.input(0), ctx.input(1).shape()));
    Tensor out = OutputOf(ctx, 0);
    const element::AvgPool3DGradItem<char> item{InputBytes(ctx, 1), OutputBytes(out),
                                                Pool3dSizesOf(geometry)};
    return Enqueue(pool, ctx, item, out);
  });
}

}  // namespace

void RegisterPool3dKernels(KernelRegistry& registry) {
  registry.Add("AvgPool3D", &MakeForward<element::AvgPool3DItem>);
  registry.Add("AvgPool3DGrad", &MakeAvgPoolGrad);
  registry.Add("MaxPool3D", &MakeForward<element::MaxPool3DItem>);
  registry.Add("MaxPool3DGrad", &MakeMaxPoolGrad);
}

}  // namespace formwork
