#pragma once

// Streams of a device, leased to one call at a time.

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/device.h"

namespace formwork {

/// Thread-safe. The device outlives it.
class StreamPool {
 public:
  explicit StreamPool(Device& device);

  /// One that nobody else has. Errors: those of Device::NewStream.
  absl::StatusOr<std::unique_ptr<Stream>> Take();
  /// Of one that has not failed; work may still be on it.
  void Return(std::unique_ptr<Stream> stream);

 private:
  Device& device_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Stream>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
