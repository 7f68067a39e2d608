#pragma once

// How a step of a plan for a device gives variables values that are on the device, or on their way
// there. Where an earlier step has failed, each keeps what it had.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/stream_scope.h"

namespace formwork {

/// Of the step that is issued. What a variable without a value, or of another shape, was could not
/// be kept: before it is stored to, no earlier step may have failed (StreamScope::Ready). Errors
/// are the ticket's, and the device's.
class EnqueuedStores {
 public:
  EnqueuedStores(StreamScope& streams, int64_t step)
      : streams_(streams), ticket_(streams.ticket()), step_(step) {}

  /// Of a variable whose value is in host memory, a copy; else no value.
  absl::StatusOr<Tensor> HostValueOnDevice(ResourceHandle handle);

  /// The variable gets a copy of `value`.
  absl::Status Copy(ResourceHandle handle, const Tensor& value);
  /// `value`, which nobody else holds, and only the current stream has used, becomes the
  /// variable's. No kernel before this may fail.
  absl::Status TakeOver(ResourceHandle handle, const Tensor& value);

 private:
  StreamScope& streams_;
  AccessTicket& ticket_;
  const int64_t step_;
};

}  // namespace formwork
