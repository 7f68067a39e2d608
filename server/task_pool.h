#pragma once

// Threads for what may take long, so that gRPC's callback threads never wait: two slow handlers on
// those freeze every connection for as long.

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace formwork::server {

/// A bounded queue of tasks and the threads that run them, which start when they are first needed.
/// Thread-safe.
class TaskPool {
 public:
  TaskPool(size_t threads, size_t max_queued) : max_threads_(threads), max_queued_(max_queued) {}
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;
  ~TaskPool();  ///< Runs what is queued, then returns.

  /// Queues `task`; false, without having touched it, where the queue is full. Does not wait.
  bool Add(absl::AnyInvocable<void()>&& task);

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty() || closed_; }

  const size_t max_threads_;
  const size_t max_queued_;
  absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
