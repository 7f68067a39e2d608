#include "core/base/awaited.h"

#include "absl/time/time.h"

namespace formwork {
namespace {

// A cancellation or a deadline is seen so often by a thread that blocks.
constexpr absl::Duration kLook = absl::Milliseconds(5);

}  // namespace

bool Awaited::over() const {
  absl::MutexLock lock(&mutex_);
  return over_;
}

void Awaited::OnceOver(absl::AnyInvocable<void()> go_on) {
  {
    absl::MutexLock lock(&mutex_);
    if (!over_) {
      std::swap(go_on_, go_on);  // What was there before ends without the lock.
      return;
    }
  }
  go_on();
}

void Awaited::Block(StopFlag& stop) {
  absl::MutexLock lock(&mutex_);
  while (!stop.Poll() && !mutex_.AwaitWithTimeout(absl::Condition(&over_), kLook)) {
  }
}

bool Awaited::End(absl::AnyInvocable<void()> set) {
  absl::AnyInvocable<void()> go_on;
  {
    absl::MutexLock lock(&mutex_);
    if (over_) return false;
    set();
    over_ = true;
    go_on = std::move(go_on_);
  }
  if (go_on) go_on();
  return true;
}

}  // namespace formwork
