// What GPUs do of rolls, mirrored margins, reversed sequences, blocks of space and diagonals
// (gpu/arrange_functions.h), item by item, on the host against the op cases.

#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/arrange_items.h"
#include "gpu/moves.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;
using element::MayFailItem;

absl::Status Refuse() { return Unimplemented("a dtype that a GPU leaves to the host"); }

// Calls run(memory of input 0, memory of output 0), both as a GPU's.
template <typename Run>
absl::Status IntoOutput(KernelContext& ctx, const Shape& shape, Run run) {
  const Tensor& x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), x.dtype(), shape));
  Aligned from(x), to(out);
  run(from.data(), to.data());
  to.CopyTo(out);
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

absl::Status RunShift(KernelContext& ctx, const ShiftPlan& plan) {
  return IntoOutput(ctx, plan.output, [&](const void* from, void* to) {
    WithUnit(plan.unit,
             [&](auto e) { RunItems(ShiftItemOf<decltype(e)>(plan, from, to), plan.items); });
  });
}

absl::StatusOr<KernelFn> MakeRoll(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ShiftPlan plan,
                              PlanRoll(ctx.input(0).shape(), ctx.input(1), ctx.input(2), bytes));
    return RunShift(ctx, plan);
  });
}

absl::StatusOr<KernelFn> MakeMirrorPad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([attrs, bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ShiftPlan plan,
                              PlanMirrorPad(attrs, ctx.input(0).shape(), ctx.input(1), bytes));
    return RunShift(ctx, plan);
  });
}

absl::StatusOr<KernelFn> MakeMirrorPadGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(init.attrs()));
  if (!FoldItemName(init.input_dtypes()[0]).ok()) return Refuse();
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const FoldPlan plan,
                              PlanMirrorPadGrad(attrs, grads.shape(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const PadGeometry geometry,
                              PrepareMirrorPadGrad(attrs, grads.shape().dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    const size_t bytes = DTypeSize(grads.dtype());
    std::vector<element::Bytes16> between(plan.between() * bytes / 16 + 1);
    const auto run = [&](auto t, const void* from, void* to) {
      const auto items = FoldItemsOf<decltype(t)>(plan, from, to, between.data(), bytes);
      for (size_t k = 0; k < items.size(); ++k) RunItems(items[k], plan.items[k]);
    };
    return IntoOutput(ctx, shape, [&](const void* from, void* to) {
      if (shape.num_elements() == 0) return;
      switch (grads.dtype()) {
        FORMWORK_REAL_CASES(run(T(), from, to); break)
        default:
          break;
      }
    });
  });
}

template <bool kToBatch>
absl::StatusOr<KernelFn> MakeBlocks(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    const auto plan_of = kToBatch ? &PlanSpaceToBatch : &PlanBatchToSpace;
    FORMWORK_ASSIGN_OR_RETURN(const BlocksPlan plan,
                              plan_of(ctx.input(0).shape(), ctx.input(1), ctx.input(2), bytes));
    return IntoOutput(ctx, plan.output, [&](const void* from, void* to) {
      WithUnit(plan.unit,
               [&](auto e) { RunItems(BlocksItemOf<decltype(e)>(plan, from, to), plan.items); });
    });
  });
}

absl::StatusOr<KernelFn> MakeReverseSequence(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ReverseSequenceAttrs attrs,
                            ReverseSequenceAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([attrs, bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    const Shape& x = ctx.input(0).shape();
    const Tensor& lengths = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const SequencePlan plan,
                              PlanReverseSequence(attrs, x, lengths.shape(), bytes));
    FailureWord word;
    const auto run = [&](auto length, const void* from, void* to) {
      using Length = decltype(length);
      if (plan.items == 0) {
        RunItems(element::CheckLengthsItem<Length>{static_cast<const Length*>(lengths.raw()),
                                                   plan.seq_size, MayFailItem{&word, 5}},
                 static_cast<uint64_t>(lengths.num_elements()));
        return;
      }
      WithUnit(plan.unit, [&](auto e) {
        RunItems(ReverseSequenceItemOf<decltype(e), Length>(plan, from, lengths, to,
                                                            MayFailItem{&word, 5}),
                 plan.items);
      });
    };
    FORMWORK_RETURN_IF_ERROR(IntoOutput(ctx, x, [&](const void* from, void* to) {
      return lengths.dtype() == DType::kInt32 ? run(int32_t(), from, to) : run(int64_t(), from, to);
    }));
    return word.failed_step() == 0 ? absl::OkStatus() : LengthOutOfRange(word.where, attrs.seq_dim);
  });
}

// Of the ops' first version there are no inputs for these.
Tensor InputOr(const KernelContext& ctx, int i, int32_t otherwise) {
  return i < ctx.num_inputs() ? ctx.input(i) : Tensor::Scalar(otherwise);
}
template <typename E>
E PaddingOf(const KernelContext& ctx, int i) {
  E padding{};
  if (i < ctx.num_inputs()) std::memcpy(&padding, ctx.input(i).raw(), sizeof(E));
  return padding;
}

absl::StatusOr<KernelFn> MakeDiagPart(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([attrs, bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band,
        PrepareMatrixDiagPart(attrs, ctx.input(0).shape().dims(), InputOr(ctx, 1, 0),
                              InputOr(ctx, 2, 0).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(band.output));
    return IntoOutput(ctx, shape, [&](const void* from, void* to) {
      WithUnit(bytes, [&](auto e) {
        using E = decltype(e);
        RunItems(element::DiagonalPartItem<E>{static_cast<const E*>(from), static_cast<E*>(to),
                                              PaddingOf<E>(ctx, 2), DiagonalBandOf(band)},
                 static_cast<uint64_t>(shape.num_elements()));
      });
    });
  });
}

absl::StatusOr<KernelFn> MakeDiag(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([attrs, bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    const Tensor rows = InputOr(ctx, 2, -1), cols = InputOr(ctx, 3, -1);
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band, PrepareMatrixDiag(attrs, ctx.input(0).shape().dims(), InputOr(ctx, 1, 0),
                                           &rows, &cols, InputOr(ctx, 4, 0).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(band.output));
    return IntoOutput(ctx, shape, [&](const void* from, void* to) {
      WithUnit(bytes, [&](auto e) {
        using E = decltype(e);
        RunItems(element::DiagonalItem<E>{static_cast<const E*>(from), nullptr, static_cast<E*>(to),
                                          PaddingOf<E>(ctx, 4), DiagonalBandOf(band)},
                 static_cast<uint64_t>(shape.num_elements()));
      });
    });
  });
}

absl::StatusOr<KernelFn> MakeSetDiag(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([attrs, bytes = DTypeSize(dtype)](KernelContext& ctx) -> absl::Status {
    const Shape& shape = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band,
        PrepareMatrixSetDiag(attrs, shape.dims(), ctx.input(1).shape().dims(), InputOr(ctx, 2, 0)));
    Aligned diagonal(ctx.input(1));
    return IntoOutput(ctx, shape, [&](const void* from, void* to) {
      WithUnit(bytes, [&](auto e) {
        using E = decltype(e);
        RunItems(element::DiagonalItem<E>{reinterpret_cast<const E*>(diagonal.data()),
                                          static_cast<const E*>(from), static_cast<E*>(to), E(),
                                          DiagonalBandOf(band)},
                 static_cast<uint64_t>(shape.num_elements()));
      });
    });
  });
}

TEST(GpuArrangeTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("BatchToSpaceND", &MakeBlocks<false>);
  kernels.Add("MirrorPad", &MakeMirrorPad);
  kernels.Add("MirrorPadGrad", &MakeMirrorPadGrad);
  kernels.Add("ReverseSequence", &MakeReverseSequence);
  kernels.Add("Roll", &MakeRoll);
  kernels.Add("SpaceToBatchND", &MakeBlocks<true>);
  for (const char* version : {"", "V2", "V3"}) {
    kernels.Add(absl::StrCat("MatrixDiag", version), &MakeDiag);
    kernels.Add(absl::StrCat("MatrixDiagPart", version), &MakeDiagPart);
    kernels.Add(absl::StrCat("MatrixSetDiag", version), &MakeSetDiag);
  }
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"array", "array_layout"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) {
    EXPECT_GT(tried[op], absl::EndsWith(op, "V2") ? 0 : 2) << op;  // The third has its cases.
  }
}

TEST(GpuArrangeTest, MoveAsMuchAtATimeAsStaysTogether) {
  const Tensor shift = Tensor::Scalar(1), axis = Tensor::Scalar(1);
  absl::StatusOr<ShiftPlan> plan = PlanRoll(Shape({4, 5, 6, 2}), shift, axis, 4);
  ASSERT_OK(plan);
  EXPECT_EQ(plan->unit, 16u);  // Rows of 48 bytes, in which each item is a third.
  EXPECT_EQ(plan->item.rank, 3);
  EXPECT_EQ(plan->items, 60u);
  plan = PlanRoll(Shape({4, 5}), shift, axis, 4);
  ASSERT_OK(plan);
  EXPECT_EQ(plan->unit, 4u);
  EXPECT_EQ(plan->items, 20u);
  Dims many(18, 2);
  const auto all = [](int32_t value) {
    std::vector<int32_t> values;
    for (int32_t d = 0; d < 9; ++d) values.push_back(value < 0 ? 2 * d : value);
    return VectorOf<int32_t>(values);
  };
  EXPECT_THAT(PlanRoll(Shape::Trusted(many), all(1), all(-1), 4),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(GpuArrangeTest, TheWordTellsTheLength) {
  EXPECT_EQ(LengthOutOfRange(element::WhereOf(2, -3), 1).message(), "seq_lens(2) < 0");
  EXPECT_EQ(LengthOutOfRange(element::WhereOf(2, 9), 1).message(), "seq_lens(2) > input.dims(1)");
  EXPECT_EQ(LengthOutOfRange(element::WhereOf(2, 1ll << 40), 1).message(),
            "seq_lens(2) is not in [0, input.dims(1)]");
}

}  // namespace
}  // namespace formwork::testing
