// ResourceAccumulator...: gradients that are added up until somebody takes them.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/kernels/state_wait.h"
#include "core/ops/accumulator.h"

namespace formwork {
namespace {

constexpr int64_t kGrain = 1 << 15;  // Elements.

// Never changed once it is written.
struct Accumulator : VariantObject {
  absl::string_view type_name() const override { return "accumulator"; }

  int64_t step = 0;   // Gradients of earlier ones are dropped.
  int64_t count = 0;  // Of the gradients in `sum`.
  Tensor sum;         // Empty where there are none.
};

ResourceValue ValueOf(std::shared_ptr<Accumulator> accumulator) {
  const size_t bytes =
      sizeof(Accumulator) + (accumulator->count > 0 ? accumulator->sum.bytes() : 0);
  return {Tensor::VariantScalar(std::move(accumulator)), bytes};
}

const Accumulator& StateOf(const Tensor& state) {
  return static_cast<const Accumulator&>(*state.scalar<Variant>());
}

// --- On disk ------------------------------------------------------------------------------------

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType&, const Tensor& value,
                                                Allocator&) {
  const Accumulator& state = StateOf(value);
  std::vector<Tensor> parts = {Tensor::Scalar(state.step), Tensor::Scalar(state.count)};
  if (state.count > 0) parts.push_back(state.sum);
  return parts;
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType& type,
                                           const std::vector<Tensor>& parts) {
  const auto is_number = [](const Tensor& part) {
    return part.dtype() == DType::kInt64 && part.rank() == 0;
  };
  if (parts.size() < 2 || !is_number(parts[0]) || !is_number(parts[1])) {
    return InvalidArgument("an accumulator has a step and a count");
  }
  auto state = std::make_shared<Accumulator>();
  state->step = parts[0].scalar<int64_t>();
  state->count = parts[1].scalar<int64_t>();
  if (state->count < 0 || parts.size() != (state->count > 0 ? 3u : 2u)) {
    return InvalidArgument("an accumulator has the sum of its gradients where there are any");
  }
  if (state->count > 0) {
    FORMWORK_RETURN_IF_ERROR(CheckGradientApplied(type, Tensor(), parts[2]));
    state->sum = parts[2];
  }
  return ValueOf(std::move(state));
}

// --- Kernels ------------------------------------------------------------------------------------

struct Opened {
  ResourceHandle handle;
  const ResourceType& type;
  Accumulator state;
};

absl::StatusOr<Opened> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const OpenState open,
                            OpenStateOf(ctx, IsAccumulator, "an accumulator"));
  return Opened{open.handle, open.type,
                open.state.has_value() ? StateOf(open.state) : Accumulator()};
}

absl::Status Write(KernelContext& ctx, Opened opened) {
  ResourceValue value = ValueOf(std::make_shared<Accumulator>(std::move(opened.state)));
  return ctx.resources().WriteState(opened.handle, std::move(value.value), value.bytes);
}

// A tensor of f(i) for each element i. Errors: kUnimplemented for dtypes that no accumulator has.
template <typename F>
absl::StatusOr<Tensor> Made(Allocator& allocator, const Tensor& like, F f) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor made, Tensor::Allocate(allocator, like.dtype(), like.shape()));
  const auto fill = [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    ParallelFor(like.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) to[begin] = f(T{}, begin);
    });
  };
  switch (like.dtype()) {
    FORMWORK_CASE(float, fill(made.mutable_data<T>()))
    FORMWORK_CASE(double, fill(made.mutable_data<T>()))
    FORMWORK_CASE(half, fill(made.mutable_data<T>()))
    default:
      return Unimplemented("accumulators of dtype ", DTypeName(like.dtype()), " are not supported");
  }
  return made;
}

absl::StatusOr<KernelFn> MakeApply(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Opened opened, Open(ctx));
    Accumulator& state = opened.state;
    FORMWORK_ASSIGN_OR_RETURN(const int64_t step, StepFromTensor(ctx.input(1), "local_step"));
    if (step < state.step) return absl::OkStatus();  // It comes too late.
    const Tensor gradient = ctx.input(2);
    FORMWORK_RETURN_IF_ERROR(CheckGradientApplied(opened.type, state.sum, gradient));
    if (state.count == 0) {
      state.sum = gradient;
    } else {
      const Tensor before = std::move(state.sum);
      FORMWORK_ASSIGN_OR_RETURN(state.sum, Made(ctx.allocator(), before, [&](auto like, int64_t i) {
                                  using T = decltype(like);
                                  return math::Add(before.data<T>()[i], gradient.data<T>()[i]);
                                }));
    }
    ++state.count;
    return Write(ctx, std::move(opened));
  });
}

absl::StatusOr<KernelFn> MakeNumAccumulated(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Opened opened, Open(ctx));
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    ctx.SetOutput(0, Tensor::Scalar(static_cast<int32_t>(std::min(opened.state.count, kMost))));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSetGlobalStep(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Opened opened, Open(ctx));
    FORMWORK_ASSIGN_OR_RETURN(opened.state.step, StepFromTensor(ctx.input(1), "new_global_step"));
    return Write(ctx, std::move(opened));
  });
}

absl::StatusOr<KernelFn> MakeTake(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Opened opened, Open(ctx));
    Accumulator& state = opened.state;
    if (dtype != opened.type.parts[0].dtype) {
      return InvalidArgument("the accumulator is of another dtype than what is taken: accumulator=",
                             DTypeName(opened.type.parts[0].dtype), " taken=", DTypeName(dtype));
    }
    FORMWORK_ASSIGN_OR_RETURN(const int64_t required, GradientsRequired(ctx.input(1)));
    if (state.count < required) {
      return AwaitState(ctx, opened.handle, "gradients", [required](const Tensor& now) {
        return now.has_value() && StateOf(now).count >= required;
      });
    }
    Tensor taken = std::move(state.sum);
    if (opened.type.kind == &kMeanAccumulatorKind) {
      const Tensor sum = std::move(taken);
      const auto count = static_cast<float>(state.count);
      FORMWORK_ASSIGN_OR_RETURN(taken, Made(ctx.allocator(), sum, [&](auto like, int64_t i) {
                                  using T = decltype(like);
                                  using Wide =
                                      std::conditional_t<std::is_same_v<T, half>, float, T>;
                                  return static_cast<T>(static_cast<Wide>(sum.data<T>()[i]) /
                                                        static_cast<Wide>(static_cast<T>(count)));
                                }));
    }
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    state.sum = Tensor();
    state.count = 0;
    ++state.step;
    FORMWORK_RETURN_IF_ERROR(Write(ctx, std::move(opened)));
    ctx.SetOutput(0, std::move(taken));
    return absl::OkStatus();
  });
}

}  // namespace

const StoredForm kStoredMeanAccumulator = {
    .kind = kMeanAccumulatorKind, .parts = StoredParts, .value = ValueOfParts, .type_parts = 1};
const StoredForm kStoredSumAccumulator = {
    .kind = kSumAccumulatorKind, .parts = StoredParts, .value = ValueOfParts, .type_parts = 1};

void RegisterAccumulatorCpuKernels(KernelRegistry& registry) {
  registry.Add("ResourceAccumulatorApplyGradient", MakeApply);
  registry.Add("ResourceAccumulatorNumAccumulated", MakeNumAccumulated);
  registry.Add("ResourceAccumulatorSetGlobalStep", MakeSetGlobalStep);
  registry.Add("ResourceAccumulatorTakeGradient", MakeTake);
}

}  // namespace formwork
