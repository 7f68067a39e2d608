#pragma once

// What a kernel may do with the resources of its call. The call's AccessTicket implements it, so
// that no kernel sees tickets, versions or locks.

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Used by one thread at a time. Every method returns kInvalidArgument for a handle that is not
/// among the call's resources, kNotFound for one that has been destroyed. Assign and Update change
/// nothing where the kernel's work has been cut (core/base/stop_flag.h).
class ResourceAccess {
 public:
  virtual ~ResourceAccess() = default;

  /// The variable's value; shares its buffer. Errors: kFailedPrecondition naming the variable if it
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
  /// The call does not touch the variable again: who waits for it may go on. A hint.
  virtual void Release(ResourceHandle handle) { (void)handle; }
  virtual bool IsInitialized(ResourceHandle handle) = 0;
  virtual absl::Status Destroy(ResourceHandle handle, bool ignore_missing) = 0;
  /// The dtype and declared shape (as far as known) of a variable.
  virtual absl::StatusOr<std::pair<DType, PartialShape>> TypeOf(ResourceHandle handle) = 0;
  /// A variable that lives as long as the call (VarHandleOp of an anonymous name).
  virtual ResourceHandle CreateForCall(const std::string& name, DType dtype,
                                       PartialShape shape) = 0;
};

}  // namespace formwork
