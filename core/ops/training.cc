#include "core/ops/training.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/register_ops.h"

namespace formwork {

OptimizerInputs OptimizerInputs::Of(const OpDef& op) {
  OptimizerInputs inputs;
  for (const ArgDef& arg : op.inputs) {
    if (arg.type == DType::kResource) ++inputs.variables;
    if (arg.name == "grad" || arg.name == "delta") {
      inputs.grad = static_cast<int>(inputs.names.size());
    }
    if (arg.name == "indices") inputs.indices = static_cast<int>(inputs.names.size());
    inputs.names.push_back(arg.name);
  }
  return inputs;
}

absl::Status OptimizerInputs::Check(absl::FunctionRef<const Tensor&(int i)> input) const {
  for (int i = 0; i < variables; ++i) {
    if (input(i).num_elements() != 1) {
      return InvalidArgument("resource must be a single handle: shape=",
                             input(i).shape().ToString());
    }
    for (int k = 0; k < i; ++k) {
      if (input(i).scalar<ResourceHandle>().id != input(k).scalar<ResourceHandle>().id) continue;
      return InvalidArgument(names[k], " and ", names[i], " are the same variable");
    }
  }
  for (int i = variables; i < static_cast<int>(names.size()); ++i) {
    if (i == grad || i == indices || input(i).rank() == 0) continue;
    return InvalidArgument(names[i], " is not a scalar: ", input(i).shape().ToString());
  }
  if (indices >= 0 && input(indices).rank() != 1) {
    return InvalidArgument("indices must be one-dimensional");
  }
  return absl::OkStatus();
}

absl::Status OptimizerInputs::CheckAlike(absl::Span<const Tensor* const> values,
                                         DType dtype) const {
  const Shape& shape = values[0]->shape();
  for (int i = 0; i < variables; ++i) {
    if (values[i]->dtype() != dtype) {
      return InvalidArgument("Trying to update variable with wrong dtype. Expected ",
                             GraphDTypeName(values[i]->dtype()), " got ", GraphDTypeName(dtype));
    }
    if (values[i]->shape() != shape) {
      return InvalidArgument("var and ", names[i], " do not have the same shape", shape.ToString(),
                             " ", values[i]->shape().ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status OptimizerInputs::CheckVariables(absl::Span<const Tensor* const> values,
                                             const Tensor& gradient) const {
  FORMWORK_RETURN_IF_ERROR(CheckAlike(values, gradient.dtype()));
  const Shape& shape = values[0]->shape();
  if (gradient.shape() != shape) {
    return InvalidArgument("var and ", names[grad], " do not have the same shape", shape.ToString(),
                           " ", gradient.shape().ToString());
  }
  return absl::OkStatus();
}

absl::Status OptimizerInputs::CheckRows(absl::Span<const Tensor* const> values,
                                        const Tensor& gradient, const Tensor& indices) const {
  FORMWORK_RETURN_IF_ERROR(CheckAlike(values, gradient.dtype()));
  const Shape& shape = values[0]->shape();
  if (shape.rank() == 0) return InvalidArgument("var must be at least 1 dimensional");
  if (gradient.rank() != shape.rank()) {
    return InvalidArgument("var and grad do not have the same rank: ", shape.ToString(), " ",
                           gradient.shape().ToString());
  }
  for (int d = 1; d < shape.rank(); ++d) {
    if (shape.dim(d) != gradient.dim(d)) {
      return InvalidArgument("var and grad must match in dimension ", d);
    }
  }
  if (gradient.dim(0) != indices.dim(0)) {
    return InvalidArgument("grad must be the same size as indices in the first dimension.");
  }
  if (indices.num_elements() > 0 && gradient.num_elements() == 0) {
    return InvalidArgument("Inner dimension should be greater than zero.");
  }
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const int64_t row =
        indices.dtype() == DType::kInt32 ? indices.data<int32_t>()[i] : indices.data<int64_t>()[i];
    if (row < 0 || row >= shape.dim(0)) {
      return InvalidArgument("Index ", row, " at offset ", i,
                             " in indices is out of range: rows=", shape.dim(0));
    }
  }
  return absl::OkStatus();
}

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
      {"ResourceApplyAdagradDA(var: resource, gradient_accumulator: resource, "
       "gradient_squared_accumulator: resource, grad: T, lr: T, l1: T, l2: T, global_step: int64)",
       "use_locking: bool = false"},
      {"ResourceApplyProximalAdagrad(var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T)",
       "use_locking: bool = false"},
  };
  for (const Optimizer& optimizer : kOptimizers) {
    registry.Add(
        absl::StrCat(optimizer.name_and_inputs, " -> (); T: numbertype; ", optimizer.attrs),
        {.effect = Effect::kWrite});
  }
  static constexpr Optimizer kSparseOptimizers[] = {
      {"ResourceSparseApplyAdadelta(var: resource, accum: resource, accum_update: resource, lr: T, "
       "rho: T, epsilon: T, grad: T, indices: Tindices)",
       "use_locking: bool = false"},
      {"ResourceSparseApplyAdagrad(var: resource, accum: resource, lr: T, grad: T, indices: "
       "Tindices)",
       "use_locking: bool = false; update_slots: bool = true"},
      {"ResourceSparseApplyAdagradV2(var: resource, accum: resource, lr: T, epsilon: T, grad: T, "
       "indices: Tindices)",
       "use_locking: bool = false; update_slots: bool = true"},
      {"ResourceSparseApplyFtrl(var: resource, accum: resource, linear: resource, grad: T, "
       "indices: "
       "Tindices, lr: T, l1: T, l2: T, lr_power: T)",
       "use_locking: bool = false; multiply_linear_by_lr: bool = false"},
      {"ResourceSparseApplyMomentum(var: resource, accum: resource, lr: T, grad: T, indices: "
       "Tindices, momentum: T)",
       "use_locking: bool = false; use_nesterov: bool = false"},
      {"ResourceSparseApplyKerasMomentum(var: resource, accum: resource, lr: T, grad: T, indices: "
       "Tindices, momentum: T)",
       "use_locking: bool = false; use_nesterov: bool = false"},
      {"ResourceSparseApplyRMSProp(var: resource, ms: resource, mom: resource, lr: T, rho: T, "
       "momentum: T, epsilon: T, grad: T, indices: Tindices)",
       "use_locking: bool = false"},
      {"ResourceSparseApplyCenteredRMSProp(var: resource, mg: resource, ms: resource, mom: "
       "resource, "
       "lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices)",
       "use_locking: bool = false"},
      {"ResourceSparseApplyProximalGradientDescent(var: resource, alpha: T, l1: T, l2: T, grad: T, "
       "indices: Tindices)",
       "use_locking: bool = false"},
      {"ResourceSparseApplyProximalAdagrad(var: resource, accum: resource, lr: T, l1: T, l2: T, "
       "grad: T, indices: Tindices)",
       "use_locking: bool = false"},
  };
  for (const Optimizer& optimizer : kSparseOptimizers) {
    registry.Add(absl::StrCat(optimizer.name_and_inputs,
                              " -> (); T: numbertype; Tindices: indextype; ", optimizer.attrs),
                 {.effect = Effect::kWrite});
  }
}

}  // namespace formwork
