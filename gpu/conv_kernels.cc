// Convolutions of two spatial dimensions on a GPU, and their gradients: products of patches by the
// filter, or item by item (conv_items.h).

#include <array>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "core/ops/epilogue.h"
#include "gpu/conv_description.h"
#include "gpu/conv_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/cudnn_conv.h"
#include "gpu/element_kernel.h"
#include "gpu/item_kernel.h"
#include "gpu/matrix_product.h"
#include "gpu/register_kernels.h"
#include "gpu/tf32.h"

namespace formwork {
namespace {

namespace element = formwork_element;

// The kernels of one dtype, each compiled when it is first wanted.
class ConvItems {
 public:
  static ConvItems& Of(DType dtype) {
    static auto* const all =
        new std::array<ConvItems, 4>{ConvItems(DType::kFloat), ConvItems(DType::kDouble),
                                     ConvItems(DType::kHalf), ConvItems(DType::kBfloat16)};
    for (ConvItems& items : *all) {
      if (items.dtype_ == dtype) return items;
    }
    std::abort();  // MatrixProduct takes these dtypes.
  }

  // What RunConvByPatches and its like run their items by.
  auto RunOn(cudaStream_t stream) {
    return [this, stream](ConvStage stage, const auto& item, uint64_t n) {
      return Of<std::decay_t<decltype(item)>>(stage).Enqueue(item, n, {}, stream);
    };
  }
  // Of patches: of the widest units.
  absl::Status Prepare(ConvStage stage) {
    return (stage == ConvStage::kPatches ? patches_.Of(16) : At(stage)).Prepare();
  }

 private:
  explicit ConvItems(DType dtype)
      : dtype_(dtype),
        patches_(ConvItemName(ConvStage::kPatches, dtype), ">", ConvText()),
        others_{Named(ConvStage::kUnpatch), Named(ConvStage::kForward), Named(ConvStage::kInput),
                Named(ConvStage::kFilter), Named(ConvStage::kFilterSums)} {}

  ItemKernel Named(ConvStage stage) const {
    return ItemKernel(ConvItemName(stage, dtype_), ConvText());
  }
  ItemKernel& At(ConvStage stage) { return others_[static_cast<size_t>(stage) - 1]; }

  template <typename T>
  struct UnitOfPatches {
    static constexpr size_t kBytes = 0;
  };
  template <typename Unit>
  struct UnitOfPatches<element::PatchItem<Unit>> {
    static constexpr size_t kBytes = sizeof(Unit);
  };
  template <typename Item>
  ItemKernel& Of(ConvStage stage) {
    constexpr size_t kUnit = UnitOfPatches<Item>::kBytes;
    return kUnit > 0 ? patches_.Of(kUnit) : At(stage);
  }

  const DType dtype_;
  UnitKernels patches_;
  std::array<ItemKernel, kConvStages - 1> others_;  // By stage, from the one behind kPatches on.
};

// Of any element type, here and below: pointers and numbers alone.
const char* In(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : static_cast<const char*>(tensor->raw());
}
absl::Span<const int64_t> Dims(KernelContext& ctx, int i) { return ctx.input(i).shape().dims(); }

// What a node of a convolution, or of one of its gradients, keeps.
struct Conv {
  SlidingAttrs attrs;
  bool depthwise = false;
  DType dtype = DType::kInvalid;
  Epilogue epilogue;
  std::unique_ptr<MatrixProduct> product;
  std::unique_ptr<CudnnConv> cudnn;
  std::unique_ptr<ElementKernel> finish;  // The epilogue behind cuDNN, if there is one.

  // What `run` multiplies by.
  auto MultiplyIn(KernelContext& ctx, const void* bias = nullptr) const {
    return [this, &ctx, bias](const PatchProduct& p) {
      return product->Enqueue(ctx, {p.m, p.n, p.k}, {p.x, p.y, bias, p.residual, p.out});
    };
  }
  std::optional<PatchPlan> PlanOf(const ConvShape& shape) const {
    if (epilogue.scale) return std::nullopt;  // Of depthwise ones alone (FuseEpilogues).
    return PatchPlan::Of(shape, DTypeSize(dtype));
  }
  // Through cuDNN: whether it can. Not where images are the matrices of a product as they are, nor
  // where cuDNN would have to copy them: it has floats without TF32 only with channels first.
  absl::StatusOr<bool> ByCudnn(KernelContext& ctx, const ConvShape& shape,
                               const std::optional<PatchPlan>& plan, int first, int second,
                               Tensor& made) const {
    if (plan && (plan->are_images || !OnTensorCores())) return false;
    return cudnn->TryEnqueue(ctx, shape, InputBytes(ctx, first), InputBytes(ctx, second),
                             OutputBytes(made));
  }
  bool OnTensorCores() const {
    return DTypeSize(dtype) == 2 || (dtype == DType::kFloat && Tf32IsAllowed());
  }
  auto RunIn(KernelContext& ctx) const {
    return ConvItems::Of(dtype).RunOn(CudaStreamOf(StreamOf(ctx)));
  }
};

absl::StatusOr<Buffer> PatchesFor(KernelContext& ctx, const PatchPlan& plan) {
  return ScratchOf(ctx, plan.MemoryBytes());
}
char* MemoryOf(const Buffer& buffer) {
  return buffer ? static_cast<char*>(buffer.data()) : nullptr;
}

// --- Forward ------------------------------------------------------------------------------------

// The epilogue's operands, null where there is none.
struct EpilogueInputs {
  EpilogueInputs(const Epilogue& epilogue, KernelContext& ctx) {
    int next = 2;
    for (auto [is_there, operand] : {std::pair(epilogue.scale, &scale),
                                     {epilogue.bias, &bias},
                                     {epilogue.residual, &residual}}) {
      if (is_there) *operand = &ctx.input(next++);
    }
  }
  const Tensor* scale = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;
};

// The epilogue of what is in `out`.
absl::Status Finish(const Conv& conv, const EpilogueInputs& epilogue, KernelContext& ctx,
                    Tensor& out) {
  if (conv.finish == nullptr) return absl::OkStatus();
  const Tensor& result = out;
  absl::InlinedVector<const Tensor*, 4> operands = {&result};
  Tensor residual;
  if (epilogue.scale != nullptr) operands.push_back(epilogue.scale);
  if (epilogue.bias != nullptr) operands.push_back(epilogue.bias);
  if (epilogue.residual != nullptr) {
    residual = epilogue.residual->Reshaped(out.shape());
    operands.push_back(&residual);
  }
  return conv.finish->Enqueue(operands, out, CudaStreamOf(StreamOf(ctx)));
}

absl::Status Forward(const Conv& conv, KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                            conv.depthwise
                                ? PrepareDepthwise(conv.attrs, Dims(ctx, 0), Dims(ctx, 1))
                                : PrepareConv(conv.attrs, Dims(ctx, 0), Dims(ctx, 1)));
  Tensor out = OutputOf(ctx, 0);
  const auto elements = static_cast<uint64_t>(out.num_elements());
  const EpilogueInputs epilogue(conv.epilogue, ctx);
  const std::optional<PatchPlan> plan = conv.PlanOf(shape);
  FORMWORK_ASSIGN_OR_RETURN(const bool done, conv.ByCudnn(ctx, shape, plan, 0, 1, out));
  if (done) return Finish(conv, epilogue, ctx, out);
  if (!plan) {
    const element::ConvItem<char> item{
        InputBytes(ctx, 0),
        InputBytes(ctx, 1),
        OutputBytes(out),
        {In(epilogue.scale), In(epilogue.bias), In(epilogue.residual),
         static_cast<int32_t>(conv.epilogue.activation)},
        ConvSizesOf(shape)};
    return conv.RunIn(ctx)(ConvStage::kForward, item, elements);
  }
  FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, PatchesFor(ctx, *plan));
  FORMWORK_RETURN_IF_ERROR(RunConvByPatches(
      shape, *plan, InputBytes(ctx, 0), InputBytes(ctx, 1), In(epilogue.residual), OutputBytes(out),
      MemoryOf(memory), conv.RunIn(ctx), conv.MultiplyIn(ctx, In(epilogue.bias))));
  return conv.product->Activate(ctx, out);
}

// --- Gradients ----------------------------------------------------------------------------------

absl::Status InputGradient(const Conv& conv, KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      const ConvGradient gradient,
      conv.depthwise
          ? PrepareDepthwiseInputGradient(conv.attrs, ctx.input(0), Dims(ctx, 1), Dims(ctx, 2))
          : PrepareConvInputGradient(conv.attrs, ctx.input(0), Dims(ctx, 1), Dims(ctx, 2)));
  const ConvShape& shape = gradient.shape;
  Tensor out = OutputOf(ctx, 0);
  const std::optional<PatchPlan> plan = conv.PlanOf(shape);
  FORMWORK_ASSIGN_OR_RETURN(const bool done, conv.ByCudnn(ctx, shape, plan, 1, 2, out));
  if (done) return absl::OkStatus();
  if (!plan) {
    const element::ConvInputItem<char> item{InputBytes(ctx, 2), InputBytes(ctx, 1),
                                            OutputBytes(out), ConvSizesOf(shape)};
    return conv.RunIn(ctx)(ConvStage::kInput, item, static_cast<uint64_t>(out.num_elements()));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, PatchesFor(ctx, *plan));
  return RunConvInputByPatches<char>(shape, *plan, InputBytes(ctx, 1), InputBytes(ctx, 2),
                                     OutputBytes(out), MemoryOf(memory), conv.RunIn(ctx),
                                     conv.MultiplyIn(ctx));
}

absl::Status FilterGradient(const Conv& conv, KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      const ConvGradient gradient,
      conv.depthwise
          ? PrepareDepthwiseFilterGradient(conv.attrs, Dims(ctx, 0), ctx.input(1), Dims(ctx, 2))
          : PrepareConvFilterGradient(conv.attrs, Dims(ctx, 0), ctx.input(1), Dims(ctx, 2)));
  const ConvShape& shape = gradient.shape;
  Tensor out = OutputOf(ctx, 0);
  const std::optional<PatchPlan> plan = conv.PlanOf(shape);
  FORMWORK_ASSIGN_OR_RETURN(const bool done, conv.ByCudnn(ctx, shape, plan, 0, 2, out));
  if (done) return absl::OkStatus();
  if (!plan) {
    const auto sums = static_cast<size_t>(FilterParts(shape) * shape.filter_elements());
    FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, ScratchOf(ctx, sums * sizeof(double)));
    return RunConvFilterByItems<char>(shape, InputBytes(ctx, 0), InputBytes(ctx, 2),
                                      OutputBytes(out), reinterpret_cast<double*>(MemoryOf(memory)),
                                      conv.RunIn(ctx));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, PatchesFor(ctx, *plan));
  return RunConvFilterByPatches(shape, *plan, InputBytes(ctx, 0), InputBytes(ctx, 2),
                                OutputBytes(out), MemoryOf(memory), conv.RunIn(ctx),
                                conv.MultiplyIn(ctx));
}

// --- Nodes --------------------------------------------------------------------------------------

// What runs without cuDNN, `by_items`: where there are no patches; `by_patches`: beside making
// them.
absl::StatusOr<Conv> MakeConv(const KernelInit& init, ConvPass pass, ProductAttrs product,
                              bool depthwise, ConvStage by_items, ConvStage by_patches) {
  Conv conv;
  conv.depthwise = depthwise;
  conv.dtype = init.output_dtypes()[0];
  if (!MatrixProduct::Takes(conv.dtype)) {
    return Unimplemented(init.op().name, " of ", DTypeName(conv.dtype), " on a GPU");
  }
  FORMWORK_ASSIGN_OR_RETURN(conv.attrs, SlidingAttrs::OfConv(init.attrs()));
  if (pass == ConvPass::kForward) {
    FORMWORK_ASSIGN_OR_RETURN(conv.epilogue,
                              Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  }
  conv.product = std::make_unique<MatrixProduct>(product, conv.epilogue, conv.dtype);
  FORMWORK_RETURN_IF_ERROR(conv.product->Prepare());
  conv.cudnn = std::make_unique<CudnnConv>(pass, conv.dtype);
  if (Cudnn::Find() != nullptr && !conv.epilogue.empty()) {
    conv.finish = std::make_unique<ElementKernel>(EpilogueProgram(conv.epilogue, conv.dtype));
    FORMWORK_RETURN_IF_ERROR(conv.finish->Prepare());
  }
  // What shapes make of it is known when it is called; these are the likely kernels.
  ConvItems& items = ConvItems::Of(conv.dtype);
  if (depthwise || conv.attrs.layout.channels_first) {
    FORMWORK_RETURN_IF_ERROR(items.Prepare(by_items));
    if (by_items == ConvStage::kFilter) {
      FORMWORK_RETURN_IF_ERROR(items.Prepare(ConvStage::kFilterSums));
    }
  } else {
    FORMWORK_RETURN_IF_ERROR(items.Prepare(by_patches));
  }
  return conv;
}

template <bool kDepthwise>
absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Conv conv, MakeConv(init, ConvPass::kForward, {}, kDepthwise,
                                                ConvStage::kForward, ConvStage::kPatches));
  return KernelFn([conv = std::move(conv)](KernelContext& ctx) { return Forward(conv, ctx); });
}

template <bool kDepthwise>
absl::StatusOr<KernelFn> MakeInputGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(
      Conv conv, MakeConv(init, ConvPass::kInputGradient, {.transpose_y = true}, kDepthwise,
                          ConvStage::kInput, ConvStage::kUnpatch));
  return KernelFn(
      [conv = std::move(conv)](KernelContext& ctx) { return InputGradient(conv, ctx); });
}

template <bool kDepthwise>
absl::StatusOr<KernelFn> MakeFilterGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(
      Conv conv, MakeConv(init, ConvPass::kFilterGradient, {.transpose_x = true}, kDepthwise,
                          ConvStage::kFilter, ConvStage::kPatches));
  return KernelFn(
      [conv = std::move(conv)](KernelContext& ctx) { return FilterGradient(conv, ctx); });
}

}  // namespace

void RegisterConvKernels(KernelRegistry& registry) {
  registry.Add("Conv2D", &MakeForward<false>);
  registry.Add("Conv2DBackpropFilter", &MakeFilterGradient<false>);
  registry.Add("Conv2DBackpropInput", &MakeInputGradient<false>);
  registry.Add("DepthwiseConv2dNative", &MakeForward<true>);
  registry.Add("DepthwiseConv2dNativeBackpropFilter", &MakeFilterGradient<true>);
  registry.Add("DepthwiseConv2dNativeBackpropInput", &MakeInputGradient<true>);
}

}  // namespace formwork
