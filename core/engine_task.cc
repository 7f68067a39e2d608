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
  const bool waits = state_.compare_exchange_strong(starting, State::kWaiting);
  if (!waits) engine_.waiting_.Release(name_space_);    // It runs, or has run, meanwhile.
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Stopped's.
  if (!StopStatus().ok()) return Stopped();
  if (!stop_.has_deadline()) return;
  engine_.deadlines_.Watch(stop_.deadline(), weak_from_this(), [this] {
    stop_.Expire();
    Stopped();
  });
}

bool Task::Claim() {
  const State before = state_.exchange(State::kClaimed);
  if (before == State::kWaiting) engine_.waiting_.Release(name_space_);
  return before != State::kClaimed;
}

void Task::Stopped() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Wait's.
  State waiting = State::kWaiting;
  if (!state_.compare_exchange_strong(waiting, State::kClaimed)) return;
  engine_.waiting_.Release(name_space_);
  if (const uint64_t place = queued_at_.load()) pool().Remove(name_space_, place);
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(stop_.status());
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
