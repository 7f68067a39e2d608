#pragma once

// The thread on which Then's functions run: they may free device memory, which CUDA forbids in its
// own callbacks, and a callback holds its stream up until a thread of CUDA's has woken (30 us on an
// H100). So the thread looks at the events itself.

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "gpu/cuda_event.h"

namespace formwork {

class CudaCompletion {
 public:
  explicit CudaCompletion(std::shared_ptr<CudaContext> context);
  /// Waits until everything that was added has been called.
  ~CudaCompletion();

  /// Calls `on_host` with the event's status once it has happened; in order for events of one
  /// stream.
  void Add(std::shared_ptr<CudaEvent> event, absl::AnyInvocable<void(absl::Status)> on_host);

 private:
  struct Pending {
    std::shared_ptr<CudaEvent> event;
    absl::AnyInvocable<void(absl::Status)> on_host;
  };

  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !added_.empty() || stopping_;
  }

  const std::shared_ptr<CudaContext> context_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Pending> added_ ABSL_GUARDED_BY(mutex_);  // Since the thread took them last.
  std::thread thread_;
};

}  // namespace formwork
