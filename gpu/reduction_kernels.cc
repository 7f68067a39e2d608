// Reductions on a GPU: one pass over memory, or two where the outputs are few.

#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/ops/nn.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_source.h"
#include "gpu/item_kernel.h"
#include "gpu/reduction_plan.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

constexpr unsigned kBlock = 256;

class ReductionKernel {
 public:
  ReductionKernel(const ReductionOp& op, DType in, DType out) : op_(op), in_(in), out_(out) {}

  absl::Status Prepare() { return Kernel(/*first=*/true, /*last=*/true).status(); }

  absl::Status Run(KernelContext& ctx, const ReducedMask& reduced) {
    const Tensor& input = ctx.input(0);
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const ReductionPlan plan = PlanReduction(input.shape().dims(), reduced);
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    const void* from = input.raw();
    Buffer together, partial;  // Freed behind what reads them.
    if (plan.together) {
      FORMWORK_ASSIGN_OR_RETURN(together, ScratchOf(ctx, input.bytes()));
      FORMWORK_ASSIGN_OR_RETURN(const UnitCopy copy, UnitCopyOf(*plan.together, DTypeSize(in_)));
      FORMWORK_RETURN_IF_ERROR(EnqueueUnitCopy(copy, from, together.data(), {}, stream));
      from = together.data();
    }
    for (size_t i = 0; i < plan.passes.size(); ++i) {
      const ReducePass& pass = plan.passes[i];
      const bool first = i == 0, last = i + 1 == plan.passes.size();
      void* to = out.mutable_raw();
      if (!last) {
        FORMWORK_ASSIGN_OR_RETURN(partial, ScratchOf(ctx, pass.outputs() * PartialBytes(op_, in_)));
        to = partial.data();
      }
      FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, Kernel(first, last));
      void* const arguments[] = {&from, &to,
                                 const_cast<formwork_element::ReduceSizes*>(&pass.sizes),
                                 const_cast<formwork_element::ReduceBlock*>(&pass.block)};
      FORMWORK_RETURN_IF_ERROR(
          LaunchOver(kernel, pass.outputs() * pass.block.lanes, kBlock, arguments, stream));
      from = to;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<cudaKernel_t> Kernel(bool first, bool last) {
    std::atomic<cudaKernel_t>& known = kernels_[(first ? 1 : 0) + (last ? 2 : 0)];
    if (const cudaKernel_t kernel = known.load(std::memory_order_acquire)) return kernel;
    FORMWORK_ASSIGN_OR_RETURN(
        const cudaKernel_t kernel,
        CudaKernelOf(ReduceSource(op_, in_, out_, first, last), kReduceKernel));
    known.store(kernel, std::memory_order_release);
    return kernel;
  }

  const ReductionOp& op_;
  const DType in_, out_;
  std::array<std::atomic<cudaKernel_t>, 4> kernels_{};
};

absl::StatusOr<std::unique_ptr<ReductionKernel>> MakeKernel(KernelInit& init) {
  const ReductionOp& op = *FindReductionOp(init.op().name);  // Registered by the same table.
  const DType dtype = init.input_dtypes()[0];
  if (!op.Takes(dtype)) return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  auto kernel = std::make_unique<ReductionKernel>(op, dtype, init.output_dtypes()[0]);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

absl::StatusOr<KernelFn> MakeReduction(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ReductionAttrs attrs, ReductionAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, MakeKernel(init));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ReductionGeometry geometry,
                              PrepareReduction(attrs, ctx.input(0).shape().dims(), ctx.input(1)));
    return kernel->Run(ctx, geometry.reduced);
  });
}

absl::StatusOr<KernelFn> MakeArgReduction(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, MakeKernel(init));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const absl::Span<const int64_t> dims = ctx.input(0).shape().dims();
    FORMWORK_ASSIGN_OR_RETURN(const ArgReductionGeometry geometry,
                              PrepareArgReduction(dims, ctx.input(1)));
    ReducedMask reduced(dims.size(), false);
    if (!reduced.empty()) reduced[static_cast<size_t>(geometry.axis)] = true;
    return kernel->Run(ctx, reduced);
  });
}

absl::StatusOr<KernelFn> MakeL2Loss(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, MakeKernel(init));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) {
    return kernel->Run(ctx, ReducedMask(static_cast<size_t>(ctx.input(0).rank()), true));
  });
}

template <bool kLog>
absl::StatusOr<KernelFn> MakeSoftmax(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (ElementTypeName(dtype).empty() || IsInteger(dtype) || dtype == DType::kBool) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel,
                            CudaKernelOf(SoftmaxSource(dtype, kLog), "softmax"));
  return KernelFn([kernel](KernelContext& ctx) -> absl::Status {
    const Tensor& logits = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckSoftmax(logits.shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const void* from = logits.raw();
    void* to = out.mutable_raw();
    auto n = static_cast<uint64_t>(logits.dim(logits.rank() - 1));
    uint64_t rows = static_cast<uint64_t>(logits.num_elements()) / n;
    formwork_element::ReduceBlock block = SoftmaxBlock(static_cast<int64_t>(n));
    void* const arguments[] = {&from, &to, &rows, &n, &block};
    return LaunchOver(kernel, rows * block.lanes, kBlock, arguments, CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeLayerNorm(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const float epsilon, init.attrs().Get<float>("epsilon"));
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel,
                            CudaKernelOf(LayerNormSource(init.input_dtypes()[0]), "layer_norm"));
  return KernelFn([epsilon, kernel](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(
        CheckLayerNorm(x.shape().dims(), ctx.input(1).shape().dims(), ctx.input(2).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const int64_t n = x.dim(x.rank() - 1);
    const auto at = [&](int i) { return static_cast<const char*>(ctx.input(i).raw()); };
    formwork_element::LayerNormRows<char> rows{at(0),
                                               at(1),
                                               at(2),
                                               static_cast<char*>(out.mutable_raw()),
                                               static_cast<uint64_t>(x.num_elements() / n),
                                               static_cast<uint64_t>(n),
                                               epsilon};
    formwork_element::ReduceBlock block = SoftmaxBlock(n);
    void* const arguments[] = {&rows, &block};
    return LaunchOver(kernel, rows.rows * block.lanes, kBlock, arguments,
                      CudaStreamOf(StreamOf(ctx)));
  });
}

// Sums of all but the channels.
absl::StatusOr<KernelFn> MakeBiasAddGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, MakeKernel(init));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Shape& value = ctx.input(0).shape();
    FORMWORK_RETURN_IF_ERROR(PrepareBiasAddGrad(attrs, value.dims()).status());
    const auto rank = static_cast<size_t>(value.rank());
    ReducedMask reduced(rank, true);
    reduced[attrs.channels_first ? 1 : rank - 1] = false;
    return kernel->Run(ctx, reduced);
  });
}

}  // namespace

void RegisterReductionKernels(KernelRegistry& registry) {
  registry.Add("_MklLayerNorm", &MakeLayerNorm);
  registry.Add("Softmax", &MakeSoftmax<false>);
  registry.Add("LogSoftmax", &MakeSoftmax<true>);
  for (const ReductionOp& op : ReductionOps()) {
    if (op.op == "ArgMax" || op.op == "ArgMin") {
      registry.Add(op.op, &MakeArgReduction);
    } else if (op.op == "L2Loss") {
      registry.Add(op.op, &MakeL2Loss);
    } else if (op.op == "BiasAddGrad") {
      registry.Add(op.op, &MakeBiasAddGrad);
    } else {
      registry.Add(op.op, &MakeReduction);
    }
  }
}

}  // namespace formwork
