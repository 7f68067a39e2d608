#pragma once

// Steps that wait until others have changed a resource's state: a queue's, say.

#include <utility>

#include "core/base/status.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// First thing in a step that may return AwaitState: OK once it has its places. Where it has
/// waited, it looks again at all that it has seen of resources. Errors: those of the StopFlag, and
/// of ResourceAccess::ComeBack.
inline absl::Status ComeBack(KernelContext& ctx) {
  std::shared_ptr<Awaited>& awaited = ctx.call().awaited();
  if (awaited == nullptr) return absl::OkStatus();
  if (awaited->over()) return ctx.resources().ComeBack(awaited);
  StopFlag& stop = ctx.call().stop();
  return stop.requested() ? stop.status() : Waiting();
}

/// ResourceAccess::AwaitState, by the call's own awaited. `what`: what is waited for, for errors.
inline absl::Status AwaitState(KernelContext& ctx, ResourceHandle handle, absl::string_view what,
                               absl::AnyInvocable<bool(const Tensor& state) const> goes_on) {
  if (ctx.call().keeps_thread()) {
    return Unimplemented("waiting for ", what, " in a function that a kernel runs");
  }
  return ctx.resources().AwaitState(handle, std::move(goes_on), ctx.call().awaited());
}

}  // namespace formwork
