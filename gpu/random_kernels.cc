// Random ops on a GPU. The host says where a call's numbers begin, or has the kernel read that: it
// waits for neither keys and counters nor generators, which move on behind what draws from them.

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/random/random_cpu.h"
#include "core/ops/random.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/random_items.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

// Of all generators.
ItemKernel& SkipKernel() {
  static auto* const kernel = new ItemKernel(RandomSource("SkipItem"), ItemKernel::OfText());
  return *kernel;
}

// Not where a step before has failed: a variable is changed.
absl::Status EnqueueSkip(KernelContext& ctx, const element::SkipItem& item) {
  return SkipKernel().Enqueue(item, 1, {EarlierFailure(ctx), 0}, CudaStreamOf(StreamOf(ctx)));
}

absl::StatusOr<KernelFn> MakeRandom(KernelInit& init) {
  const RandomOp* const op = FindRandomOp(init.op().name);
  if (op == nullptr) return Internal(init.op().name, " is no random op of the table");
  FORMWORK_ASSIGN_OR_RETURN(const std::string item, RandomItemName(*op, init.output_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(RandomPlanner made, MakeRandomPlanner(*op, init));
  auto planner = std::make_unique<const RandomPlanner>(std::move(made));
  auto kernel = std::make_unique<ItemKernel>(RandomSource(item), ItemKernel::OfText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  const bool of_generator = op->from == RandomOp::From::kGenerator;
  if (of_generator) FORMWORK_RETURN_IF_ERROR(SkipKernel().Prepare());
  return KernelFn([of_generator, planner = std::move(planner),
                   kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(RandomCall call, (*planner)(ctx));
    Tensor out = OutputOf(ctx, 0);
    const auto fill = [&] {
      // Of any element type and distribution: pointers and numbers alone.
      return kernel->Enqueue(RandomItemOf<char, void>(call, out), RandomGroups(out), {},
                             CudaStreamOf(StreamOf(ctx)));
    };
    if (!of_generator) return fill();
    return UpdateGenerator(ctx, ctx.input(1).scalar<int64_t>(), [&](Tensor& state) -> absl::Status {
      call.source = SourceIn(state);
      FORMWORK_RETURN_IF_ERROR(fill());
      return EnqueueSkip(ctx, SkipItemOf(state, static_cast<uint64_t>(out.num_elements())));
    });
  });
}

absl::Status CheckSkipInputs(const KernelContext& ctx) {
  FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(1, ctx.input(1).shape().dims()));
  return CheckRandomScalar(2, ctx.input(2).shape().dims());
}

absl::StatusOr<KernelFn> MakeReadAndSkip(KernelInit&) {
  FORMWORK_RETURN_IF_ERROR(SkipKernel().Prepare());
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckSkipInputs(ctx));
    Tensor before = OutputOf(ctx, 0);
    return UpdateGenerator(ctx, ctx.input(1).scalar<int32_t>(), [&](Tensor& state) {
      element::SkipItem item = SkipItemOf(state, ctx.input(2).scalar<uint64_t>());
      item.before = static_cast<uint64_t*>(before.mutable_raw());
      return EnqueueSkip(ctx, item);
    });
  });
}

absl::StatusOr<KernelFn> MakeSkip(KernelInit&) {
  FORMWORK_RETURN_IF_ERROR(SkipKernel().Prepare());
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckSkipInputs(ctx));
    return UpdateGenerator(ctx, ctx.input(1).scalar<int64_t>(), [&](Tensor& state) {
      return EnqueueSkip(ctx,
                         SkipItemOf(state, static_cast<uint64_t>(ctx.input(2).scalar<int64_t>())));
    });
  });
}

}  // namespace

void RegisterRandomKernels(KernelRegistry& registry) {
  for (const RandomOp& op : RandomOps()) registry.Add(op.op, &MakeRandom);
  registry.Add("RngReadAndSkip", &MakeReadAndSkip);
  registry.Add("RngSkip", &MakeSkip);
}

}  // namespace formwork
