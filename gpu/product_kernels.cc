// MatMul and BatchMatMul on a GPU, with what an epilogue adds to them.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
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
        Multiply(ctx, geometry, x, y, {x.raw(), y.raw(), bias, residual, out.mutable_raw()}));
    return product_.Activate(ctx, out);
  }

 private:
  // By batches, as long as each operand is one matrix or as many as the result; else one by one.
  absl::Status Multiply(KernelContext& ctx, const ProductGeometry& geometry, const Tensor& x,
                        const Tensor& y, const ProductOperands& all) const {
    const int64_t x_elements = geometry.m * geometry.k, y_elements = geometry.k * geometry.n;
    const int64_t count = CountElements(geometry.batch());
    const int64_t x_count = x.num_elements() / x_elements, y_count = y.num_elements() / y_elements;
    ProductSize size{geometry.m, geometry.n, geometry.k};
    if ((x_count == 1 || x_count == count) && (y_count == 1 || y_count == count)) {
      // One matrix y for many of x is one product of more rows.
      if (y_count == 1 && x_count == count && !attrs_.transpose_x) {
        size.m *= count;
      } else {
        size.count = count;
        size.x_stride = x_count == 1 ? 0 : x_elements;
        size.y_stride = y_count == 1 ? 0 : y_elements;
      }
      return product_.Enqueue(ctx, size, all);
    }
    // The matrix of an operand that one of the result is of.
    const auto matrix = [&](const Tensor& operand, int64_t of_result) {
      int64_t number = 0, step = 1;
      for (int d = 3; d <= static_cast<int>(geometry.output.size()); ++d) {
        const int64_t dim = geometry.output[geometry.output.size() - static_cast<size_t>(d)];
        const int64_t own = d <= operand.rank() ? operand.dim(operand.rank() - d) : 1;
        if (own != 1) number += of_result % dim * step;
        of_result /= dim;
        step *= own;
      }
      return number;
    };
    const size_t bytes = DTypeSize(x.dtype());
    const auto at = [bytes](const void* first, int64_t elements) -> const void* {
      return first == nullptr
                 ? nullptr
                 : static_cast<const char*>(first) + static_cast<size_t>(elements) * bytes;
    };
    for (int64_t b = 0; b < count; ++b) {
      const int64_t of_out = b * geometry.m * geometry.n;
      FORMWORK_RETURN_IF_ERROR(product_.Enqueue(
          ctx, size,
          {at(all.x, matrix(x, b) * x_elements), at(all.y, matrix(y, b) * y_elements), all.bias,
           at(all.residual, of_out),
           static_cast<char*>(all.out) + static_cast<size_t>(of_out) * bytes}));
    }
    return absl::OkStatus();
  }

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
