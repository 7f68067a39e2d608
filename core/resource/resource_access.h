#pragma once

// What a kernel may do with the resources of its call. The call's AccessTicket implements it, so
// that no kernel sees tickets, versions or locks.

#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/awaited.h"
#include "core/base/status.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Which rows, parts along the first dimension, of a value are meant: every `step`-th element of
/// `indices`, of int32 or int64, is the index of one, in any order and also more than once. One
/// that is out of range means none.
struct RowIndices {
  Tensor indices;
  int64_t step = 1;
};

/// Used by one thread at a time. Every method returns kInvalidArgument for a handle that is not
/// among the call's resources, or of another kind than the method is for; kNotFound for one that
/// has been destroyed. What changes a resource changes nothing where the kernel's work has been cut
/// (core/base/stop_flag.h).
class ResourceAccess {
 public:
  virtual ~ResourceAccess() = default;

  /// A variable's value; shares its buffer. Errors: kFailedPrecondition naming the variable if it
  /// is uninitialised.
  virtual absl::StatusOr<Tensor> Read(ResourceHandle handle) = 0;
  /// Replaces the value. Errors: kInvalidArgument if dtype or shape do not fit the variable.
  virtual absl::Status Assign(ResourceHandle handle, Tensor value) = 0;
  /// Lets `update` change the value. It is handed the value itself where nobody else holds the
  /// elements, else a copy, and may write into it or replace it; when it fails, the variable keeps
  /// its previous value (so it checks before it writes). On the value itself it runs to its end: a
  /// deadline or a cancellation cuts no work of it. So one that moves much, `bytes_moved`, is
  /// handed a copy also where copying adds little to that, or where a stop is near; not where there
  /// is no memory for one. Errors: as Read and Assign.
  virtual absl::Status Update(ResourceHandle handle, size_t bytes_moved,
                              absl::FunctionRef<absl::Status(Tensor& value)> update) = 0;
  /// As Update, of what changes elements of those rows alone.
  virtual absl::Status UpdateRows(ResourceHandle handle, const RowIndices& rows, size_t bytes_moved,
                                  absl::FunctionRef<absl::Status(Tensor& value)> update) {
    (void)rows;
    return Update(handle, bytes_moved, update);
  }

  /// Where `value`, which has been read of the variable, is held by the caller and the variable
  /// alone, leaves it to the caller, who may write into it then, and gives true. In an UncutScope
  /// that ends after the Assign or PutBack which has to follow for each such variable: until then
  /// it has no value. Assign does not fail then, if dtype and shape are as before. `bytes_moved`:
  /// by the work on it.
  virtual bool LeaveValue(ResourceHandle handle, const Tensor& value, size_t bytes_moved) {
    (void)handle, (void)value, (void)bytes_moved;
    return false;
  }
  /// Unwritten.
  virtual void PutBack(ResourceHandle handle, Tensor value) { (void)handle, (void)value; }

  /// The state of a resource of another kind, without value at first. It is never changed: who
  /// holds it holds a snapshot.
  virtual absl::StatusOr<Tensor> ReadState(ResourceHandle handle) = 0;
  /// Makes `state`, a scalar variant of what the resource's type says, its state. `bytes`: what it
  /// holds.
  virtual absl::Status WriteState(ResourceHandle handle, Tensor state, size_t bytes) = 0;

  /// For a step of an op that waits (OpTraits::waits) and cannot go on before others have changed
  /// the state: as a condition variable's wait does, gives back all places of the call, so that
  /// others see what it has done so far, and takes them again, behind others, once somebody has
  /// left the resource in a state of which `goes_on` is true, which looks at it alone. Such a state
  /// may be gone by then. Sets `awaited`, the call's, and returns Waiting(); before it looks again,
  /// the step calls ComeBack. Errors: kFailedPrecondition where nobody else could change it, or of
  /// an atomic call that has changed something; kUnimplemented of who cannot give its places back.
  virtual absl::Status AwaitState(ResourceHandle handle,
                                  absl::AnyInvocable<bool(const Tensor& state) const> goes_on,
                                  std::shared_ptr<Awaited>& awaited) {
    (void)handle, (void)goes_on, (void)awaited;
    return Unimplemented("waiting for others from within this kind of call");
  }
  /// OK where the call has its places, as it has until AwaitState; Waiting() until then.
  /// Errors: kResourceExhausted, where there is no room in the lines.
  virtual absl::Status ComeBack(std::shared_ptr<Awaited>& awaited) {
    (void)awaited;
    return absl::OkStatus();
  }

  /// The call does not touch the resource again: who waits for it may go on. A hint.
  virtual void Release(ResourceHandle handle) { (void)handle; }
  virtual bool IsInitialized(ResourceHandle handle) = 0;
  virtual absl::Status Destroy(ResourceHandle handle, bool ignore_missing) = 0;
  /// What the resource was declared to be. Lives as long as the call.
  virtual absl::StatusOr<const ResourceType*> TypeOf(ResourceHandle handle) = 0;
  /// A resource that lives as long as the call (VarHandleOp of an anonymous name).
  virtual ResourceHandle CreateForCall(const std::string& name, ResourceType type) = 0;
};

}  // namespace formwork
