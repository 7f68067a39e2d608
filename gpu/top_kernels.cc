// TopKV2 and InTopKV2 on a GPU: short rows by counting, others by picking what is wanted and
// ordering that, in a block's own memory or, where it is much, in all of the GPU's.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_source.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/top_items.h"

namespace formwork {
namespace {

namespace element = formwork_element;

// A block for each of `n` rows, or chunks.
absl::Status LaunchBlocks(cudaKernel_t kernel, uint64_t n, absl::Span<void* const> arguments,
                          cudaStream_t stream) {
  return LaunchOver(kernel, n * element::kTopThreads, element::kTopThreads, arguments, stream);
}

class TopKernel {
 public:
  TopKernel(DType dtype, DType index)
      : dtype_(dtype),
        source_(TopSource(dtype, index)),
        ranks_(TopItemSource(TopItemName("RankItem", dtype, index)), ItemKernel::OfText()),
        picked_(TopItemSource(TopItemName("PickedItem", dtype, index)), ItemKernel::OfText()),
        order_(TopItemSource(OrderItemName(dtype)), ItemKernel::OfText()) {}

  // What only large calls need is compiled with the first of them.
  absl::Status Prepare() {
    FORMWORK_ASSIGN_OR_RETURN(top_, CudaKernelOf(source_, "top"));
    FORMWORK_ASSIGN_OR_RETURN(order_chunks_, CudaKernelOf(source_, "order"));
    return ranks_.Prepare();
  }

  absl::Status Run(KernelContext& ctx, const TopKGeometry& geometry) {
    Tensor values = OutputOf(ctx, 0), indices = OutputOf(ctx, 1);
    if (values.num_elements() == 0) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const TopPlan plan, PlanTop(geometry.columns, geometry.k));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    const auto count = static_cast<uint64_t>(values.num_elements() / geometry.k);
    FORMWORK_ASSIGN_OR_RETURN(const Buffer picked,
                              ScratchOf(ctx, plan.picked(count) * CandidateBytes(dtype_)));
    // Of any types: pointers and numbers alone.
    auto rows = TopRowsOf<float, int32_t>(geometry, plan, ctx.input(0), values, indices,
                                          picked ? picked.data() : nullptr);
    if (plan.way == TopPlan::Way::kByRank) {
      return ranks_.Enqueue(element::RankItem<float, int32_t>{rows}, rows.rows * rows.n, {},
                            stream);
    }
    void* const arguments[] = {&rows};
    FORMWORK_RETURN_IF_ERROR(LaunchBlocks(top_, rows.rows, arguments, stream));
    if (plan.way == TopPlan::Way::kByBlock) return absl::OkStatus();
    for (const OrderStep& step : OrderSteps(plan.padded)) {
      element::OrderItem<uint32_t> item{rows.picked, plan.padded, step.size, step.stride};
      if (step.by_chunks) {
        uint64_t chunks = plan.picked(count) / element::kTopSorted, from = step.from;
        void* const of_chunks[] = {&item, &chunks, &from};
        FORMWORK_RETURN_IF_ERROR(LaunchBlocks(order_chunks_, chunks, of_chunks, stream));
      } else {
        FORMWORK_RETURN_IF_ERROR(order_.Enqueue(item, plan.picked(count) / 2, {}, stream));
      }
    }
    return picked_.Enqueue(element::PickedItem<float, int32_t>{rows},
                           static_cast<uint64_t>(values.num_elements()), {}, stream);
  }

 private:
  const DType dtype_;
  const std::string source_;
  ItemKernel ranks_, picked_, order_;
  cudaKernel_t top_ = nullptr, order_chunks_ = nullptr;
};

absl::StatusOr<KernelFn> MakeTopK(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0], index = init.output_dtypes()[1];
  if (ElementTypeName(dtype).empty() || ElementTypeName(index).empty()) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  auto kernel = std::make_unique<TopKernel>(dtype, index);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TopKGeometry geometry,
                              PrepareTopK(ctx.input(0).shape().dims(), &ctx.input(1)));
    return kernel->Run(ctx, geometry);
  });
}

absl::StatusOr<KernelFn> MakeInTopK(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel,
                            CudaKernelOf(InTopSource(init.input_dtypes()[1]), "in_top"));
  return KernelFn([kernel](KernelContext& ctx) -> absl::Status {
    const Tensor& predictions = ctx.input(0);
    const Tensor& targets = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckInTopK(predictions.shape().dims(), targets.shape().dims(),
                                         ctx.input(2).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    // Of any type of targets.
    auto rows = InTopRowsOf<int32_t>(predictions, targets, ctx.input(2), out);
    if (rows.rows == 0) return absl::OkStatus();
    void* const arguments[] = {&rows};
    return LaunchBlocks(kernel, rows.rows, arguments, CudaStreamOf(StreamOf(ctx)));
  });
}

}  // namespace

void RegisterTopKernels(KernelRegistry& registry) {
  registry.Add("TopKV2", &MakeTopK);
  registry.Add("InTopKV2", &MakeInTopK);
}

}  // namespace formwork
