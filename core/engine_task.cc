#include "core/engine_task.h"

#include "absl/time/clock.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::Status Late() { return absl::DeadlineExceededError("the call's deadline has passed"); }

}  // namespace

absl::Status Task::StopStatus() const {
  if (cancelled_.load(std::memory_order_relaxed)) {
    return absl::CancelledError("the call was cancelled");
  }
  if (deadline_ != absl::InfiniteFuture() && absl::Now() >= deadline_) return Late();
  return absl::OkStatus();
}

void Task::Start() {
  std::vector<AccessRequest> access;
  absl::Status status = engine_.Admit();
  if (status.ok()) {
    admitted_ = true;
    status = Prepare(access);
  }
  bool ready = true;
  if (status.ok() && !access.empty()) {
    absl::StatusOr<bool> taken = ticket_.Take(
        std::move(access), [self = shared_from_this()] { static_cast<Task&>(*self).Schedule(); });
    status = taken.status();
    ready = !taken.ok() || *taken;
  }
  if (!ready) return Wait();
  if (status.ok() && !runs_inline()) {
    status = engine_.MayQueue();
    if (status.ok()) {
      Schedule();
      return Wait();
    }
  }
  if (!Claim()) return;
  if (status.ok()) return RunClaimed();
  ticket_.ReleaseAll();
  Refuse(std::move(status));
}

void Task::Wait() {
  State starting = State::kStarting;
  // It may have run meanwhile.
  if (!state_.compare_exchange_strong(starting, State::kWaiting)) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Cancel's.
  if (cancelled_.load(std::memory_order_relaxed)) return EndWait(StopStatus());
  if (deadline_ == absl::InfiniteFuture()) return;
  engine_.deadlines_.Watch(deadline_, weak_from_this(), [this] { EndWait(Late()); });
}

void Task::Cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Wait's.
  StopRunning();
  EndWait(StopStatus());
}

void Task::EndWait(absl::Status status) {
  State waiting = State::kWaiting;
  if (!state_.compare_exchange_strong(waiting, State::kClaimed)) return;
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(std::move(status));
}

void Task::Schedule() {
  engine_.queued_.fetch_add(1, std::memory_order_relaxed);
  pool().Schedule([self = shared_from_this()] {
    Task& task = *self;
    task.engine_.queued_.fetch_sub(1, std::memory_order_relaxed);
    if (task.Claim()) task.RunClaimed();
  });
}

void Task::RunClaimed() {
  // What has waited may be late by now.
  absl::Status status = StopStatus();
  if (status.ok()) return Run();
  ticket_.ReleaseAll();
  Refuse(std::move(status));
}

void Task::Ended() {
  if (admitted_) engine_.CallDone();
}

}  // namespace formwork
