#pragma once

#include "core/base/status.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// The handle that a kernel is given as input 0. Errors: kInvalidArgument unless it is one handle.
inline absl::StatusOr<ResourceHandle> HandleOf(KernelContext& ctx) {
  const Tensor& handle = ctx.input(0);
  if (handle.num_elements() != 1) {
    return InvalidArgument("resource must be a single handle: shape=", handle.shape().ToString());
  }
  return handle.scalar<ResourceHandle>();
}

}  // namespace formwork
