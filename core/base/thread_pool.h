#pragma once

// Threads that run what is not to run on the caller's.

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/fair_queue.h"

namespace formwork {

/// A fixed number of threads that keys (namespaces) share by a FairQueue. Work cannot be suspended,
/// so that endless work of one key may take all threads; as many again, and at least eight, stand
/// by, and run only work of keys of which nothing runs. Thread-safe. Who schedules bounds the
/// queue.
class ThreadPool {
 public:
  /// `threads`: apart from those that stand by. Where the system gives fewer, there are fewer.
  explicit ThreadPool(int threads);
  /// Runs what is queued, then joins.
  ~ThreadPool();

  /// How many there are; with none, nothing that is scheduled runs.
  int threads() const { return static_cast<int>(threads_.size()); }

  /// Its place, by which Remove finds it; never 0. `work` does not throw. Where there is no memory,
  /// this throws, and `work` is as it was.
  uint64_t Schedule(absl::string_view key, absl::AnyInvocable<void()>&& work);
  /// Drops what does not run yet; else does nothing.
  void Remove(absl::string_view key, uint64_t place);

 private:
  void Loop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.HasNext(/*idle_keys=*/busy_ >= most_busy_);
  }
  bool Wakes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || HasWork(); }

  const int most_busy_;
  absl::Mutex mutex_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace formwork
