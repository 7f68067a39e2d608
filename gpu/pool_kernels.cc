// Pooling of two spatial dimensions on a GPU, and its gradients.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/pool.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/pool_items.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

struct Pool {
  SlidingAttrs attrs;
  std::unique_ptr<ItemKernel> kernel;
};

absl::StatusOr<Pool> MakePool(const KernelInit& init) {
  Pool pool;
  FORMWORK_ASSIGN_OR_RETURN(pool.attrs, SlidingAttrs::OfPool(init.attrs()));
  if (pool.attrs.depth_window > 1) return Unimplemented(init.op().name, " over channels on a GPU");
  FORMWORK_ASSIGN_OR_RETURN(const std::string name,
                            PoolItemName(init.op().name, init.output_dtypes()[0]));
  pool.kernel = std::make_unique<ItemKernel>(name, PoolText());
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
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              PreparePool(pool.attrs, ctx.input(0).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    return Enqueue(pool, ctx, Item<char>{InputBytes(ctx, 0), OutputBytes(out), PoolSizesOf(shape)},
                   out);
  });
}

absl::StatusOr<KernelFn> MakeMaxPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Pool pool, MakePool(init));
  const bool relu = OfRelu(init.attrs());
  return KernelFn([relu, pool = std::move(pool)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ConvShape shape,
        PrepareMaxPoolGrad(pool.attrs, ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                           ctx.input(2).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    const element::MaxPoolGradItem<char> item{InputBytes(ctx, 0), InputBytes(ctx, 2),
                                              OutputBytes(out), PoolSizesOf(shape), relu};
    return Enqueue(pool, ctx, item, out);
  });
}

absl::StatusOr<KernelFn> MakeAvgPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Pool pool, MakePool(init));
  return KernelFn([pool = std::move(pool)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ConvShape shape,
        PrepareAvgPoolGrad(pool.attrs, ctx.input(0), ctx.input(1).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    const element::AvgPoolGradItem<char> item{InputBytes(ctx, 1), OutputBytes(out),
                                              PoolSizesOf(shape)};
    return Enqueue(pool, ctx, item, out);
  });
}

}  // namespace

void RegisterPoolKernels(KernelRegistry& registry) {
  registry.Add("AvgPool", &MakeForward<element::AvgPoolItem>);
  registry.Add("AvgPoolGrad", &MakeAvgPoolGrad);
  registry.Add("MaxPool", &MakeForward<element::MaxPoolItem>);
  registry.Add("MaxPoolGrad", &MakeMaxPoolGrad);
}

}  // namespace formwork
