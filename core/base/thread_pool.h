#pragma once

// Threads that run what is not to run on the caller's.

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace formwork {

/// A fixed number of threads and a queue, first in, first out. Thread-safe. Who schedules bounds
/// the queue.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  /// Runs what is queued, then joins.
  ~ThreadPool();

  void Schedule(absl::AnyInvocable<void()> work);

 private:
  void Loop();

  absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace formwork
