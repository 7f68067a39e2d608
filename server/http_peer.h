#pragma once

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace formwork::server {

/// Who waits for the answer to a request. Thread-safe.
class HttpPeer {
 public:
  /// Calls `then` where the peer goes before its answer comes: at once if it has gone, else on the
  /// server's thread, where it is not to wait. For calls that nobody waits for. Once.
  void OnGone(absl::AnyInvocable<void()> then) {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;
      if (!gone_) {
        then_ = std::move(then);
        return;
      }
    }
    then();
  }

  /// Of the server.
  void NoteGone() {
    if (absl::AnyInvocable<void()> then = End(/*gone=*/true)) then();
  }
  void NoteAnswered() { End(/*gone=*/false); }

 private:
  absl::AnyInvocable<void()> End(bool gone) {
    absl::MutexLock lock(&mutex_);
    gone_ = gone_ || gone;
    ended_ = !gone_;
    return std::exchange(then_, nullptr);
  }

  absl::Mutex mutex_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::AnyInvocable<void()> then_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
