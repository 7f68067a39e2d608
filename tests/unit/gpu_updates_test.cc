// What GPUs do to variables, element by element (gpu/update_functions.h), on the host against the
// op cases.

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "core/ops/training.h"
#include "core/ops/variable.h"
#include "gpu/update_functions.h"
#include "gpu/update_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

template <typename Call>
absl::Status WithFloat(DType dtype, Call call) {
  switch (dtype) {
    case DType::kFloat:
      return call(float());
    case DType::kDouble:
      return call(double());
    case DType::kHalf:
      return call(half());
    case DType::kBfloat16:
      return call(bfloat16());
    default:
      return Unimplemented("a dtype that a GPU leaves to the host");
  }
}

template <typename Op>
absl::StatusOr<KernelFn> MakeUpdate(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& by = ctx.input(1);
    const auto change = [&](Tensor& value) -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(CheckVariableUpdate(value, by));
      const auto run = [&](auto e) {
        using E = decltype(e);
        const element::UpdateItem<E, Op> item{static_cast<E*>(value.mutable_raw()),
                                              static_cast<const E*>(by.raw())};
        for (int64_t i = by.num_elements(); i-- > 0;) item(static_cast<uint64_t>(i));
        return absl::OkStatus();
      };
      if (by.dtype() == DType::kInt32) return run(int32_t());
      if (by.dtype() == DType::kInt8) return run(int8_t());
      if (by.dtype() == DType::kUint64) return run(uint64_t());
      return WithFloat(by.dtype(), run);
    };
    return ctx.resources().Update(ctx.input(0).scalar<ResourceHandle>(), 0, change);
  });
}

using Tensors = std::vector<Tensor*>;
using Apply =
    std::function<absl::Status(const Tensors& variables, const std::vector<const Tensor*>& scalars,
                               const Tensor& grad, bool update_slots)>;

template <template <typename> typename Rule>
Apply Of() {
  return [](const Tensors& variables, const std::vector<const Tensor*>& scalars, const Tensor& grad,
            bool update_slots) {
    return WithFloat(grad.dtype(), [&](auto e) -> absl::Status {
      using E = decltype(e);
      using C = std::conditional_t<std::is_same_v<E, double>, double, float>;
      if (Rule<C>::kVariables != static_cast<int>(variables.size()) ||
          Rule<C>::kScalars != static_cast<int>(scalars.size())) {
        return Internal("the table of optimizers differs from the rules");
      }
      element::OptimizerItem<E, Rule<C>> item{};
      for (size_t k = 0; k < variables.size(); ++k) {
        item.variables[k] = static_cast<E*>(variables[k]->mutable_raw());
      }
      for (size_t k = 0; k < scalars.size(); ++k) {
        item.scalars[k] = static_cast<const E*>(scalars[k]->raw());
      }
      item.grad = static_cast<const E*>(grad.raw());
      item.update_slots = update_slots;
      for (int64_t i = grad.num_elements(); i-- > 0;) item(static_cast<uint64_t>(i));
      return absl::OkStatus();
    });
  };
}

template <typename C>
using Adam = training::Adam<C, false>;
template <typename C>
using NesterovAdam = training::Adam<C, true>;
template <typename C>
using Momentum = training::Momentum<C, false>;
template <typename C>
using NesterovMomentum = training::Momentum<C, true>;
template <typename C>
using KerasMomentum = training::KerasMomentum<C, false>;
template <typename C>
using NesterovKerasMomentum = training::KerasMomentum<C, true>;
template <typename C>
using Ftrl = training::Ftrl<C, false>;
template <typename C>
using MultipliedFtrl = training::Ftrl<C, true>;

// By the rules' names as the kernels' texts have them.
const std::map<std::string, Apply>& Rules() {
  static const auto* const rules = new std::map<std::string, Apply>{
      {"GradientDescent<$0>", Of<training::GradientDescent>()},
      {"Adam<$0, false>", Of<Adam>()},
      {"Adam<$0, true>", Of<NesterovAdam>()},
      {"Momentum<$0, false>", Of<Momentum>()},
      {"Momentum<$0, true>", Of<NesterovMomentum>()},
      {"KerasMomentum<$0, false>", Of<KerasMomentum>()},
      {"KerasMomentum<$0, true>", Of<NesterovKerasMomentum>()},
      {"Adadelta<$0>", Of<training::Adadelta>()},
      {"Adagrad<$0>", Of<training::Adagrad>()},
      {"AdagradV2<$0>", Of<training::AdagradV2>()},
      {"RmsProp<$0>", Of<training::RmsProp>()},
      {"CenteredRmsProp<$0>", Of<training::CenteredRmsProp>()},
      {"AdaMax<$0>", Of<training::AdaMax>()},
      {"Ftrl<$0, false>", Of<Ftrl>()},
      {"Ftrl<$0, true>", Of<MultipliedFtrl>()},
      {"ProximalGradientDescent<$0>", Of<training::ProximalGradientDescent>()},
      {"ProximalAdagrad<$0>", Of<training::ProximalAdagrad>()},
  };
  return *rules;
}

absl::Status Open(KernelContext& ctx, const OptimizerInputs& inputs, Tensors& variables,
                  const std::function<absl::Status()>& apply) {
  const int i = static_cast<int>(variables.size());
  if (i == inputs.variables) return apply();
  return ctx.resources().Update(ctx.input(i).scalar<ResourceHandle>(), 0, [&](Tensor& value) {
    variables.push_back(&value);
    return Open(ctx, inputs, variables, apply);
  });
}

absl::StatusOr<KernelFn> MakeOptimizer(KernelInit& init) {
  const OptimizerOp* op = nullptr;
  for (const OptimizerOp& each : OptimizerOps()) {
    if (each.op == init.op().name) op = &each;
  }
  const bool other = !op->chosen_by.empty() && init.attrs().GetOr<bool>(op->chosen_by, false);
  const Apply& apply = Rules().at(std::string(other ? op->other : op->rule));
  const bool update_slots = init.attrs().GetOr<bool>("update_slots", true);
  return KernelFn([&apply, update_slots,
                   inputs = OptimizerInputs::Of(init.op())](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(inputs.Check([&](int i) -> const Tensor& { return ctx.input(i); }));
    const Tensor& grad = ctx.input(inputs.grad);
    std::vector<const Tensor*> scalars;
    for (int i = inputs.variables; i < ctx.num_inputs(); ++i) {
      if (i != inputs.grad) scalars.push_back(&ctx.input(i));
    }
    Tensors variables;
    return Open(ctx, inputs, variables, [&]() -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(inputs.CheckVariables(variables, grad));
      return apply(variables, scalars, grad, update_slots);
    });
  });
}

template <typename In, typename Out>
absl::Status RunCast(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(ctx.allocator(), DTypeOf<Out>::value, x.shape()));
  Out* const to = static_cast<Out*>(out.mutable_raw());
  for (int64_t i = 0; i < x.num_elements(); ++i) to[i] = element::CastTo<Out>(x.data<In>()[i]);
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

using Casts = std::map<std::pair<DType, DType>, absl::Status (*)(KernelContext&)>;
template <typename In, typename... Outs>
void AddCasts(Casts& casts) {
  ((casts[{DTypeOf<In>::value, DTypeOf<Outs>::value}] = &RunCast<In, Outs>), ...);
}
#define EVERY_TYPE                                                                               \
  float, double, half, bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, \
      uint64_t, bool
template <typename... Ins>
Casts AllCasts() {
  Casts casts;
  (AddCasts<Ins, EVERY_TYPE>(casts), ...);
  return casts;
}

absl::StatusOr<KernelFn> MakeCast(KernelInit& init) {
  static const auto* const casts = new Casts(AllCasts<EVERY_TYPE>());
  const auto found = casts->find({init.input_dtypes()[0], init.output_dtypes()[0]});
  if (found == casts->end()) return Unimplemented("a dtype that a GPU leaves to the host");
  return KernelFn(found->second);
}

TEST(GpuUpdatesTest, CastsGiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("Cast", &MakeCast);
  const auto does_not_truncate = [](OpCase& op_case) {
    return std::none_of(op_case.attrs.begin(), op_case.attrs.end(),
                        [](const auto& attr) { return attr.first == "Truncate"; });
  };
  std::map<std::string, int> tried = RunGpuCases(
      {.files = {"cast"}, .some_are_hosts = true, .edit = does_not_truncate}, ops, kernels);
  EXPECT_GT(tried["Cast"], 150);
}

TEST(GpuUpdatesTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("AssignAddVariableOp", &MakeUpdate<element::AddTo>);
  kernels.Add("AssignSubVariableOp", &MakeUpdate<element::SubFrom>);
  for (const OptimizerOp& op : OptimizerOps()) kernels.Add(op.op, &MakeOptimizer);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"variable"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 0) << op;
}

}  // namespace
}  // namespace formwork::testing
