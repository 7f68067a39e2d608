#pragma once

// Threads that run what is not to run on the caller's.

#include <atomic>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/fair_queue.h"

namespace formwork {

/// A fixed number of threads that keys (namespaces) share by a FairQueue. Work that can leave its
/// thread does so by scheduling the rest of it when work_waits(); other work of one key may take
/// all threads for long, so that as many again, and at least eight, stand by, and run only work of
/// keys of which nothing runs. Thread-safe. Who schedules bounds the queue.
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

  /// Whether something is queued that no thread is free for. Changes at any time.
  const std::atomic<bool>& work_waits() const { return work_waits_; }

 private:
  void Loop();
  bool AllBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return busy_ >= most_busy_; }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.HasNext(/*idle_keys=*/AllBusy());
  }
  // After a change.
  void NoteWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until there is work, or the end.
  void Sleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has one more thread look for work where there is some. To be called after each change that may
  // make some, and by who takes some; who is done looks himself.
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Sleeper {
    absl::CondVar wakes;
    bool woken = false;
  };

  // Apart from all that is written often: running work reads it all the time.
  alignas(64) std::atomic<bool> work_waits_{false};
  alignas(64) absl::Mutex mutex_;
  int most_busy_ ABSL_GUARDED_BY(mutex_);  // Before those that stand by are needed.
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Who went to sleep last is woken first: what it worked with is in its core's caches, and the
  // compute threads are used to work for it.
  std::vector<Sleeper*> sleepers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace formwork
