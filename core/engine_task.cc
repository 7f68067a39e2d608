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
  if (status.ok() && !access.empty() &&
      !ticket_.Take(std::move(access), [self = shared_from_this()] { self->Schedule(); })) {
    status = TakePlace();
    if (status.ok()) return Wait();
  } else if (status.ok() && !runs_inline()) {
    status = TakePlace();
    if (status.ok()) {
      Schedule();
      return Wait();
    }
  }
  if (!Claim()) return;  // It got its variables after all.
  if (status.ok()) return RunClaimed();
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(std::move(status));
}

absl::Status Task::TakePlace() {
  if (engine_.waiting_.Take(name_space_)) return absl::OkStatus();
  return ResourceExhausted("too many calls of namespace '", name_space_,
                           "' wait: waiting=", engine_.waiting_.taken(name_space_),
                           " waiting of all=", engine_.waiting_.taken(),
                           " limit=", engine_.options_.max_queued_calls);
}

void Task::Wait() {
  State starting = State::kStarting;
  if (!state_.compare_exchange_strong(starting, State::kWaiting)) {
    engine_.waiting_.Release(name_space_);  // It runs, or has run, meanwhile.
    return;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Cancel's.
  if (cancelled_.load(std::memory_order_relaxed)) return EndWait(StopStatus());
  if (deadline_ == absl::InfiniteFuture()) return;
  engine_.deadlines_.Watch(deadline_, weak_from_this(), [this] { EndWait(Late()); });
}

bool Task::Claim() {
  const State before = state_.exchange(State::kClaimed);
  if (before == State::kWaiting) engine_.waiting_.Release(name_space_);
  return before != State::kClaimed;
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
  engine_.waiting_.Release(name_space_);
  if (const uint64_t place = queued_at_.load()) pool().Remove(name_space_, place);
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(std::move(status));
}

void Task::Schedule() {
  queued_at_.store(pool().Schedule(name_space_, [self = shared_from_this()] {
    if (self->Claim()) self->RunClaimed();
  }));
  // Ended before it could be found in the queue.
  if (state_.load() == State::kClaimed) pool().Remove(name_space_, queued_at_.load());
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
