// Optimizers: one pattern for all. Several variables are updated together, in place where nobody
// else holds their values; every shape is checked before anything is written.

#include <algorithm>
#include <array>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/isa.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/training/training_rules.h"
#include "core/ops/training.h"

namespace formwork {
namespace {

using training::Options;

constexpr int kMaxVariables = 4;
constexpr int kMaxScalars = 6;
using Variables = std::array<Tensor*, kMaxVariables>;

template <typename T>
constexpr bool kIsSmallFloat = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <typename T>
using ComputeType = std::conditional_t<kIsSmallFloat<T>, float, T>;

// --- The loop -----------------------------------------------------------------------------------

template <typename T, typename Rule>
FORMWORK_RULE_INLINE void Loop(const Rule& rule, T* __restrict a, T* __restrict b, T* __restrict c,
                               T* __restrict d, const T* __restrict grad, int64_t begin,
                               int64_t end) {
  using C = ComputeType<T>;
  const Rule local = rule;
  for (int64_t i = begin; i < end; ++i) {
    C va = static_cast<C>(a[i]);
    C vb{};
    C vc{};
    C vd{};
    if constexpr (Rule::kVariables > 1) vb = static_cast<C>(b[i]);
    if constexpr (Rule::kVariables > 2) vc = static_cast<C>(c[i]);
    if constexpr (Rule::kVariables > 3) vd = static_cast<C>(d[i]);
    local(va, vb, vc, vd, static_cast<C>(grad[i]));
    a[i] = static_cast<T>(va);
    if constexpr (Rule::kVariables > 1) b[i] = static_cast<T>(vb);
    if constexpr (Rule::kVariables > 2) c[i] = static_cast<T>(vc);
    if constexpr (Rule::kVariables > 3) d[i] = static_cast<T>(vd);
  }
}

#if defined(__x86_64__)
// Without FMA: its other rounding would take the results further from TensorFlow's.
template <typename T, typename Rule>
__attribute__((target("avx2"))) void LoopAvx2(const Rule& rule, T* a, T* b, T* c, T* d,
                                              const T* grad, int64_t begin, int64_t end) {
  Loop(rule, a, b, c, d, grad, begin, end);
}
#endif

template <typename T, typename Rule>
void LoopAny(const Rule& rule, T* a, T* b, T* c, T* d, const T* grad, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (HostIsa() != Isa::kBaseline) return LoopAvx2(rule, a, b, c, d, grad, begin, end);
  }
#endif
  Loop(rule, a, b, c, d, grad, begin, end);
}

using Scalars = std::array<const Tensor*, kMaxScalars>;

template <typename C, typename T>
C ScalarOf(const Tensor& scalar) {
  if (scalar.dtype() == DType::kInt64) return static_cast<C>(scalar.scalar<int64_t>());
  return static_cast<C>(scalar.scalar<T>());
}

// `indices`: of a sparse update, else null. Its rows come in order: one may be there twice.
template <typename T, typename Rule>
void Apply(const Variables& variables, const Tensor& grad, const Tensor* indices,
           const Scalars& scalars, const Options& options) {
  using C = ComputeType<T>;
  C values[kMaxScalars] = {};
  for (int i = 0; i < Rule::kScalars; ++i) values[i] = ScalarOf<C, T>(*scalars[i]);
  const Rule rule(values, options);
  T* data[kMaxVariables] = {};
  for (int i = 0; i < Rule::kVariables; ++i) data[i] = variables[i]->mutable_data<T>();
  const T* gradient = grad.data<T>();
  const auto run = [&](int64_t begin, int64_t end) {
    LoopAny<T>(rule, data[0], data[1], data[2], data[3], gradient, begin, end);
  };
  constexpr int64_t kGrain = 1 << 14;
  if (indices != nullptr) {
    if (grad.num_elements() == 0) return;
    const int64_t width = grad.num_elements() / indices->num_elements();
    ForBlocks(indices->num_elements(), std::max<int64_t>(kGrain / width, 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t row = indices->dtype() == DType::kInt32
                                          ? indices->data<int32_t>()[i]
                                          : indices->data<int64_t>()[i];
                  T* at[kMaxVariables] = {};
                  for (int k = 0; k < Rule::kVariables; ++k) at[k] = data[k] + row * width;
                  LoopAny<T>(rule, at[0], at[1], at[2], at[3], gradient + i * width, 0, width);
                }
              });
  } else if (grad.num_elements() <= kGrain) {
    run(0, grad.num_elements());
  } else {
    ParallelFor(grad.num_elements(), kGrain, run);
  }
}

using ApplyFn = void (*)(const Variables& variables, const Tensor& grad, const Tensor* indices,
                         const Scalars& scalars, const Options& options);

// Complex variables are for the rules that need no order among numbers.
template <template <typename> typename Rule, bool kComplex>
ApplyFn ApplyFor(DType dtype) {
  switch (dtype) {
    FORMWORK_FLOAT_CASES(return (&Apply<T, Rule<ComputeType<T>>>))
    default:
      break;
  }
  if constexpr (kComplex) {
    switch (dtype) {
      FORMWORK_COMPLEX_CASES(return (&Apply<T, Rule<T>>))
      default:
        break;
    }
  }
  return nullptr;
}

// --- The kernel ---------------------------------------------------------------------------------

// Opens the variables one inside the other, so that all are written or none.
absl::Status UpdateAll(KernelContext& ctx, const OptimizerInputs& inputs, int i,
                       Variables& variables, absl::FunctionRef<absl::Status()> apply) {
  if (i == inputs.variables) return apply();
  const ResourceHandle handle = ctx.input(i).scalar<ResourceHandle>();
  const size_t bytes_moved = 3 * ctx.input(inputs.grad).bytes();  // Gradient and value, and back.
  return ctx.resources().Update(handle, bytes_moved, [&](Tensor& value) -> absl::Status {
    variables[i] = &value;
    return UpdateAll(ctx, inputs, i + 1, variables, apply);
  });
}

absl::StatusOr<KernelFn> MakeKernel(KernelInit& init, ApplyFn apply, int variables, int scalars) {
  const DType dtype = init.input_dtypes()[variables];
  if (apply == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  Options options;
  if (init.op().FindAttr("update_slots") != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(options.update_slots, init.attrs().Get<bool>("update_slots"));
  }
  OptimizerInputs inputs = OptimizerInputs::Of(init.op());
  if (inputs.grad < 0 || inputs.variables != variables || inputs.scalars() != scalars) {
    return Internal(init.op().name, ": inputs are not as its rule has them");
  }
  return KernelFn([apply, options, inputs = std::move(inputs)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(inputs.Check([&](int i) -> const Tensor& { return ctx.input(i); }));
    Scalars scalars{};
    int next = 0;
    for (int i = inputs.variables; i < ctx.num_inputs(); ++i) {
      if (i != inputs.grad && i != inputs.indices) scalars[next++] = &ctx.input(i);
    }
    const Tensor& grad = ctx.input(inputs.grad);
    const Tensor* indices = inputs.indices < 0 ? nullptr : &ctx.input(inputs.indices);
    Variables variables{};
    return UpdateAll(ctx, inputs, 0, variables, [&]() -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(indices == nullptr ? inputs.CheckVariables(variables, grad)
                                                  : inputs.CheckRows(variables, grad, *indices));
      apply(variables, grad, indices, scalars, options);
      return absl::OkStatus();
    });
  });
}

template <template <typename> typename Rule, bool kComplex = true>
absl::StatusOr<KernelFn> Make(KernelInit& init) {
  constexpr int kVariables = Rule<float>::kVariables;
  return MakeKernel(init, ApplyFor<Rule, kComplex>(init.input_dtypes()[kVariables]), kVariables,
                    Rule<float>::kScalars);
}

// For rules of two variants that an attr chooses between.
template <template <typename> typename Plain, template <typename> typename Other,
          bool kComplex = true>
absl::StatusOr<KernelFn> MakeEither(KernelInit& init, absl::string_view attr) {
  FORMWORK_ASSIGN_OR_RETURN(const bool other, init.attrs().Get<bool>(attr));
  return other ? Make<Other, kComplex>(init) : Make<Plain, kComplex>(init);
}

template <typename C>
using PlainAdam = training::Adam<C, false>;
template <typename C>
using NesterovAdam = training::Adam<C, true>;
template <typename C>
using PlainMomentum = training::Momentum<C, false>;
template <typename C>
using NesterovMomentum = training::Momentum<C, true>;
template <typename C>
using PlainKerasMomentum = training::KerasMomentum<C, false>;
template <typename C>
using NesterovKerasMomentum = training::KerasMomentum<C, true>;
template <typename C>
using PlainFtrl = training::Ftrl<C, false>;
template <typename C>
using MultipliedFtrl = training::Ftrl<C, true>;

absl::StatusOr<KernelFn> MakeAdam(KernelInit& init) {
  return MakeEither<PlainAdam, NesterovAdam>(init, "use_nesterov");
}
absl::StatusOr<KernelFn> MakeMomentum(KernelInit& init) {
  return MakeEither<PlainMomentum, NesterovMomentum>(init, "use_nesterov");
}
absl::StatusOr<KernelFn> MakeKerasMomentum(KernelInit& init) {
  return MakeEither<PlainKerasMomentum, NesterovKerasMomentum>(init, "use_nesterov");
}
absl::StatusOr<KernelFn> MakeFtrl(KernelInit& init) {
  return MakeEither<PlainFtrl, MultipliedFtrl, false>(init, "multiply_linear_by_lr");
}

}  // namespace

void RegisterTrainingCpuKernels(KernelRegistry& registry) {
  registry.Add("ResourceApplyGradientDescent", Make<training::GradientDescent>);
  registry.Add("ResourceApplyAdam", MakeAdam);
  registry.Add("ResourceApplyMomentum", MakeMomentum);
  registry.Add("ResourceApplyKerasMomentum", MakeKerasMomentum);
  registry.Add("ResourceApplyAdadelta", Make<training::Adadelta>);
  registry.Add("ResourceApplyAdagrad", Make<training::Adagrad>);
  registry.Add("ResourceApplyAdagradV2", Make<training::AdagradV2>);
  registry.Add("ResourceApplyRMSProp", Make<training::RmsProp>);
  registry.Add("ResourceApplyCenteredRMSProp", Make<training::CenteredRmsProp>);
  registry.Add("ResourceApplyAdaMax", Make<training::AdaMax, false>);
  registry.Add("ResourceApplyFtrl", MakeFtrl);
  registry.Add("ResourceApplyProximalGradientDescent",
               Make<training::ProximalGradientDescent, false>);
  registry.Add("ResourceApplyProximalAdagrad", Make<training::ProximalAdagrad, false>);
  registry.Add("ResourceApplyAdagradDA", Make<training::AdagradDa, false>);
  registry.Add("ResourceSparseApplyMomentum", MakeMomentum);
  registry.Add("ResourceSparseApplyKerasMomentum", MakeKerasMomentum);
  registry.Add("ResourceSparseApplyAdadelta", Make<training::Adadelta>);
  registry.Add("ResourceSparseApplyAdagrad", Make<training::Adagrad>);
  registry.Add("ResourceSparseApplyAdagradV2", Make<training::AdagradV2>);
  registry.Add("ResourceSparseApplyRMSProp", Make<training::RmsProp>);
  registry.Add("ResourceSparseApplyCenteredRMSProp", Make<training::CenteredRmsProp>);
  registry.Add("ResourceSparseApplyFtrl", MakeFtrl);
  registry.Add("ResourceSparseApplyProximalGradientDescent",
               Make<training::ProximalGradientDescent, false>);
  registry.Add("ResourceSparseApplyProximalAdagrad", Make<training::ProximalAdagrad, false>);
}

}  // namespace formwork
