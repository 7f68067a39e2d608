// Convolutions of volumes on a GPU, and their gradients: products of patches by the filter
// (conv_items.h).

#include <memory>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/ops/epilogue.h"
#include "gpu/conv3d_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/matrix_product.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

// Of any element type, here and below: pointers and numbers alone.
template <typename Unit>
size_t BytesOfUnit(const element::Patch3dItem<Unit>&) {
  return sizeof(Unit);
}
size_t BytesOfUnit(const element::Unpatch3dItem<char>&) { return 1; }

absl::Span<const int64_t> DimsOf(KernelContext& ctx, int i) { return ctx.input(i).shape().dims(); }

// What a node keeps.
struct Conv3d {
  Conv3dAttrs attrs;
  DType dtype = DType::kInvalid;
  std::unique_ptr<MatrixProduct> product;
  std::unique_ptr<ItemKernel> unpatch;

  static UnitKernels& Patches() {
    static auto* const kernels = new UnitKernels("Patch3dItem<", ">", Conv3dText());
    return *kernels;
  }
  // What RunConvByPatches and its like run their items and products by.
  auto RunIn(KernelContext& ctx) const {
    return [this, stream = CudaStreamOf(StreamOf(ctx))](ConvStage stage, const auto& item,
                                                        uint64_t n) {
      ItemKernel& kernel =
          stage == ConvStage::kPatches ? Patches().Of(BytesOfUnit(item)) : *unpatch;
      return kernel.Enqueue(item, n, {}, stream);
    };
  }
  auto MultiplyIn(KernelContext& ctx) const {
    return [this, &ctx](const PatchProduct& p) {
      return product->Enqueue(ctx, {p.m, p.n, p.k}, {p.x, p.y, nullptr, p.residual, p.out});
    };
  }
  // run(plan, memory of its patches, the output's); zeros where there is nothing to add up.
  template <typename Body>
  absl::Status Run(KernelContext& ctx, const Conv3dShape& shape, Body run) const {
    Tensor out = OutputOf(ctx, 0);
    const std::optional<PatchPlan> plan = PlanConv3d(shape, DTypeSize(dtype));
    if (!plan) return EnqueueZeros(out, CudaStreamOf(StreamOf(ctx)));
    FORMWORK_ASSIGN_OR_RETURN(const Buffer memory, ScratchOf(ctx, plan->MemoryBytes()));
    return run(*plan, memory ? static_cast<char*>(memory.data()) : nullptr,
               static_cast<char*>(out.mutable_raw()));
  }
};

absl::StatusOr<Conv3d> MakeConv(const KernelInit& init, ProductAttrs product) {
  Conv3d conv;
  conv.dtype = init.output_dtypes()[0];
  if (!MatrixProduct::Takes(conv.dtype)) {
    return Unimplemented(init.op().name, " of ", DTypeName(conv.dtype), " on a GPU");
  }
  FORMWORK_ASSIGN_OR_RETURN(conv.attrs, Conv3dAttrs::FromAttrs(init.attrs()));
  conv.product = std::make_unique<MatrixProduct>(product, Epilogue{}, conv.dtype);
  FORMWORK_RETURN_IF_ERROR(conv.product->Prepare());
  conv.unpatch = std::make_unique<ItemKernel>(Unpatch3dItemName(conv.dtype), Conv3dText());
  // What shapes make of it is known when it is called; these are the likely kernels.
  FORMWORK_RETURN_IF_ERROR(product.transpose_y ? conv.unpatch->Prepare()
                                               : Conv3d::Patches().Of(16).Prepare());
  return conv;
}

absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Conv3d conv, MakeConv(init, {}));
  return KernelFn([conv = std::move(conv)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Conv3dShape shape,
                              PrepareConv3d(conv.attrs, DimsOf(ctx, 0), DimsOf(ctx, 1)));
    return conv.Run(ctx, shape, [&](const PatchPlan& plan, char* memory, char* out) {
      return RunConvByPatches(shape, plan, InputBytes(ctx, 0), InputBytes(ctx, 1), nullptr, out,
                              memory, conv.RunIn(ctx), conv.MultiplyIn(ctx));
    });
  });
}

absl::StatusOr<KernelFn> MakeInputGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Conv3d conv, MakeConv(init, {.transpose_y = true}));
  return KernelFn([conv = std::move(conv)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const Conv3dShape shape,
        PrepareConv3dInputGradient(conv.attrs, ctx.input(0), DimsOf(ctx, 1), DimsOf(ctx, 2)));
    return conv.Run(ctx, shape, [&](const PatchPlan& plan, char* memory, char* out) {
      return RunConvInputByPatches<char>(shape, plan, InputBytes(ctx, 1), InputBytes(ctx, 2), out,
                                         memory, conv.RunIn(ctx), conv.MultiplyIn(ctx));
    });
  });
}

absl::StatusOr<KernelFn> MakeFilterGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Conv3d conv, MakeConv(init, {.transpose_x = true}));
  return KernelFn([conv = std::move(conv)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const Conv3dShape shape,
        PrepareConv3dFilterGradient(conv.attrs, DimsOf(ctx, 0), ctx.input(1), DimsOf(ctx, 2)));
    return conv.Run(ctx, shape, [&](const PatchPlan& plan, char* memory, char* out) {
      return RunConvFilterByPatches(shape, plan, InputBytes(ctx, 0), InputBytes(ctx, 2), out,
                                    memory, conv.RunIn(ctx), conv.MultiplyIn(ctx));
    });
  });
}

}  // namespace

void RegisterConv3dKernels(KernelRegistry& registry) {
  registry.Add("Conv3D", &MakeForward);
  registry.Add("Conv3DBackpropFilterV2", &MakeFilterGradient);
  registry.Add("Conv3DBackpropInputV2", &MakeInputGradient);
}

}  // namespace formwork
