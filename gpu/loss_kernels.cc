// Cross entropies of softmaxes on a GPU. A label that is out of range fails its step by the call's
// word.

#include <utility>

#include "core/base/status.h"
#include "core/kernels/enqueued_work.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_source.h"
#include "gpu/loss_rows.h"
#include "gpu/reduction_plan.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

constexpr unsigned kBlock = 256;

absl::StatusOr<cudaKernel_t> KernelFor(const KernelInit& init, DType labels) {
  const DType dtype = init.input_dtypes()[0];
  if (!IsFloating(dtype) || ElementTypeName(dtype).empty()) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  return CudaKernelOf(LossSource(dtype, labels), "loss");
}

// `labels`: of any type, like the logits: pointers and numbers alone.
template <typename Labels>
absl::Status Enqueue(cudaKernel_t kernel, KernelContext& ctx, const CrossEntropyGeometry& geometry,
                     const Labels& labels, FailurePlace place) {
  Tensor loss = OutputOf(ctx, 0), backprop = OutputOf(ctx, 1);
  if (geometry.rows == 0) return absl::OkStatus();
  element::LossRows<char, Labels> rows = LossRowsOf<char>(
      geometry, ctx.input(0), labels, loss, backprop, element::MayFailItem{place.word, place.step});
  element::ReduceBlock block = SoftmaxBlock(geometry.classes);
  void* const arguments[] = {&rows, &block, &place.word, &place.step};
  return LaunchOver(kernel, rows.rows * block.lanes, kBlock, arguments,
                    CudaStreamOf(StreamOf(ctx)));
}

absl::StatusOr<KernelFn> MakeSparseCrossEntropy(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, KernelFor(init, init.input_dtypes()[1]));
  return KernelFn([kernel](KernelContext& ctx) -> absl::Status {
    const Tensor& labels = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const CrossEntropyGeometry geometry,
        PrepareSparseCrossEntropy(ctx.input(0).shape().dims(), labels.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place,
                              MayFail(ctx, [classes = geometry.classes](uint64_t where) {
                                return LabelOutOfRange(where, classes);
                              }));
    const element::SparseLabels<char> of{static_cast<const char*>(labels.raw())};
    return Enqueue(kernel, ctx, geometry, of, place);
  });
}

absl::StatusOr<KernelFn> MakeCrossEntropy(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, KernelFor(init, DType::kInvalid));
  return KernelFn([kernel](KernelContext& ctx) -> absl::Status {
    const Tensor& labels = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const CrossEntropyGeometry geometry,
        PrepareCrossEntropy(ctx.input(0).shape().dims(), labels.shape().dims()));
    return Enqueue(kernel, ctx, geometry, BroadcastRowsOf<char>(labels, geometry), {});
  });
}

}  // namespace

void RegisterLossKernels(KernelRegistry& registry) {
  registry.Add("SparseSoftmaxCrossEntropyWithLogits", &MakeSparseCrossEntropy);
  registry.Add("SoftmaxCrossEntropyWithLogits", &MakeCrossEntropy);
}

}  // namespace formwork
