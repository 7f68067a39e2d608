#include "core/engine_task.h"

#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {

absl::Status Task::StopStatus() {
  // Who is not among the engine's scheduled tasks finds out here.
  if (engine_.aborts_.load(std::memory_order_relaxed)) stop_.Abort();
  stop_.Poll();
  return stop_.status();
}

absl::StatusOr<Task::Next> Task::TakePlaces() {
  FORMWORK_RETURN_IF_ERROR(engine_.Admit());
  admitted_ = true;
  std::vector<AccessRequest> access;
  FORMWORK_RETURN_IF_ERROR(HoldToBudget(engine_.memory_, [&] { return Prepare(access); }));
  Next next = Next::kRun;
  if (!access.empty() &&
      !ticket_.Take(std::move(access), [self = shared_from_this()] { self->Schedule(); })) {
    next = Next::kWait;
  } else if (!runs_inline()) {
    next = Next::kSchedule;
  }
  if (next != Next::kRun) FORMWORK_RETURN_IF_ERROR(TakePlace());
  return next;
}

void Task::Start() {
  const absl::StatusOr<Next> next = CatchOutOfMemory([this] { return TakePlaces(); });
  if (next.ok() && *next != Next::kRun) {
    Wait();  // First, so that whoever runs it gives the place back before it answers.
    if (*next == Next::kSchedule) Schedule();
    return;
  }
  absl::Status status = next.status();
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
  const bool waits = state_.compare_exchange_strong(starting, State::kWaiting);
  if (!waits) engine_.waiting_.Release(name_space_);    // It runs, or has run, meanwhile.
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Stopped's.
  if (!StopStatus().ok()) return Stopped();
  if (!stop_.has_deadline()) return;
  const absl::Status watched = CatchOutOfMemory([this] {
    engine_.deadlines_.Watch(stop_.deadline(), weak_from_this(), [this] {
      stop_.Expire();
      Stopped();
    });
    return absl::OkStatus();
  });
  // Unwatched, it looks at the clock itself once it runs; while it waits nobody would.
  if (!watched.ok()) EndWait(watched);
}

bool Task::Claim() {
  const State before = state_.exchange(State::kClaimed);
  if (before == State::kWaiting) engine_.waiting_.Release(name_space_);
  return before != State::kClaimed;
}

void Task::Stopped() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Wait's.
  EndWait(stop_.status());
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
  if (ended_.load()) return;
  scheduled_.store(true);
  absl::Status status = CatchOutOfMemory([this] {
    engine_.scheduled_.Add(this);
    queued_at_.store(pool().Schedule(name_space_, [self = shared_from_this()] {
      if (self->Claim()) self->RunClaimed();
    }));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    if (!Claim()) return;
    ticket_.ReleaseAll();
    return Refuse(std::move(status));
  }
  // Ended before it could be found in the queue, or among those that are scheduled.
  if (state_.load() == State::kClaimed) pool().Remove(name_space_, queued_at_.load());
  if (ended_.load()) engine_.scheduled_.Remove(this);
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
  ended_.store(true);
  if (scheduled_.load()) engine_.scheduled_.Remove(this);
  if (admitted_) engine_.CallDone();
}

}  // namespace formwork
