// FusedBatchNormV3 and its gradient on a GPU. Nothing is added by atomic operations.

#include <array>
#include <initializer_list>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/norm_items.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

struct Norm {
  BatchNormAttrs attrs;
  std::array<std::unique_ptr<ItemKernel>, kNormStages> kernels;

  ItemKernel& Of(NormStage stage) const { return *kernels[static_cast<size_t>(stage)]; }
  // What RunNormForward and RunNormGradient run their items by.
  auto RunOn(cudaStream_t stream) const {
    return [this, stream](NormStage stage, const auto& item, uint64_t n) {
      return Of(stage).Enqueue(item, n, {}, stream);
    };
  }
};

absl::StatusOr<Norm> MakeNorm(const KernelInit& init, BatchNormAttrs attrs, DType statistics,
                              std::initializer_list<NormStage> stages) {
  const DType dtype = init.input_dtypes()[0];
  if (statistics != DType::kFloat) {
    return Unimplemented(init.op().name, " with statistics of ", DTypeName(statistics),
                         " on a GPU");
  }
  Norm norm;
  norm.attrs = attrs;
  for (const NormStage stage : stages) {
    auto kernel = std::make_unique<ItemKernel>(NormItemName(stage, dtype), NormText());
    FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
    norm.kernels[static_cast<size_t>(stage)] = std::move(kernel);
  }
  return norm;
}

const float* Channels(KernelContext& ctx, int i) {
  return static_cast<const float*>(ctx.input(i).raw());
}
void* Out(KernelContext& ctx, int i) { return OutputOf(ctx, i).buffer().data(); }
float* OutChannels(KernelContext& ctx, int i) { return static_cast<float*>(Out(ctx, i)); }

absl::Status Fill(KernelContext& ctx, std::initializer_list<int> outputs, int byte) {
  for (const int i : outputs) {
    Tensor output = OutputOf(ctx, i);
    if (output.bytes() == 0) continue;
    FORMWORK_CUDA_RETURN_IF_ERROR(
        cudaMemsetAsync(output.mutable_raw(), byte, output.bytes(), CudaStreamOf(StreamOf(ctx))));
  }
  return absl::OkStatus();
}

absl::Status Forward(const Norm& norm, KernelContext& ctx) {
  const BatchNormAttrs& attrs = norm.attrs;
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormGeometry geometry,
                            PrepareBatchNorm(attrs, ctx.input(0).shape().dims(),
                                             {.scale = ctx.input(1).shape().dims(),
                                              .offset = ctx.input(2).shape().dims(),
                                              .mean = ctx.input(3).shape().dims(),
                                              .variance = ctx.input(4).shape().dims()}));
  FORMWORK_RETURN_IF_ERROR(Fill(ctx, {5}, 0));
  if (ctx.input(0).num_elements() == 0) {
    FORMWORK_RETURN_IF_ERROR(Fill(ctx, {1, 2}, 0xff));  // NaN.
    return Fill(ctx, {3, 4}, 0);
  }
  const element::NormSizes sizes = NormSizesOf(geometry);
  FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, ScratchOf(ctx, NormScratch::BytesFor(sizes)));
  const NormScratch scratch(sizes, memory.data());
  const NormForward<char> forward{
      InputBytes(ctx, 0),
      static_cast<char*>(Out(ctx, 0)),
      Channels(ctx, 2),
      {Channels(ctx, 1), Channels(ctx, 3), Channels(ctx, 4), OutChannels(ctx, 1),
       OutChannels(ctx, 2), OutChannels(ctx, 3), OutChannels(ctx, 4), scratch.factor, attrs.epsilon,
       attrs.factor, attrs.needs_old()}};
  return RunNormForward(forward, attrs.is_training, sizes, scratch,
                        norm.RunOn(CudaStreamOf(StreamOf(ctx))));
}

absl::Status Gradient(const Norm& norm, KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      const BatchNormGeometry geometry,
      PrepareBatchNormGrad(norm.attrs, ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                           {.scale = ctx.input(2).shape().dims(),
                            .offset = {},
                            .mean = ctx.input(3).shape().dims(),
                            .variance = ctx.input(4).shape().dims()}));
  FORMWORK_RETURN_IF_ERROR(Fill(ctx, {3, 4}, 0));
  if (ctx.input(1).num_elements() == 0) return Fill(ctx, {1, 2}, 0);
  const element::NormSizes sizes = NormSizesOf(geometry);
  FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, ScratchOf(ctx, NormScratch::BytesFor(sizes)));
  const NormGradient<char> gradient{InputBytes(ctx, 0),  InputBytes(ctx, 1),
                                    Channels(ctx, 2),    Channels(ctx, 3),
                                    Channels(ctx, 4),    static_cast<char*>(Out(ctx, 0)),
                                    OutChannels(ctx, 1), OutChannels(ctx, 2)};
  return RunNormGradient(gradient, norm.attrs, sizes, NormScratch(sizes, memory.data()),
                         norm.RunOn(CudaStreamOf(StreamOf(ctx))));
}

absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfForward(init.attrs()));
  using enum NormStage;
  FORMWORK_ASSIGN_OR_RETURN(Norm norm,
                            attrs.is_training
                                ? MakeNorm(init, attrs, init.input_dtypes()[1],
                                           {kSums, kMean, kSquares, kStatistics, kScale})
                                : MakeNorm(init, attrs, init.input_dtypes()[1], {kGiven, kScale}));
  return KernelFn([norm = std::move(norm)](KernelContext& ctx) { return Forward(norm, ctx); });
}

absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfGradient(init.attrs()));
  using enum NormStage;
  FORMWORK_ASSIGN_OR_RETURN(Norm norm, MakeNorm(init, attrs, init.input_dtypes()[3],
                                                {kProducts, kCoefficients, kGradient}));
  return KernelFn([norm = std::move(norm)](KernelContext& ctx) { return Gradient(norm, ctx); });
}

}  // namespace

void RegisterNormKernels(KernelRegistry& registry) {
  registry.Add("FusedBatchNormGradV3", &MakeGradient);
  registry.Add("FusedBatchNormV3", &MakeForward);
}

}  // namespace formwork
