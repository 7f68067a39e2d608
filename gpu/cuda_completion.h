#pragma once

// The thread on which Then's functions run: they may free device memory, which CUDA forbids in its
// own callbacks.

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
  /// stream. `stream`: the one on which `event` was recorded last.
  void Add(cudaStream_t stream, std::shared_ptr<CudaEvent> event,
           absl::AnyInvocable<void(absl::Status)> on_host);

 private:
  struct Pending {
    std::shared_ptr<CudaEvent> event;
    absl::AnyInvocable<void(absl::Status)> on_host;
  };

  static void Pulse(void* self);
  void Run();
  bool Woken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pulsed_ || (stopping_ && pending_.empty());
  }

  const std::shared_ptr<CudaContext> context_;
  absl::Mutex mutex_;
  bool pulsed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace formwork
