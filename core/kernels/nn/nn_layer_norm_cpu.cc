#include "core/base/status.h"
#include "core/kernels/nn/layer_norm_loops.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/ops/nn.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeLayerNorm(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (dtype != DType::kFloat) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const float epsilon, init.attrs().Get<float>("epsilon"));
  return KernelFn([epsilon](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    const Shape shape = x.shape();
    FORMWORK_RETURN_IF_ERROR(
        CheckLayerNorm(shape.dims(), ctx.input(1).shape().dims(), ctx.input(2).shape().dims()));
    const float* from = x.data<float>();
    const float* scale = ctx.input(1).data<float>();
    const float* offset = ctx.input(2).data<float>();
    Tensor* y = nullptr;
    if (scale == from || offset == from) {
      FORMWORK_ASSIGN_OR_RETURN(y, ctx.AllocateOutput(0, DType::kFloat, shape));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(y, ctx.ForwardOrAllocate({0}, 0, DType::kFloat, shape));
    }
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t n = shape.dim(shape.rank() - 1);
    LayerNormRows(shape.num_elements() / n, n, from, scale, offset, epsilon,
                  y->mutable_data<float>());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterLayerNormKernel(KernelRegistry& registry) {
  registry.Add("_MklLayerNorm", MakeLayerNorm);
}

}  // namespace formwork
