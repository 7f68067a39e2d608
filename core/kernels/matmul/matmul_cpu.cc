#include <memory>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/matmul/batch_matmul.h"
#include "core/kernels/matmul/product_by_weights.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/widen.h"

namespace formwork {

void RegisterEinsumKernel(KernelRegistry& registry);      // einsum_cpu.cc
void RegisterGateMatMulKernel(KernelRegistry& registry);  // gate_matmul_cpu.cc

namespace {

absl::Status CheckDType(KernelInit& init) {
  for (DType dtype : init.input_dtypes()) {
    if (!CanMultiply(dtype)) {
      return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
    }
  }
  return absl::OkStatus();
}

// Of floats, nothing transposed.
absl::StatusOr<KernelFn> MakeMatMulByWeights(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  auto product = std::make_unique<ProductByWeights>(epilogue, ByWeights(init.attrs()));
  return KernelFn([product = std::move(product)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ProductGeometry geometry,
        PrepareMatMul({}, ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    return product->Run(ctx, geometry);
  });
}

absl::StatusOr<KernelFn> MakeMatMul(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfMatMul(init.attrs()));
  if (!attrs.transpose_x && !attrs.transpose_y && init.input_dtypes()[0] == DType::kFloat) {
    return MakeMatMulByWeights(init);
  }
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ProductGeometry geometry,
                              PrepareMatMul(attrs, a.shape().dims(), b.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                              Multiply(ctx.allocator(), geometry, a, {attrs.transpose_x, false}, b,
                                       {attrs.transpose_y, false}));
    ctx.SetOutput(0, std::move(product));
    return absl::OkStatus();
  });
}

template <bool kBroadcast>
absl::StatusOr<KernelFn> MakeBatchMatMul(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfBatchMatMul(init.attrs()));
  const bool complex = IsComplex(init.input_dtypes()[0]);
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  std::unique_ptr<ProductByWeights> by_weights;
  if (kBroadcast && !attrs.transpose_x && !attrs.transpose_y &&
      init.input_dtypes()[0] == DType::kFloat) {
    by_weights = std::make_unique<ProductByWeights>(epilogue, ByWeights(init.attrs()));
  }
  return KernelFn(
      [attrs, complex, by_weights = std::move(by_weights)](KernelContext& ctx) -> absl::Status {
        const Tensor& x = ctx.input(0);
        const Tensor& y = ctx.input(1);
        FORMWORK_ASSIGN_OR_RETURN(
            const ProductGeometry geometry,
            PrepareBatchMatMul(attrs, kBroadcast, x.shape().dims(), y.shape().dims()));
        if (by_weights != nullptr && y.rank() == 2) return by_weights->Run(ctx, geometry);
        const MatrixSide x_side = {attrs.transpose_x, attrs.transpose_x && complex};
        const MatrixSide y_side = {attrs.transpose_y, attrs.transpose_y && complex};
        FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                                  Multiply(ctx.allocator(), geometry, x, x_side, y, y_side));
        ctx.SetOutput(0, std::move(product));
        return absl::OkStatus();
      });
}

// int8 and uint8 as int32 or float.
template <typename T>
absl::StatusOr<Tensor> BytesAs(Allocator& allocator, const Tensor& bytes) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DTypeOf<T>::value, bytes.shape()));
  T* to = wide.mutable_data<T>();
  const bool is_signed = bytes.dtype() == DType::kInt8;
  ParallelFor(bytes.num_elements(), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = is_signed ? static_cast<T>(bytes.data<int8_t>()[i])
                        : static_cast<T>(bytes.data<uint8_t>()[i]);
    }
  });
  return wide;
}

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }

absl::StatusOr<KernelFn> MakeBatchMatMulV3(KernelInit& init) {
  const DType out = init.output_dtypes()[0];
  const DType x_dtype = init.input_dtypes()[0];
  const DType y_dtype = init.input_dtypes()[1];
  if (x_dtype == out && y_dtype == out) return MakeBatchMatMul<true>(init);
  const bool bytes = out == DType::kInt32 && IsByte(x_dtype) && IsByte(y_dtype);
  const bool mixed = out == DType::kBfloat16 &&
                     (x_dtype == out ? IsByte(y_dtype) : y_dtype == out && IsByte(x_dtype));
  if (!bytes && !mixed) {
    return Unimplemented(init.op().name, ": ", DTypeName(x_dtype), " times ", DTypeName(y_dtype),
                         " into ", DTypeName(out), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfBatchMatMul(init.attrs()));
  return KernelFn([attrs, bytes](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ProductGeometry geometry,
        PrepareBatchMatMul(attrs, /*broadcast=*/true, ctx.input(0).shape().dims(),
                           ctx.input(1).shape().dims()));
    auto wide = [&](int i) -> absl::StatusOr<Tensor> {
      const Tensor& input = ctx.input(i);
      if (bytes) return BytesAs<int32_t>(ctx.allocator(), input);
      return IsByte(input.dtype()) ? BytesAs<float>(ctx.allocator(), input)
                                   : Widened(ctx.allocator(), input);
    };
    FORMWORK_ASSIGN_OR_RETURN(Tensor x, wide(0));
    FORMWORK_ASSIGN_OR_RETURN(Tensor y, wide(1));
    FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                              Multiply(ctx.allocator(), geometry, x, {attrs.transpose_x, false}, y,
                                       {attrs.transpose_y, false}));
    if (bytes) {
      ctx.SetOutput(0, std::move(product));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out,
                              ctx.AllocateOutput(0, DType::kBfloat16, product.shape()));
    NarrowTo(DType::kBfloat16, product.data<float>(), product.num_elements(), out->mutable_raw());
    return absl::OkStatus();
  });
}

// Of floats and bfloat16s, into floats.
absl::StatusOr<KernelFn> MakeSparseMatMul(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ProductAttrs attrs, ProductAttrs::OfMatMul(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ProductGeometry geometry,
        PrepareMatMul(attrs, ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor a, Widened(ctx.allocator(), ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor b, Widened(ctx.allocator(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                              Multiply(ctx.allocator(), geometry, a, {attrs.transpose_x, false}, b,
                                       {attrs.transpose_y, false}));
    ctx.SetOutput(0, std::move(product));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterMatmulCpuKernels(KernelRegistry& registry) {
  registry.Add("MatMul", MakeMatMul);
  registry.Add("BatchMatMul", MakeBatchMatMul<false>);
  registry.Add("BatchMatMulV2", MakeBatchMatMul<true>);
  registry.Add("BatchMatMulV3", MakeBatchMatMulV3);
  registry.Add("SparseMatMul", MakeSparseMatMul);
  RegisterEinsumKernel(registry);
  RegisterGateMatMulKernel(registry);
}

}  // namespace formwork
