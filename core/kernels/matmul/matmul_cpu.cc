#include <memory>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/matmul/batch_matmul.h"
#include "core/kernels/matmul/product_by_weights.h"
#include "core/kernels/register_cpu_kernels.h"

namespace formwork {

void RegisterEinsumKernel(KernelRegistry& registry);  // einsum_cpu.cc

namespace {

absl::Status CheckDType(KernelInit& init) {
  for (DType dtype : init.input_dtypes()) {
    if (!CanMultiply(dtype)) {
      return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMatrices(const Tensor& a, const Tensor& b) {
  if (a.rank() != b.rank()) {
    return InvalidArgument("In[0] and In[1] has different ndims: ", a.shape().ToString(), " vs. ",
                           b.shape().ToString());
  }
  if (a.rank() != 2) return InvalidArgument("In[0] and In[1] ndims must be == 2: ", a.rank());
  return absl::OkStatus();
}

// Of floats, nothing transposed.
absl::StatusOr<KernelFn> MakeMatMulByWeights(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  auto product = std::make_unique<ProductByWeights>(epilogue, ByWeights(init.attrs()));
  return KernelFn([product = std::move(product)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckMatrices(ctx.input(0), ctx.input(1)));
    return product->Run(ctx);
  });
}

absl::StatusOr<KernelFn> MakeMatMul(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  const MatrixSide a_side = {init.attrs().GetOr("transpose_a", false), false};
  const MatrixSide b_side = {init.attrs().GetOr("transpose_b", false), false};
  if (!a_side.transpose && !b_side.transpose && init.input_dtypes()[0] == DType::kFloat) {
    return MakeMatMulByWeights(init);
  }
  return KernelFn([a_side, b_side](KernelContext& ctx) -> absl::Status {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckMatrices(a, b));
    FORMWORK_ASSIGN_OR_RETURN(Tensor product, Multiply(ctx.allocator(), a, a_side, b, b_side));
    ctx.SetOutput(0, std::move(product));
    return absl::OkStatus();
  });
}

// BatchMatMul takes equal batch dimensions alone, its later versions broadcast them.
template <bool kBroadcasts>
absl::Status CheckRanks(const Tensor& x, const Tensor& y) {
  if (!kBroadcasts && x.rank() != y.rank()) {
    return InvalidArgument("In[0] and In[1] has different ndims: ", x.shape().ToString(), " vs. ",
                           y.shape().ToString());
  }
  if (x.rank() < 2) return InvalidArgument("In[0] ndims must be >= 2: ", x.rank());
  if (y.rank() < 2) return InvalidArgument("In[1] ndims must be >= 2: ", y.rank());
  if (!kBroadcasts) {
    for (int d = 0; d < x.rank() - 2; ++d) {
      if (x.dim(d) != y.dim(d)) {
        return InvalidArgument("In[0].dim(", d, ") and In[1].dim(", d,
                               ") must be the same: ", x.shape().ToString(), " vs ",
                               y.shape().ToString());
      }
    }
  }
  return absl::OkStatus();
}

template <bool kBroadcasts>
absl::StatusOr<KernelFn> MakeBatchMatMul(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  const bool adj_x = init.attrs().GetOr("adj_x", false);
  const bool adj_y = init.attrs().GetOr("adj_y", false);
  const bool complex = IsComplex(init.input_dtypes()[0]);
  const MatrixSide x_side = {adj_x, adj_x && complex};
  const MatrixSide y_side = {adj_y, adj_y && complex};
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  std::unique_ptr<ProductByWeights> by_weights;
  if (kBroadcasts && !adj_x && !adj_y && init.input_dtypes()[0] == DType::kFloat) {
    by_weights = std::make_unique<ProductByWeights>(epilogue, ByWeights(init.attrs()));
  }
  return KernelFn(
      [x_side, y_side, by_weights = std::move(by_weights)](KernelContext& ctx) -> absl::Status {
        FORMWORK_RETURN_IF_ERROR(CheckRanks<kBroadcasts>(ctx.input(0), ctx.input(1)));
        if (by_weights != nullptr && ctx.input(1).rank() == 2) return by_weights->Run(ctx);
        FORMWORK_ASSIGN_OR_RETURN(
            Tensor product, Multiply(ctx.allocator(), ctx.input(0), x_side, ctx.input(1), y_side));
        ctx.SetOutput(0, std::move(product));
        return absl::OkStatus();
      });
}

// int8 and uint8 as int32.
absl::StatusOr<Tensor> BytesAsInt32(Allocator& allocator, const Tensor& bytes) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(allocator, DType::kInt32, bytes.shape()));
  int32_t* to = wide.mutable_data<int32_t>();
  const bool is_signed = bytes.dtype() == DType::kInt8;
  ParallelFor(bytes.num_elements(), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = is_signed ? int32_t{bytes.data<int8_t>()[i]} : int32_t{bytes.data<uint8_t>()[i]};
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
  if (out != DType::kInt32 || !IsByte(x_dtype) || !IsByte(y_dtype)) {
    return Unimplemented(init.op().name, ": ", DTypeName(x_dtype), " times ", DTypeName(y_dtype),
                         " into ", DTypeName(out), " is not supported");
  }
  const MatrixSide x_side = {init.attrs().GetOr("adj_x", false), false};
  const MatrixSide y_side = {init.attrs().GetOr("adj_y", false), false};
  return KernelFn([x_side, y_side](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckRanks<true>(ctx.input(0), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor x, BytesAsInt32(ctx.allocator(), ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor y, BytesAsInt32(ctx.allocator(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor product, Multiply(ctx.allocator(), x, x_side, y, y_side));
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
  RegisterEinsumKernel(registry);
}

}  // namespace formwork
