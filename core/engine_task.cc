#include "core/engine_task.h"

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::Status Late() { return absl::DeadlineExceededError("the call's deadline has passed"); }

}  // namespace

absl::Status Task::AskedStatus() const {
  StopReason reason = stop_reason_.load(std::memory_order_relaxed);
  if (reason == StopReason::kNone && engine_.aborts_.load(std::memory_order_relaxed)) {
    reason = StopReason::kAborted;
  }
  switch (reason) {
    case StopReason::kCancelled:
      return absl::CancelledError("the call was cancelled");
    case StopReason::kAborted:
      return absl::AbortedError("the call was cut off: the server is shutting down");
    case StopReason::kNone:
      break;
  }
  return absl::OkStatus();
}

absl::Status Task::StopStatus() const {
  FORMWORK_RETURN_IF_ERROR(AskedStatus());
  if (deadline_ != absl::InfiniteFuture() && absl::Now() >= deadline_) return Late();
  return absl::OkStatus();
}

Task::~Task() {
  if (scheduled_) engine_.scheduled_.Remove(this);
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
      Wait();  // First, so that whoever runs it gives the place back before it answers.
      return Schedule();
    }
  }
  if (!Claim()) return;  // It got its variables after all.
  if (status.ok()) return RunClaimed();
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(std::move(status));
}

absl::Status Task::TakePlace() {
  if (engine_.waiting_.Take(name_space_)) return absl::OkStatus();
  return WithReason(ResourceExhausted("too many calls of namespace '", name_space_,
                                      "' wait: waiting=", engine_.waiting_.taken(name_space_),
                                      " waiting of all=", engine_.waiting_.taken(),
                                      " limit=", engine_.options_.max_queued_calls),
                    Reason::kQueueFull,
                    {{"namespace", name_space_}, {"limit", engine_.options_.max_queued_calls}});
}

void Task::Wait() {
  State starting = State::kStarting;
  if (!state_.compare_exchange_strong(starting, State::kWaiting)) {
    engine_.waiting_.Release(name_space_);  // It runs, or has run, meanwhile.
    return;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Stop's.
  if (absl::Status status = AskedStatus(); !status.ok()) return EndWait(std::move(status));
  if (deadline_ == absl::InfiniteFuture()) return;
  engine_.deadlines_.Watch(deadline_, weak_from_this(), [this] { EndWait(Late()); });
}

bool Task::Claim() {
  const State before = state_.exchange(State::kClaimed);
  if (before == State::kWaiting) engine_.waiting_.Release(name_space_);
  return before != State::kClaimed;
}

void Task::Stop(StopReason reason) {
  StopReason none = StopReason::kNone;
  stop_reason_.compare_exchange_strong(none, reason);   // The first one holds.
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Wait's.
  StopRunning();
  EndWait(AskedStatus());
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
  scheduled_ = true;
  engine_.scheduled_.Add(this);
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

void ScheduledTasks::Add(Task* task) {
  absl::MutexLock lock(&mutex_);
  tasks_.insert(task);
}

void ScheduledTasks::Remove(Task* task) {
  absl::MutexLock lock(&mutex_);
  tasks_.erase(task);
}

void ScheduledTasks::AbortAll() {
  std::vector<std::shared_ptr<Task>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    for (Task* task : tasks_) {
      // Null where it is about to go, and waits for the lock.
      if (std::shared_ptr<Task> held = task->weak_from_this().lock()) {
        tasks.push_back(std::move(held));
      }
    }
  }
  for (const std::shared_ptr<Task>& task : tasks) task->Abort();
}

void Task::Ended() {
  if (admitted_) engine_.CallDone();
}

}  // namespace formwork
