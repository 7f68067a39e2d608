// What changes variables element by element on a GPU: AssignAdd, AssignSub and optimizers. Where a
// step before has failed by the call's word, they change nothing.

#include <array>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/base/status.h"
#include "core/ops/training.h"
#include "core/ops/variable.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/update_functions.h"
#include "gpu/update_items.h"

namespace formwork {
namespace {

namespace element = formwork_element;

std::unique_ptr<ItemKernel> KernelOf(const std::string& item) {
  return std::make_unique<ItemKernel>(UpdateSource(item), ItemKernel::OfText());
}

template <bool kSubtracts>
absl::StatusOr<KernelFn> MakeUpdate(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string item,
                            UpdateItemName(init.input_dtypes()[1], kSubtracts));
  auto kernel = KernelOf(item);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& by = ctx.input(1);
    const auto change = [&](Tensor& value) -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(CheckVariableUpdate(value, by));
      // Of any element type: pointers alone.
      const element::UpdateItem<char, element::AddTo> made{static_cast<char*>(value.mutable_raw()),
                                                           static_cast<const char*>(by.raw())};
      return kernel->Enqueue(made, static_cast<uint64_t>(by.num_elements()),
                             {EarlierFailure(ctx), 0}, CudaStreamOf(StreamOf(ctx)));
    };
    return ctx.resources().Update(ctx.input(0).scalar<ResourceHandle>(), 3 * by.bytes(), change);
  });
}

using Variables = std::array<Tensor*, element::kMostOptimized>;

// Opens the variables one inside the other, so that all are written or none.
absl::Status UpdateAll(KernelContext& ctx, const OptimizerInputs& inputs, int i,
                       Variables& variables, absl::FunctionRef<absl::Status()> apply) {
  if (i == inputs.variables) return apply();
  return ctx.resources().Update(ctx.input(i).scalar<ResourceHandle>(),
                                ctx.input(inputs.grad).bytes(), [&](Tensor& value) -> absl::Status {
                                  variables[i] = &value;
                                  return UpdateAll(ctx, inputs, i + 1, variables, apply);
                                });
}

absl::StatusOr<KernelFn> MakeOptimizer(KernelInit& init) {
  const OptimizerOp* op = nullptr;
  for (const OptimizerOp& each : OptimizerOps()) {
    if (each.op == init.op().name) op = &each;
  }
  if (op == nullptr) return Internal(init.op().name, " is no optimizer of the table");
  OptimizerInputs inputs = OptimizerInputs::Of(init.op());
  if (inputs.variables != op->variables || inputs.scalars() != op->scalars || inputs.grad < 0) {
    return Internal(op->op, ": inputs are not as its rule has them");
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const std::string item,
      OptimizerItemName(*op, init.input_dtypes()[inputs.variables], init.attrs()));
  auto kernel = KernelOf(item);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  const bool update_slots = init.attrs().GetOr<bool>("update_slots", true);
  return KernelFn([inputs = std::move(inputs), update_slots,
                   kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(inputs.Check([&](int i) -> const Tensor& { return ctx.input(i); }));
    const Tensor& grad = ctx.input(inputs.grad);
    Variables variables{};
    return UpdateAll(ctx, inputs, 0, variables, [&]() -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(inputs.CheckVariables(variables, grad));
      // Of any element type and rule: pointers and a flag alone.
      element::OptimizerItem<char, void> made{};
      for (int k = 0; k < inputs.variables; ++k) {
        made.variables[k] = static_cast<char*>(variables[k]->mutable_raw());
      }
      int next = 0;
      for (int i = inputs.variables; i < ctx.num_inputs(); ++i) {
        if (i != inputs.grad) made.scalars[next++] = static_cast<const char*>(ctx.input(i).raw());
      }
      made.grad = static_cast<const char*>(grad.raw());
      made.update_slots = update_slots;
      return kernel->Enqueue(made, static_cast<uint64_t>(grad.num_elements()),
                             {EarlierFailure(ctx), 0}, CudaStreamOf(StreamOf(ctx)));
    });
  });
}

}  // namespace

void RegisterUpdateKernels(KernelRegistry& registry) {
  registry.Add("AssignAddVariableOp", &MakeUpdate<false>);
  registry.Add("AssignSubVariableOp", &MakeUpdate<true>);
  for (const OptimizerOp& op : OptimizerOps()) registry.Add(op.op, &MakeOptimizer);
}

}  // namespace formwork
