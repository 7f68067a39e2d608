#pragma once

#include <utility>

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

/// What a kernel opens of a resource that is no variable.
struct OpenState {
  ResourceHandle handle;
  const ResourceType& type;
  Tensor state;  ///< As ResourceAccess::ReadState gives it: without value at first.
};

/// That behind input 0. `name`: what it has to be, with its article. Errors: kInvalidArgument for a
/// handle of another kind; HandleOf's and ReadState's.
inline absl::StatusOr<OpenState> OpenStateOf(KernelContext& ctx, bool (*is)(const ResourceType&),
                                             absl::string_view name) {
  FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
  FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ctx.resources().TypeOf(handle));
  if (!is(*type)) {
    return InvalidArgument("the handle is not ", name, "'s but a ", type->kind->name, "'s");
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor state, ctx.resources().ReadState(handle));
  return OpenState{handle, *type, std::move(state)};
}

/// Whether it is of that kind, for OpenStateOf.
template <const ResourceKind& kind>
bool IsOf(const ResourceType& type) {
  return type.kind == &kind;
}

}  // namespace formwork
