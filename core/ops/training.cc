#include "absl/strings/str_cat.h"
#include "core/ops/register_ops.h"

namespace formwork {

void RegisterTrainingOps(OpRegistry& registry) {
  struct Optimizer {
    absl::string_view name_and_inputs;
    absl::string_view attrs;
  };
  static constexpr Optimizer kOptimizers[] = {
      {"ResourceApplyAdam(var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, "
       "lr: T, beta1: T, beta2: T, epsilon: T, grad: T)",
       "use_locking: bool = false; use_nesterov: bool = false"},
      {"ResourceApplyGradientDescent(var: resource, alpha: T, delta: T)",
       "use_locking: bool = false"},
      {"ResourceApplyMomentum(var: resource, accum: resource, lr: T, grad: T, momentum: T)",
       "use_locking: bool = false; use_nesterov: bool = false"},
      {"ResourceApplyKerasMomentum(var: resource, accum: resource, lr: T, grad: T, momentum: T)",
       "use_locking: bool = false; use_nesterov: bool = false"},
      {"ResourceApplyAdadelta(var: resource, accum: resource, accum_update: resource, lr: T, rho: "
       "T, epsilon: T, grad: T)",
       "use_locking: bool = false"},
      {"ResourceApplyFtrl(var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, "
       "l2: T, lr_power: T)",
       "use_locking: bool = false; multiply_linear_by_lr: bool = false"},
      {"ResourceApplyAdagradV2(var: resource, accum: resource, lr: T, epsilon: T, grad: T)",
       "use_locking: bool = false; update_slots: bool = true"},
      {"ResourceApplyRMSProp(var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: "
       "T, epsilon: T, grad: T)",
       "use_locking: bool = false"},
      {"ResourceApplyCenteredRMSProp(var: resource, mg: resource, ms: resource, mom: resource, lr: "
       "T, rho: T, momentum: T, epsilon: T, grad: T)",
       "use_locking: bool = false"},
      {"ResourceApplyAdaMax(var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: "
       "T, beta2: T, epsilon: T, grad: T)",
       "use_locking: bool = false"},
      {"ResourceApplyAdagrad(var: resource, accum: resource, lr: T, grad: T)",
       "use_locking: bool = false; update_slots: bool = true"},
      {"ResourceApplyProximalGradientDescent(var: resource, alpha: T, l1: T, l2: T, delta: T)",
       "use_locking: bool = false"},
      {"ResourceApplyProximalAdagrad(var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T)",
       "use_locking: bool = false"},
  };
  for (const Optimizer& optimizer : kOptimizers) {
    registry.Add(
        absl::StrCat(optimizer.name_and_inputs, " -> (); T: numbertype; ", optimizer.attrs),
        {.effect = Effect::kWrite});
  }
}

}  // namespace formwork
