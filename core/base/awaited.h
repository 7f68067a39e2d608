#pragma once

// What a call waits for without a thread: something that others do, and tell it of.

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/stop_flag.h"

namespace formwork {

/// The status of a step that is to be run again, from its beginning, once what it waits for is
/// there. Never an error's: these have a text.
inline absl::Status Waiting() { return absl::UnavailableError(""); }
inline bool IsWaiting(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable && status.message().empty();
}

/// Happens once. Thread-safe; kept by who waits for it, and by who brings it about as long as
/// somebody waits.
class Awaited {
 public:
  /// `name`: what it is, for the timeline of the call that waits.
  explicit Awaited(std::string name) : name_(std::move(name)) {}
  virtual ~Awaited() = default;
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

  absl::string_view name() const { return name_; }
  bool over() const;
  /// Runs `go_on` once it is over: here and now where it is, else on the thread that ends it, which
  /// it must not hold up. In place of one that was given before and has not run.
  void OnceOver(absl::AnyInvocable<void()> go_on);
  /// Returns once it is over, or `stop` is requested.
  void Block(StopFlag& stop);

 protected:
  /// Makes it so by `set`, under the lock; false, without that, where it is over already.
  bool End(absl::AnyInvocable<void()> set);

 private:
  const std::string name_;
  mutable absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::AnyInvocable<void()> go_on_ ABSL_GUARDED_BY(mutex_);
};

/// Over once somebody says so.
class Opened final : public Awaited {
 public:
  using Awaited::Awaited;
  void Open() {
    End([] {});
  }
};

}  // namespace formwork
