// What GPUs do of batches that are normalised (gpu/norm_functions.h), stage by stage and item by
// item, on the host against the op cases.

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/norm_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

const auto kRun = [](NormStage /*stage*/, const auto& item, uint64_t n) {
  for (uint64_t i = n; i-- > 0;) item(i);  // In any order.
  return absl::OkStatus();
};

// `run(E())` for the element type of `dtype`.
template <typename Run>
absl::Status WithElement(DType dtype, Run run) {
  switch (dtype) {
    case DType::kFloat:
      return run(float());
    case DType::kHalf:
      return run(half());
    case DType::kBfloat16:
      return run(bfloat16());
    default:
      return Internal("no element type");
  }
}

absl::StatusOr<float*> Floats(KernelContext& ctx, int i, const Shape& shape, float value = 0) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(i, DType::kFloat, shape));
  std::fill_n(output->mutable_data<float>(), shape.num_elements(), value);
  return output->mutable_data<float>();
}

std::vector<char> ScratchFor(const element::NormSizes& sizes) {
  return std::vector<char>(NormScratch::BytesFor(sizes), '\xff');
}

// Several parts even of what is small.
element::NormSizes SizesOf(const BatchNormGeometry& geometry) {
  element::NormSizes sizes = NormSizesOf(geometry);
  sizes.parts = std::clamp<int64_t>(sizes.PerChannel(), 1, 3);
  return sizes;
}

absl::Status Forward(const BatchNormAttrs& attrs, KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormGeometry geometry,
                            PrepareBatchNorm(attrs, x.shape().dims(),
                                             {.scale = ctx.input(1).shape().dims(),
                                              .offset = ctx.input(2).shape().dims(),
                                              .mean = ctx.input(3).shape().dims(),
                                              .variance = ctx.input(4).shape().dims()}));
  const Shape channels({geometry.channels});
  const bool empty = x.num_elements() == 0;
  const float none = std::numeric_limits<float>::quiet_NaN();
  FORMWORK_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
  FORMWORK_ASSIGN_OR_RETURN(float* const batch_mean, Floats(ctx, 1, channels, none));
  FORMWORK_ASSIGN_OR_RETURN(float* const batch_variance, Floats(ctx, 2, channels, none));
  FORMWORK_ASSIGN_OR_RETURN(float* const mean, Floats(ctx, 3, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const variance, Floats(ctx, 4, channels));
  FORMWORK_RETURN_IF_ERROR(
      Floats(ctx, 5, IsOfOnednn(attrs, x.dtype()) ? Shape({0}) : Shape()).status());
  if (empty) return absl::OkStatus();
  const element::NormSizes sizes = SizesOf(geometry);
  std::vector<char> memory = ScratchFor(sizes);
  const NormScratch scratch(sizes, memory.data());
  return WithElement(x.dtype(), [&](auto e) {
    using E = decltype(e);
    const NormForward<E> forward{
        x.data<E>(),
        y->mutable_data<E>(),
        ctx.input(2).data<float>(),
        {ctx.input(1).data<float>(), ctx.input(3).data<float>(), ctx.input(4).data<float>(),
         batch_mean, batch_variance, mean, variance, scratch.factor, attrs.epsilon, attrs.factor,
         attrs.needs_old()}};
    return RunNormForward(forward, attrs.is_training, sizes, scratch, kRun);
  });
}

absl::Status Gradient(const BatchNormAttrs& attrs, KernelContext& ctx) {
  const Tensor& x = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(
      const BatchNormGeometry geometry,
      PrepareBatchNormGrad(attrs, ctx.input(0).shape().dims(), x.shape().dims(),
                           {.scale = ctx.input(2).shape().dims(),
                            .offset = {},
                            .mean = ctx.input(3).shape().dims(),
                            .variance = ctx.input(4).shape().dims()}));
  const Shape channels({geometry.channels});
  const Shape unused = IsOfOnednn(attrs, x.dtype()) ? Shape() : Shape({0});
  FORMWORK_ASSIGN_OR_RETURN(Tensor * dx, ctx.AllocateOutput(0, x.dtype(), x.shape()));
  FORMWORK_ASSIGN_OR_RETURN(float* const of_scale, Floats(ctx, 1, channels));
  FORMWORK_ASSIGN_OR_RETURN(float* const of_offset, Floats(ctx, 2, channels));
  FORMWORK_RETURN_IF_ERROR(Floats(ctx, 3, unused).status());
  FORMWORK_RETURN_IF_ERROR(Floats(ctx, 4, unused).status());
  if (x.num_elements() == 0) return absl::OkStatus();
  const element::NormSizes sizes = SizesOf(geometry);
  std::vector<char> memory = ScratchFor(sizes);
  return WithElement(x.dtype(), [&](auto e) {
    using E = decltype(e);
    const NormGradient<E> gradient{ctx.input(0).data<E>(),
                                   x.data<E>(),
                                   ctx.input(2).data<float>(),
                                   ctx.input(3).data<float>(),
                                   ctx.input(4).data<float>(),
                                   dx->mutable_data<E>(),
                                   of_scale,
                                   of_offset};
    return RunNormGradient(gradient, attrs, sizes, NormScratch(sizes, memory.data()), kRun);
  });
}

absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfForward(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) { return Forward(attrs, ctx); });
}
absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BatchNormAttrs attrs, BatchNormAttrs::OfGradient(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) { return Gradient(attrs, ctx); });
}

TEST(GpuNormsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("FusedBatchNormV3", &MakeForward);
  kernels.Add("FusedBatchNormGradV3", &MakeGradient);
  std::map<std::string, int> tried = RunGpuCases({.files = {"batch_norm"}}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 8) << op;
}

TEST(GpuNormsTest, ChannelsAreSummedInPartsWhereThereIsMuchOfThem) {
  const element::NormSizes large = NormSizesOf({.outer = 64 * 56 * 56, .channels = 256});
  EXPECT_EQ(large.parts, 256);
  EXPECT_EQ(NormSizesOf({.outer = 10, .channels = 3, .inner = 5}).parts, 1);
  EXPECT_EQ(NormSizesOf({.outer = 2, .channels = 100'000, .inner = 640}).parts, 1);
}

}  // namespace
}  // namespace formwork::testing
