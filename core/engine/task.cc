#include "core/engine/task.h"

#include <algorithm>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/device/recorded_stream.h"

namespace formwork {
namespace {

// Of the resources that a call waits for, as its timeline names them.
constexpr size_t kMostHeldNames = 8;

}  // namespace

absl::Status Task::StopStatus() {
  // Who is not among the engine's scheduled tasks finds out here.
  if (engine_.aborts_.load(std::memory_order_relaxed)) stop_.Abort();
  if (engine_.device_lost_.load(std::memory_order_relaxed)) return engine_.DeviceStatus();
  stop_.Poll();
  return stop_.status();
}

absl::StatusOr<Task::Next> Task::TakePlaces() {
  if (!admitted_) FORMWORK_RETURN_IF_ERROR(engine_.Admit());
  admitted_ = true;
  std::vector<AccessRequest> access;
  FORMWORK_RETURN_IF_ERROR(HoldToBudget(engine_.memory_, [&] { return Prepare(access); }));
  if (is_logged()) FORMWORK_RETURN_IF_ERROR(log_->Admit(access));
  Next next = Next::kRun;
  std::vector<HeldPlace> held;
  TimelineRecorder::SpanId taking = TimelineRecorder::kNoSpan;
  if (recorder_ != nullptr) taking = recorder_->BeginPhase("take places");
  if (!access.empty() && !ticket_.Take(
                             std::move(access), [self = shared_from_this()] { self->Schedule(); },
                             recorder_ == nullptr ? nullptr : &held)) {
    next = Next::kWait;
    NoteScheduled();
    if (recorder_ != nullptr) RecordWait(taking, held);
  } else if (WaitsInLine()) {
    next = Next::kWait;
    NoteScheduled();
  } else if (!runs_inline()) {
    next = Next::kSchedule;
  }
  if (next != Next::kRun) FORMWORK_RETURN_IF_ERROR(TakePlace());
  return next;
}

void Task::RecordWait(TimelineRecorder::SpanId span, absl::Span<const HeldPlace> held) {
  const auto holders = [&] {
    std::string text;
    for (size_t i = 0; i < std::min(held.size(), kMostHeldNames); ++i) {
      // What is of another namespace is not found.
      const FunctionPtr holder = engine_.functions_.Find(name_space_, held[i].writer);
      absl::StrAppend(
          &text, i == 0 ? "" : "; ", Described(*held[i].resource), ", held by ",
          holder == nullptr ? "another call" : absl::StrCat("a call of '", holder->name, "'"));
    }
    if (held.size() > kMostHeldNames) {
      absl::StrAppend(&text, "; ", held.size() - kMostHeldNames, " more");
    }
    return text;
  };
  recorder_->SetWait(span, recorder_->TextFrom(holders));
}

void Task::Start() {
  if (!request_.given()) return Begin();
  StartOnce();
}

absl::StatusOr<AnswerWindow::Begun> Task::FindAnswer(std::shared_ptr<Task> waiter) {
  return HoldToBudget(engine_.memory_, [&] {
    return engine_.answers_.Begin(name_space_, request_, content_, std::move(waiter));
  });
}

void Task::StartOnce() {
  engine_.kept_.Seen(name_space_, request_.client);
  content_ = ContentHash();
  const absl::StatusOr<AnswerWindow::Begun> begun = FindAnswer(nullptr);
  if (begun.ok() && begun->place == AnswerWindow::Place::kRuns) return AwaitAnswer();
  if (begun.ok() && begun->place == AnswerWindow::Place::kFirst) {
    does_ = true;
    return Begin();
  }
  if (!ClaimFrom(State::kStarting)) return;
  if (!begun.ok()) return EndClaimed(begun.status());
  Repeat(*begun->answer);
}

void Task::AwaitAnswer() {
  const std::shared_ptr<Task> self = shared_from_this();
  const absl::Status placed = CatchOutOfMemory([this]() -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(engine_.Admit());
    admitted_ = true;
    return TakePlace();
  });
  if (!placed.ok()) {
    if (ClaimFrom(State::kStarting)) EndClaimed(placed);
    return;
  }
  // First, so that whoever tells it of the answer finds it waiting. It may be ended from here on.
  awaits_answer_ = true;
  Wait();
  absl::StatusOr<AnswerWindow::Begun> begun = FindAnswer(self);
  if (begun.ok() && begun->place == AnswerWindow::Place::kRuns) {
    if (ended_.load()) engine_.answers_.StopWaiting(name_space_, request_, this);
    return;
  }
  // It has ended meanwhile, or cannot be waited for.
  if (begun.ok()) return OnAnswer(std::move(begun->answer));
  if (Claim()) EndClaimed(begun.status());
}

void Task::OnAnswer(std::shared_ptr<const AnswerWindow::Answer> answer) {
  const HeapScope unlimited(nullptr);
  if (!Claim()) {  // It has stopped waiting.
    if (answer == nullptr) engine_.answers_.End(name_space_, request_, nullptr, false);
    return;
  }
  if (answer != nullptr) return Repeat(*answer);
  does_ = true;
  state_.store(State::kStarting);
  // Not here: many may follow each other, and the one before is to answer.
  absl::Status begun = CatchOutOfMemory([this] {
    engine_.pool_.Schedule(name_space_, [self = shared_from_this()] { self->Begin(); });
    return absl::OkStatus();
  });
  if (!begun.ok() && ClaimFrom(State::kStarting)) EndClaimed(std::move(begun));
}

absl::Status NoAnswer(const RequestId& request) {
  return WithReason(FailedPrecondition("request ", request.sequence,
                                       " has been done, and there was no memory for its answer"),
                    Reason::kAnswerForgotten, {{"sequence", request.sequence}});
}

void Task::Begin() {
  const absl::StatusOr<Next> next = CatchOutOfMemory([this] { return TakePlaces(); });
  if (next.ok() && *next != Next::kRun) {
    Wait();  // First, so that whoever runs it gives the place back before it answers.
    if (*next == Next::kSchedule) Schedule();
    return;
  }
  if (!ClaimFrom(State::kStarting)) return;  // It got its variables after all.
  if (next.ok()) return RunClaimed();
  EndClaimed(next.status());
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
  if (absl::Status stopped = StopStatus(); !stopped.ok()) return EndWait(std::move(stopped));
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
  if (before == State::kWaiting) GivePlaceBack();
  return before != State::kClaimed;
}

bool Task::ClaimFrom(State from) {
  if (!state_.compare_exchange_strong(from, State::kClaimed)) return false;
  if (from == State::kWaiting) GivePlaceBack();
  return true;
}

void Task::GivePlaceBack() {
  engine_.waiting_.Release(name_space_);
  if (suspended_bytes_ > 0) engine_.suspended_.Give(std::exchange(suspended_bytes_, 0));
}

void Task::Stopped() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Wait's and Suspend's.
  EndWait(stop_.status());
}

void Task::EndWait(absl::Status status) {
  if (!ClaimFrom(State::kWaiting)) return;
  if (const uint64_t place = queued_at_.load()) pool().Remove(name_space_, place);
  EndClaimed(std::move(status));
}

void Task::EndClaimed(absl::Status status) {
  if (begun_) return Stop(std::move(status));
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(std::move(status));
}

void Task::Schedule() {
  if (ended_.load()) return;
  BeginPhase("wait", Timeline::Kind::kWait, "a thread of the pool");
  absl::Status status = CatchOutOfMemory([this] {
    NoteScheduled();
    return Enqueue();
  });
  if (!status.ok() && Claim()) EndClaimed(std::move(status));
}

void Task::NoteScheduled() {
  scheduled_.store(true);
  engine_.scheduled_.Add(this);
  if (ended_.load()) engine_.scheduled_.Remove(this);  // Before it could be found there.
}

absl::Status Task::Enqueue() {
  return CatchOutOfMemory([this] {
    const uint64_t place = pool().Schedule(name_space_, [self = shared_from_this()] {
      if (self->Claim()) self->RunClaimed();
    });
    // It may have run and been suspended meanwhile: then a later place is known.
    uint64_t known = queued_at_.load();
    while (known < place && !queued_at_.compare_exchange_weak(known, place)) {
    }
    // Or it has ended before it could be found there.
    if (state_.load() == State::kClaimed) pool().Remove(name_space_, place);
    return absl::OkStatus();
  });
}

void Task::Requeue() {
  const HeapScope unlimited(nullptr);  // Nobody else would go on with it.
  const absl::Status queued = CatchOutOfMemory([this] {
    pool().Schedule(name_space_, [self = shared_from_this()] { self->RunClaimed(); });
    return absl::OkStatus();
  });
  if (!queued.ok()) EndClaimed(queued);
}

void Task::RunClaimed() {
  // What has waited may be late by now.
  absl::Status status = StopStatus();
  if (!status.ok()) return EndClaimed(std::move(status));
  begun_ = true;
  Run();
}

TimeSlice Task::Slice() {
  // Some thousand times what a change of threads costs.
  constexpr absl::Duration kSlice = absl::Milliseconds(10);
  return scheduled_.load() ? TimeSlice(pool().work_waits(), kSlice) : TimeSlice();
}

bool Task::TakeRoomToWait(size_t bytes) {
  if (!engine_.suspended_.TryTake(bytes)) return false;
  const absl::Status place = CatchOutOfMemory([this] {
    engine_.waiting_.TakeAnyway(name_space_);
    return absl::OkStatus();
  });
  if (!place.ok()) {
    engine_.suspended_.Give(bytes);
    return false;
  }
  suspended_bytes_ = bytes;
  return true;
}

bool Task::Suspend(size_t bytes) {
  if (!TakeRoomToWait(bytes)) return false;
  state_.store(State::kWaiting);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Stopped's.
  if (!stop_.requested() && Enqueue().ok()) return true;
  return !ClaimFrom(State::kWaiting);  // Else it has been ended meanwhile.
}

bool Task::Await(Awaited& awaited, size_t bytes) {
  if (!TakeRoomToWait(bytes)) return false;
  const std::shared_ptr<Task> self = shared_from_this();
  state_.store(State::kWaiting);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // With Stopped's.
  if (stop_.requested()) return !ClaimFrom(State::kWaiting);
  awaited.OnceOver([self] {
    if (self->ended_.load()) return;
    const HeapScope unlimited(nullptr);  // Nobody else would go on with it.
    absl::Status queued = self->Enqueue();
    if (!queued.ok()) self->EndWait(std::move(queued));
  });
  return true;
}

std::vector<Stream*> Task::LeasedStreams::Pointers(
    const std::vector<std::unique_ptr<Stream>>& streams) {
  std::vector<Stream*> pointers;
  for (const std::unique_ptr<Stream>& stream : streams) pointers.push_back(stream.get());
  return pointers;
}

absl::Status Task::OpenStream(int streams) {
  if (!engine_.streams_) return absl::OkStatus();
  std::vector<std::unique_ptr<Stream>> leased, recorded;
  for (int k = 0; k < streams; ++k) {
    FORMWORK_ASSIGN_OR_RETURN(leased.emplace_back(), engine_.streams_->Take());
    if (recorder_ == nullptr) continue;
    const std::string track = absl::StrCat(engine_.options_.device->name(), " stream",
                                           k == 0 ? "" : absl::StrCat(" ", k));
    recorded.push_back(RecordStream(*leased.back(), recorder_, track));
  }
  streams_ = std::make_unique<LeasedStreams>(std::move(leased), std::move(recorded),
                                             *engine_.device_memory_, ticket_, engine_.allocator_);
  return absl::OkStatus();
}

void Task::CloseStream() {
  if (streams_->scope.stream_works()) {
    for (auto& stream : streams_->streams) engine_.streams_->Return(std::move(stream));
  }
  streams_ = nullptr;
}

bool Task::Park(size_t bytes) {
  if (!TakeRoomToWait(bytes)) return false;
  const absl::Status told = CatchOutOfMemory([this] {
    parked_since_nanos_.store(absl::GetCurrentTimeNanos());  // First: it says whose the task is.
    if (!scheduled_.exchange(true)) engine_.scheduled_.Add(this);
    streams_->scope.OnceReached([self = shared_from_this()] { self->Unpark(); });
    return absl::OkStatus();
  });
  if (told.ok()) {  // It may be another thread's by now.
    if (engine_.device_lost_.load()) EndWithDevice(engine_.DeviceStatus());
    return true;
  }
  if (parked_since_nanos_.exchange(0) == 0) return true;  // It has been ended meanwhile.
  GivePlaceBack();
  return false;
}

std::optional<absl::Status> Task::OnceReady(size_t bytes, absl::FunctionRef<absl::Status()> step) {
  absl::Status status = step();
  while (IsWaiting(status)) {
    if (!streams()->HappensSoon(pool().work_waits())) {
      if (Park(bytes)) return std::nullopt;
      streams()->Block();
    }
    status = step();
  }
  return status;
}

void Task::AwaitDisk(absl::AnyInvocable<void(const absl::Status&)> told) {
  BeginPhase("wait", Timeline::Kind::kWait, "the disk");
  const HeapScope unlimited(nullptr);  // It has been done.
  engine_.waiting_.TakeAnyway(name_space_);
  const uint64_t position = std::max(log_position_, ticket_.log_position());
  auto on_disk = [self = shared_from_this(),
                  told = std::move(told)](const absl::Status& durable) mutable {
    const HeapScope unlimited(nullptr);
    self->engine_.waiting_.Release(self->name_space_);
    Task& task = *self;
    absl::AnyInvocable<void()> answer = [self = std::move(self), told = std::move(told),
                                         durable]() mutable { told(durable); };
    // Whose thread this is has to write what comes next.
    const absl::Status queued = CatchOutOfMemory([&] {
      task.engine_.pool_.Schedule(task.name_space_, std::move(answer));
      return absl::OkStatus();
    });
    if (!queued.ok()) answer();
  };
  engine_.commits_->WhenDurable(position, std::move(on_disk));
}

void Task::Unpark() {
  if (parked_since_nanos_.exchange(0) == 0) return;  // It has been ended meanwhile.
  engine_.last_unpark_nanos_.store(absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
  const HeapScope unlimited(nullptr);  // Nobody else would go on with it.
  const auto go_on = [self = shared_from_this()] {
    self->GivePlaceBack();
    self->Run();
  };
  const absl::Status queued = CatchOutOfMemory([&] {
    pool().Schedule(name_space_, go_on);
    return absl::OkStatus();
  });
  if (!queued.ok()) go_on();
}

void ScheduledTasks::Add(Task* task) {
  absl::MutexLock lock(&mutex_);
  tasks_.insert(task);
}

void ScheduledTasks::Remove(Task* task) {
  absl::MutexLock lock(&mutex_);
  tasks_.erase(task);
}

std::vector<std::shared_ptr<Task>> ScheduledTasks::All() {
  std::vector<std::shared_ptr<Task>> tasks;
  absl::MutexLock lock(&mutex_);
  for (Task* task : tasks_) {
    // Null where it is about to go, and waits for the lock.
    if (std::shared_ptr<Task> held = task->weak_from_this().lock()) {
      tasks.push_back(std::move(held));
    }
  }
  return tasks;
}

void ScheduledTasks::AbortAll() {
  for (const std::shared_ptr<Task>& task : All()) task->Abort();
}

void Task::Disconnected() {
  if (ended_.load()) return;
  if (!request_.given()) return Cancel();
  const absl::Status watched = CatchOutOfMemory([this] {
    engine_.deadlines_.Watch(
        absl::Now() + engine_.options_.disconnected_ttl, weak_from_this(), [this] {
          const bool wanted = engine_.answers_.IsAwaited(name_space_, request_, this);
          wanted ? Disconnected() : Cancel();
        });
    return absl::OkStatus();
  });
  if (!watched.ok()) Cancel();
}

void Task::Ended() {
  ended_.store(true);
  if (request_.given()) engine_.kept_.Seen(name_space_, request_.client);
  if (awaits_answer_ && !does_) engine_.answers_.StopWaiting(name_space_, request_, this);
  if (scheduled_.load()) engine_.scheduled_.Remove(this);
  if (admitted_) engine_.CallDone();
}

}  // namespace formwork
