#pragma once

// Ends at their deadlines what nobody runs: calls that wait in line.

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace formwork {

/// Thread-safe. Its thread sleeps while there is nothing to watch.
class DeadlineWatch {
 public:
  DeadlineWatch();
  ~DeadlineWatch();

  /// Runs `expire` once `deadline` has passed, within some 10 ms, if `owner` still lives then; it
  /// is kept alive meanwhile. It does not throw. Nothing needs to be taken back.
  void Watch(absl::Time deadline, std::weak_ptr<void> owner, absl::AnyInvocable<void()> expire);

 private:
  struct Watched {
    absl::Time deadline;
    std::weak_ptr<void> owner;
    absl::AnyInvocable<void()> expire;
  };

  using Overdue = std::pair<std::shared_ptr<void>, Watched>;

  void Loop();
  // Takes those that are overdue or whose owner has gone; both vectors have room for all.
  void TakeOverdue(absl::Time now, std::vector<Overdue>& overdue,
                   std::vector<std::shared_ptr<void>>& alive) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace formwork
