#pragma once

// Changing a resource's state in place where nobody else has it, else in a copy.

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/base/memory_budget.h"
#include "core/base/stop_flag.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// `state`, a State that has been read of the resource and moved here, is changed by `change`,
/// which needs no memory: `reserve` takes what it needs before. `bytes`: what it holds then. On an
/// error nothing has changed. Errors: those of allocating, and of ResourceAccess::WriteState.
template <typename State>
absl::Status ChangeState(KernelContext& ctx, ResourceHandle handle, Tensor state, size_t bytes,
                         absl::FunctionRef<void(State&)> reserve,
                         absl::FunctionRef<void(State&)> change) {
  const auto of = [](const Tensor& tensor) -> State& {
    return static_cast<State&>(*tensor.scalar<Variant>());
  };
  const UncutScope uncut;
  const bool own =
      state.scalar<Variant>().use_count() == 1 && ctx.resources().LeaveValue(handle, state, 0);
  Tensor changed = state;
  absl::Status status = CatchOutOfMemory([&] {
    if (!own) changed = Tensor::VariantScalar(std::make_shared<State>(of(state)));
    reserve(of(changed));
    return ctx.resources().WriteState(handle, changed, bytes);
  });
  if (status.ok()) {
    change(of(changed));
  } else if (own) {
    ctx.resources().PutBack(handle, std::move(state));
  }
  return status;
}

}  // namespace formwork
