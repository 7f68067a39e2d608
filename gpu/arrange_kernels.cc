// Rolls, mirrored margins, reversed sequences, blocks of space and diagonals on a GPU. A length
// that is out of range fails its step by the call's word.

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/arrange_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

// The bytes of an element, which has to be plain data.
absl::StatusOr<size_t> BytesOf(const KernelInit& init, DType dtype) {
  if (!IsPlainData(dtype)) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  return DTypeSize(dtype);
}

UnitKernels& ShiftKernels() {
  static auto* const kernels = new UnitKernels("ShiftItem<", ">", ArrangeText());
  return *kernels;
}
UnitKernels& BlocksKernels() {
  static auto* const kernels = new UnitKernels("BlocksItem<", ">", ArrangeText());
  return *kernels;
}
UnitKernels& DiagonalPartKernels() {
  static auto* const kernels = new UnitKernels("DiagonalPartItem<", ">", ArrangeText());
  return *kernels;
}
UnitKernels& DiagonalKernels() {
  static auto* const kernels = new UnitKernels("DiagonalItem<", ">", ArrangeText());
  return *kernels;
}
UnitKernels& SequenceKernels(DType lengths) {
  static auto* const narrow = new UnitKernels("ReverseSequenceItem<", ", int32_t>", ArrangeText());
  static auto* const wide = new UnitKernels("ReverseSequenceItem<", ", int64_t>", ArrangeText());
  return lengths == DType::kInt32 ? *narrow : *wide;
}

absl::Status Enqueue(KernelContext& ctx, const ShiftPlan& plan) {
  Tensor out = OutputOf(ctx, 0);
  // Of any unit, here and below: pointers and numbers alone.
  return ShiftKernels().Of(plan.unit).Enqueue(
      ShiftItemOf<char>(plan, ctx.input(0).raw(), out.mutable_raw()), plan.items, {},
      CudaStreamOf(StreamOf(ctx)));
}

absl::Status Enqueue(KernelContext& ctx, const BlocksPlan& plan) {
  Tensor out = OutputOf(ctx, 0);
  return BlocksKernels().Of(plan.unit).Enqueue(
      BlocksItemOf<char>(plan, ctx.input(0).raw(), out.mutable_raw()), plan.items, {},
      CudaStreamOf(StreamOf(ctx)));
}

absl::StatusOr<KernelFn> MakeRoll(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_RETURN_IF_ERROR(ShiftKernels().Of(bytes).Prepare());
  return KernelFn([bytes](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ShiftPlan plan,
                              PlanRoll(ctx.input(0).shape(), ctx.input(1), ctx.input(2), bytes));
    return Enqueue(ctx, plan);
  });
}

absl::StatusOr<KernelFn> MakeMirrorPad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(ShiftKernels().Of(bytes).Prepare());
  return KernelFn([attrs, bytes](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ShiftPlan plan,
                              PlanMirrorPad(attrs, ctx.input(0).shape(), ctx.input(1), bytes));
    return Enqueue(ctx, plan);
  });
}

absl::StatusOr<KernelFn> MakeMirrorPadGrad(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, FoldItemName(dtype));
  auto kernel = std::make_unique<ItemKernel>(name, ArrangeText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([attrs, bytes = DTypeSize(dtype),
                   kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const FoldPlan plan,
                              PlanMirrorPadGrad(attrs, grads.shape(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Buffer between, ScratchOf(ctx, plan.between() * bytes));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const auto items = FoldItemsOf<char>(plan, grads.raw(), out.mutable_raw(),
                                         between ? between.data() : nullptr, bytes);
    for (size_t k = 0; k < items.size(); ++k) {
      FORMWORK_RETURN_IF_ERROR(
          kernel->Enqueue(items[k], plan.items[k], {}, CudaStreamOf(StreamOf(ctx))));
    }
    return absl::OkStatus();
  });
}

template <bool kToBatch>
absl::StatusOr<KernelFn> MakeBlocks(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_RETURN_IF_ERROR(BlocksKernels().Of(bytes).Prepare());
  return KernelFn([bytes](KernelContext& ctx) -> absl::Status {
    const auto plan_of = kToBatch ? &PlanSpaceToBatch : &PlanBatchToSpace;
    FORMWORK_ASSIGN_OR_RETURN(const BlocksPlan plan,
                              plan_of(ctx.input(0).shape(), ctx.input(1), ctx.input(2), bytes));
    return Enqueue(ctx, plan);
  });
}

absl::StatusOr<KernelFn> MakeReverseSequence(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(const ReverseSequenceAttrs attrs,
                            ReverseSequenceAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[1];
  UnitKernels& kernels = SequenceKernels(dtype);
  FORMWORK_RETURN_IF_ERROR(kernels.Of(bytes).Prepare());
  return KernelFn([attrs, bytes, dtype, &kernels](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    const Tensor& lengths = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const SequencePlan plan,
                              PlanReverseSequence(attrs, x.shape(), lengths.shape(), bytes));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place,
                              MayFail(ctx, [seq_dim = attrs.seq_dim](uint64_t where) {
                                return LengthOutOfRange(where, seq_dim);
                              }));
    const element::MayFailItem may_fail{place.word, place.step};
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    if (plan.items == 0) {
      static auto* const narrow = new ItemKernel("CheckLengthsItem<int32_t>", ArrangeText());
      static auto* const wide = new ItemKernel("CheckLengthsItem<int64_t>", ArrangeText());
      const element::CheckLengthsItem<char> item{static_cast<const char*>(lengths.raw()),
                                                 plan.seq_size, may_fail};
      return (dtype == DType::kInt32 ? narrow : wide)
          ->Enqueue(item, static_cast<uint64_t>(lengths.num_elements()), place, stream);
    }
    Tensor out = OutputOf(ctx, 0);
    const auto item =
        ReverseSequenceItemOf<char, char>(plan, x.raw(), lengths, out.mutable_raw(), may_fail);
    return kernels.Of(plan.unit).Enqueue(item, plan.items, place, stream);
  });
}

// The ops' first version has the main diagonal alone, and zeros around it.
Tensor DiagonalInput(const KernelContext& ctx, int i, int32_t otherwise) {
  return i < ctx.num_inputs() ? ctx.input(i) : Tensor::Scalar(otherwise);
}
Shape PaddingShape(const KernelContext& ctx, int i) {
  return i < ctx.num_inputs() ? ctx.input(i).shape() : Shape();
}
template <typename E>
E PaddingOf(const KernelContext& ctx, int i) {
  E padding{};
  if (i < ctx.num_inputs()) std::memcpy(&padding, ctx.input(i).raw(), sizeof(E));
  return padding;
}

absl::StatusOr<KernelFn> MakeMatrixDiagPart(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(DiagonalPartKernels().Of(bytes).Prepare());
  return KernelFn([attrs, bytes](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Band band, PrepareMatrixDiagPart(attrs, input.shape().dims(),
                                                                     DiagonalInput(ctx, 1, 0),
                                                                     PaddingShape(ctx, 2).dims()));
    Tensor out = OutputOf(ctx, 0);
    return WithUnit(bytes, [&](auto e) {
      using E = decltype(e);
      const element::DiagonalPartItem<E> item{static_cast<const E*>(input.raw()),
                                              static_cast<E*>(out.mutable_raw()),
                                              PaddingOf<E>(ctx, 2), DiagonalBandOf(band)};
      return DiagonalPartKernels().Of(bytes).Enqueue(
          item, static_cast<uint64_t>(out.num_elements()), {}, CudaStreamOf(StreamOf(ctx)));
    });
  });
}

// `input`: null where there is none.
absl::Status EnqueueDiagonal(KernelContext& ctx, const Band& band, const Tensor& diagonal,
                             const Tensor* input, size_t bytes) {
  Tensor out = OutputOf(ctx, 0);
  return WithUnit(bytes, [&](auto e) {
    using E = decltype(e);
    const element::DiagonalItem<E> item{
        static_cast<const E*>(diagonal.raw()),
        input == nullptr ? nullptr : static_cast<const E*>(input->raw()),
        static_cast<E*>(out.mutable_raw()), input == nullptr ? PaddingOf<E>(ctx, 4) : E(),
        DiagonalBandOf(band)};
    return DiagonalKernels().Of(bytes).Enqueue(item, static_cast<uint64_t>(out.num_elements()), {},
                                               CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeMatrixDiag(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(DiagonalKernels().Of(bytes).Prepare());
  return KernelFn([attrs, bytes](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(0);
    const Tensor rows = DiagonalInput(ctx, 2, -1), cols = DiagonalInput(ctx, 3, -1);
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band, PrepareMatrixDiag(attrs, diagonal.shape().dims(), DiagonalInput(ctx, 1, 0),
                                           &rows, &cols, PaddingShape(ctx, 4).dims()));
    return EnqueueDiagonal(ctx, band, diagonal, nullptr, bytes);
  });
}

absl::StatusOr<KernelFn> MakeMatrixSetDiag(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const size_t bytes, BytesOf(init, init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(DiagonalKernels().Of(bytes).Prepare());
  return KernelFn([attrs, bytes](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& diagonal = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band, PrepareMatrixSetDiag(attrs, input.shape().dims(), diagonal.shape().dims(),
                                              DiagonalInput(ctx, 2, 0)));
    return EnqueueDiagonal(ctx, band, diagonal, &input, bytes);
  });
}

}  // namespace

void RegisterArrangeKernels(KernelRegistry& registry) {
  registry.Add("BatchToSpaceND", &MakeBlocks<false>);
  registry.Add("MirrorPad", &MakeMirrorPad);
  registry.Add("MirrorPadGrad", &MakeMirrorPadGrad);
  registry.Add("ReverseSequence", &MakeReverseSequence);
  registry.Add("Roll", &MakeRoll);
  registry.Add("SpaceToBatchND", &MakeBlocks<true>);
  for (const char* version : {"", "V2", "V3"}) {
    registry.Add(absl::StrCat("MatrixDiag", version), &MakeMatrixDiag);
    registry.Add(absl::StrCat("MatrixDiagPart", version), &MakeMatrixDiagPart);
    registry.Add(absl::StrCat("MatrixSetDiag", version), &MakeMatrixSetDiag);
  }
}

}  // namespace formwork
