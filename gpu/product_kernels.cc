// MatMul and BatchMatMul on a GPU, with what an epilogue adds to them.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/matrix_product.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

class ProductKernel {
 public:
  ProductKernel(ProductAttrs attrs, bool by_batch, bool broadcast, Epilogue epilogue, DType dtype)
      : attrs_(attrs),
        by_batch_(by_batch),
        broadcast_(broadcast),
        epilogue_(epilogue),
        product_(attrs, epilogue, dtype) {}

  absl::Status Prepare() { return product_.Prepare(); }

  absl::Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    const Tensor& y = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const ProductGeometry geometry,
        by_batch_ ? PrepareBatchMatMul(attrs_, broadcast_, x.shape().dims(), y.shape().dims())
                  : PrepareMatMul(attrs_, x.shape().dims(), y.shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    if (geometry.k == 0) {
      if (epilogue_.bias || epilogue_.residual) {
        return Unimplemented("a sum with a product over no elements on a GPU");
      }
      // Zeros, and so is what an activation makes of them.
      FORMWORK_CUDA_RETURN_IF_ERROR(
          cudaMemsetAsync(out.mutable_raw(), 0, out.bytes(), CudaStreamOf(StreamOf(ctx))));
      return absl::OkStatus();
    }
    int operand = 2;
    const void* const bias = epilogue_.bias ? ctx.input(operand++).raw() : nullptr;
    const void* const residual = epilogue_.residual ? ctx.input(operand++).raw() : nullptr;
    FORMWORK_RETURN_IF_ERROR(
        product_.EnqueueAll(ctx, geometry, x.shape().dims(), y.shape().dims(),
                            {x.raw(), y.raw(), bias, residual, out.mutable_raw()}));
    return product_.Activate(ctx, out);
  }

 private:
  const ProductAttrs attrs_;
  const bool by_batch_, broadcast_;
  const Epilogue epilogue_;
  MatrixProduct product_;
};

template <bool kByBatch, bool kBroadcast>
absl::StatusOr<KernelFn> MakeProduct(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(
      const ProductAttrs attrs,
      kByBatch ? ProductAttrs::OfBatchMatMul(init.attrs()) : ProductAttrs::OfMatMul(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  for (const DType other : init.input_dtypes()) {
    if (!MatrixProduct::Takes(other) || other != dtype || init.output_dtypes()[0] != dtype) {
      return Unimplemented(init.op().name, " of ", DTypeName(other), " on a GPU");
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  if (epilogue.scale) return Unimplemented("a product with factors on a GPU");
  auto kernel = std::make_unique<ProductKernel>(attrs, kByBatch, kBroadcast, epilogue, dtype);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) { return kernel->Run(ctx); });
}

}  // namespace

void RegisterProductKernels(KernelRegistry& registry) {
  registry.Add("MatMul", &MakeProduct<false, false>);
  registry.Add("BatchMatMul", &MakeProduct<true, false>);
  registry.Add("BatchMatMulV2", &MakeProduct<true, true>);
  registry.Add("BatchMatMulV3", &MakeProduct<true, true>);
}

}  // namespace formwork
