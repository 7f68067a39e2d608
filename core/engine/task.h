#pragma once

// What all requests that may wait have in common. Included by core/engine*.cc alone.

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "core/base/awaited.h"
#include "core/base/reason.h"
#include "core/base/stop_flag.h"
#include "core/base/timeline.h"
#include "core/engine/answers.h"
#include "core/engine/engine_impl.h"
#include "core/kernels/stream_scope.h"
#include "core/runtime/executor.h"

namespace formwork {

/// One request from admission to answer: it is prepared, takes its place in line at the variables
/// that it needs, waits for them and for a thread where it must, and then either runs or is
/// refused, once. Lives as long as its handle, its thread or a waiting ticket needs it; once it has
/// answered it holds nothing of the engine any more, which its handle may outlive.
class Task : public CallHandle,
             public AnswerWindow::Waiter,
             public std::enable_shared_from_this<Task> {
 public:
  void Start() final;
  void OnAnswer(std::shared_ptr<const AnswerWindow::Answer> answer) final;
  void Cancel() final {
    stop_.Cancel();
    Stopped();
  }
  void Disconnected() final;
  /// As Cancel, with kAborted: the engine shuts down.
  void Abort() {
    stop_.Abort();
    Stopped();
  }
  /// The device is lost: ends it with `status` where it waits, and forsakes it where that is for
  /// the device.
  void EndWithDevice(const absl::Status& status);
  /// Since when it waits for the device; InfiniteFuture: it does not.
  absl::Time parked_since() const {
    const int64_t since = parked_since_nanos_.load(std::memory_order_relaxed);
    return since == 0 ? absl::InfiniteFuture() : absl::FromUnixNanos(since);
  }

 protected:
  /// `name_space`: as asked, or empty.
  Task(EngineImpl& engine, std::string name_space, absl::Time deadline)
      : engine_(engine),
        name_space_(name_space.empty() ? kDefaultNamespace : std::move(name_space)),
        log_(engine.LogOf(name_space_)),
        stop_(deadline),
        ticket_(engine.resources_, engine.allocator_) {}

  /// Finds and checks what the request names, and adds the variables that it needs to `access`.
  virtual absl::Status Prepare(std::vector<AccessRequest>& access) = 0;
  /// Asked once prepared: whether it runs on Start's thread where it need not wait.
  virtual bool runs_inline() = 0;
  /// Asked once it has its places: whether it waits all the same, until it is Led or its state is
  /// claimed by ClaimWaiting.
  virtual bool WaitsInLine() { return false; }
  /// Where it runs else.
  virtual ThreadPool& pool() { return engine_.pool_; }
  /// Does what was asked, with all places granted, and answers; or Suspends, to be run again.
  /// Catches what the want of memory throws.
  virtual void Run() = 0;
  /// Answers that nothing was done. Takes no memory that it cannot do without.
  virtual void Refuse(absl::Status status) = 0;
  /// Answers that what has been suspended is not run to its end. As Refuse, but what it holds of
  /// variables is its own to give back.
  virtual void Stop(absl::Status status) { Refuse(std::move(status)); }

  /// Answers that it is not known what becomes of it, and lets go of nothing that a device may
  /// still use. Nothing else is done with it then.
  virtual void Forsake(absl::Status status) = 0;

  /// Of what WaitsInLine: it is to run now, by a thread of the pool.
  void EndLine() { Schedule(); }
  /// Whether it waits and is now for the caller to answer, or to Requeue.
  bool ClaimWaiting() { return ClaimFrom(State::kWaiting); }
  /// Of what the caller has claimed: it is run by a thread of the pool.
  void Requeue();

  /// For Run: how long it may keep its thread; for ever where that is not one of pool()'s.
  TimeSlice Slice();
  /// For Run, at a point where a stop may end it: leaves the thread to others, behind which it is
  /// queued again. Then it is another thread's, and nothing may be done with it any more. False
  /// where it is to run on: there is no memory, or it is to stop, or suspended calls hold too much.
  /// `bytes`: what it holds.
  bool Suspend(size_t bytes);
  /// As Suspend, until `awaited` is over: then it is queued.
  bool Await(Awaited& awaited, size_t bytes);

  /// On an engine with a device, what its work is enqueued by, from OpenStream until CloseStream;
  /// else null.
  StreamScope* streams() { return streams_ == nullptr ? nullptr : &streams_->scope; }
  /// Does nothing without a device. `streams`: how many. Errors: the device's.
  absl::Status OpenStream(int streams = 1);
  /// The ticket has been released, or what is left of its accesses is not enqueued.
  void CloseStream();
  /// For Run, which is to be called again once the streams are ready: leaves the thread until then,
  /// as Suspend does, but nobody ends it meanwhile. False where it cannot, so that it has to Block.
  bool Park(size_t bytes);
  /// For Run: the status of `step` once that does not wait for streams any more; none where the
  /// call has left its thread until then (Park).
  std::optional<absl::Status> OnceReady(size_t bytes, absl::FunctionRef<absl::Status()> step);

  /// Of a request that is `given`: a hash of what it asks for, as far as that is cheap.
  virtual uint64_t ContentHash() { return 0; }
  /// Answers as the request was answered when it was done.
  virtual void Repeat(const AnswerWindow::Answer& answer) = 0;

  /// ContentHash, once it has been started with a number.
  uint64_t content() const { return content_; }

  /// Whether what it changes goes to a log.
  bool is_logged() const { return log_ != nullptr; }
  /// Whether it keeps its places until its enqueued work has run: what goes to a log is done.
  bool gives_back_last() { return is_logged() && streams() != nullptr; }
  /// It tells of what the log has at `position`.
  void NoteLogged(uint64_t position) { log_position_ = std::max(log_position_, position); }
  /// Whether what it tells of is not on disk, and is to be.
  bool IsAheadOfDisk() const {
    const uint64_t position = std::max(log_position_, ticket_.log_position());
    return position != 0 && position > engine_.commits_->durable();
  }
  /// Leaves the thread; runs `told` on another once it is, or once it is known why it is not.
  void AwaitDisk(absl::AnyInvocable<void(const absl::Status&)> told);

  /// Gives back what it holds of the engine: before the answer, which may be the engine's end.
  void Ended();

  /// The next part of its way, where that is recorded.
  void BeginPhase(absl::string_view name, Timeline::Kind kind = Timeline::Kind::kPhase,
                  absl::string_view detail = "") {
    if (recorder_ != nullptr) recorder_->BeginPhase(name, kind, detail);
  }

  EngineImpl& engine_;
  const std::string name_space_;
  GroupCommit* const log_;  // To which what it changes goes; null where that waits for no disk.
  RequestId request_;       // To be set before Start.
  bool does_ = false;  // What request_ names: it is to be told to the engine's answers_ at the end.
  StopFlag stop_;      // Of its waiting and of its work.
  AccessTicket ticket_;
  std::shared_ptr<TimelineRecorder> recorder_;  // From Prepare on, of a call that is recorded.

 private:
  enum class State : uint8_t {
    kStarting,  // Or not started yet: whoever starts it looks for a cancellation.
    kWaiting,   // Holds one of its namespace's places; whoever ends the wait claims it. Again, when
                // it is suspended.
    kClaimed,   // Runs, is refused or has ended.
  };

  struct LeasedStreams {
    LeasedStreams(std::vector<std::unique_ptr<Stream>> leased,
                  std::vector<std::unique_ptr<Stream>> recorded, Allocator& memory,
                  AccessTicket& ticket, Allocator& allocator)
        : streams(std::move(leased)),
          recorded(std::move(recorded)),
          scope(memory, Pointers(this->recorded.empty() ? streams : this->recorded), ticket,
                allocator) {}
    static std::vector<Stream*> Pointers(const std::vector<std::unique_ptr<Stream>>& streams);

    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::unique_ptr<Stream>> recorded;  // In front of them, of a call that is recorded.
    StreamScope scope;
  };

  // What is to be done once its places in line are taken.
  enum class Next : uint8_t { kRun, kSchedule, kWait };

  // Start, of a request that may have been done before.
  void StartOnce();
  // What Start does to what is to be done.
  void Begin();
  absl::StatusOr<AnswerWindow::Begun> FindAnswer(std::shared_ptr<Task> waiter);
  // Of what waits for the answer of another that does the same.
  void AwaitAnswer();
  absl::StatusOr<Next> TakePlaces();
  // What it waits for, in its timeline. Others may run it, and end it, meanwhile.
  void RecordWait(TimelineRecorder::SpanId span, absl::Span<const HeldPlace> held);
  // After stop_ has been told: ends it if it waits.
  void Stopped();
  // Refuses it if it waits.
  void EndWait(absl::Status status);
  // Whether it is now for the caller to run it or end it: where nobody else has claimed it, or
  // only where its state is `from`.
  bool Claim();
  bool ClaimFrom(State from);
  void GivePlaceBack();
  // Begins to leave the thread, with `bytes` held, but for the state. False where it cannot.
  bool TakeRoomToWait(size_t bytes);
  // The streams are ready. On any thread.
  void Unpark();
  // Ends what has been claimed.
  void EndClaimed(absl::Status status);
  absl::Status TakePlace();
  void Schedule();
  // It is among the engine's scheduled_ until it has ended.
  void NoteScheduled();
  // Puts it into the pool's queue. Errors: kResourceExhausted, and it is not there.
  absl::Status Enqueue();
  void RunClaimed();
  // From here on whoever tells stop_ ends the wait; the deadline does so in any case.
  void Wait();
  // Whether it is to stop by now: looks at the clock and at the engine.
  absl::Status StopStatus();

  std::unique_ptr<LeasedStreams> streams_;
  uint64_t log_position_ = 0;
  std::atomic<State> state_{State::kStarting};
  std::atomic<uint64_t> queued_at_{0};  // Its last place in the pool's queue, once it has one.
  bool admitted_ = false;
  bool awaits_answer_ = false;
  uint64_t content_ = 0;                // ContentHash.
  bool begun_ = false;                  // Run has been called. Whoever has claimed it looks.
  size_t suspended_bytes_ = 0;          // What it holds of the engine's suspended_ while it waits.
  std::atomic<bool> scheduled_{false};  // It is, or is about to be, among the engine's scheduled_.
  std::atomic<bool> ended_{false};
  // While it is left to its streams (Park); 0: it is not. Who sets that to 0 goes on with it.
  std::atomic<int64_t> parked_since_nanos_{0};
};

/// A Result as it is remembered.
template <typename Result>
class RememberedResult final : public AnswerWindow::Answer {
 public:
  explicit RememberedResult(Result result)
      : result(std::move(result)), bytes_(sizeof(*this) + BytesOf(this->result)) {}
  size_t bytes() const override { return bytes_; }
  const Result result;

 private:
  const size_t bytes_;
};

/// What of a result is remembered, and what that takes beside itself. Of reads nothing is.
CallResult CopyOf(const CallResult& result);
inline AssignResult CopyOf(const AssignResult& result) { return result; }
inline RegisterResult CopyOf(const RegisterResult& result) { return result; }
size_t BytesOf(const CallResult& result);
size_t BytesOf(const AssignResult& result);
size_t BytesOf(const RegisterResult& result);

/// The error of a request whose answer there was no memory for.
absl::Status NoAnswer(const RequestId& request);

/// A Task that answers with a Result (engine.h), which has a status and ErrorDetails.
template <typename Result>
class TaskOf : public Task {
 protected:
  using Done = absl::AnyInvocable<void(Result)>;

  TaskOf(EngineImpl& engine, std::string name_space, absl::Time deadline, Done done)
      : Task(engine, std::move(name_space), deadline), done_(std::move(done)) {}

  void Refuse(absl::Status status) final {
    // Whether a request was done whose answer is forgotten is not known.
    const bool unknown = ReasonOf(status) == Reason::kAnswerForgotten;
    result_.status = std::move(status);
    result_.details.effects = unknown ? Effects::kUnknown : Effects::kNone;
    Answer();
  }
  void Forsake(absl::Status status) final {
    RefuseOthers(status);
    result_ = {};
    result_.status = std::move(status);
    result_.details.effects = Effects::kUnknown;
    if constexpr (kRemembers) {
      if (does_) engine_.answers().End(name_space_, request_, nullptr, /*remembers=*/false);
    }
    Done done = std::move(done_);
    Ended();
    done(std::move(result_));
  }
  /// Answers with result_, once what that tells of is on disk where it is to be. Once, and the last
  /// thing that is done.
  void Answer() {
    if (!IsAheadOfDisk()) return AnswerNow();
    AwaitDisk([this](const absl::Status& durable) {
      if (!durable.ok()) NotDurable(durable);
      AnswerNow();
    });
  }
  /// Hands over to the log, before the places are given back, what is to be durable with the
  /// changes: result_, where it is to be remembered, and `function`, its function's hidden state.
  /// To be followed by ticket_.ReleaseAll.
  void LogWithChanges(std::optional<state::Function> function) {
    if (!is_logged()) return;
    if (streams() != nullptr && !streams()->stream_works()) return ticket_.ForgoLog();
    const HeapScope unlimited(nullptr);  // It has been done.
    auto commit = std::make_unique<CallCommit>();
    commit->function = std::move(function);
    if constexpr (kRemembers) {
      if (does_ && had_effect() && engine_.answers().HasRoomFor(0)) {
        commit->answer = StoredAnswerOf(name_space_, request_, content());
        if (engine_.answers().HasRoomFor(sizeof(Remembered) + BytesOf(result_))) {
          ToStored(result_, &*commit->answer);
        } else {
          commit->answer->message.set_lost(true);
        }
        has_logged_answer_ = true;
      }
    }
    if (commit->function || commit->answer) ticket_.Attach(std::move(commit));
  }
  /// Lets go of what the request brought and named, which its handle may outlive for long.
  virtual void DropRequest() {}
  /// Of what is forsaken: refuses the others whose answers it would have had.
  virtual void RefuseOthers(const absl::Status& /*status*/) {}
  /// Lets go of what result_ would have brought.
  virtual void DropResult() {}
  /// Whether what has succeeded has changed something.
  virtual bool has_changed() const { return true; }

  Result result_;

 private:
  void NotDurable(const absl::Status& status) {
    if (!result_.status.ok()) return;  // That tells of nothing that it has seen.
    result_.status = status;
    result_.details.effects = ticket_.has_logged() ? Effects::kAll : Effects::kNone;
    DropResult();
  }
  void AnswerNow() {
    DropRequest();
    if constexpr (kRemembers) {
      if (does_) Remember();
    }
    Done done = std::move(done_);
    Ended();
    done(std::move(result_));
  }
  using Remembered = RememberedResult<Result>;
  static constexpr bool kRemembers = requires(const Result& result) { BytesOf(result); };

  void Repeat([[maybe_unused]] const AnswerWindow::Answer& answer) final {
    if constexpr (kRemembers) {
      const auto* const known = dynamic_cast<const Remembered*>(&answer);
      if (known == nullptr) return Refuse(NoAnswer(request_));
      absl::Status copied = CatchOutOfMemory([&] {
        result_ = CopyOf(known->result);
        return absl::OkStatus();
      });
      if (!copied.ok()) return Refuse(std::move(copied));
      Answer();
    }
  }
  // Tells the engine's answers_ how it went.
  void Remember() requires kRemembers {
    const bool ok = result_.status.ok();
    const bool remembers = had_effect();
    std::shared_ptr<const AnswerWindow::Answer> answer;
    if (remembers || (ok && engine_.answers().IsAwaited(name_space_, request_, this))) {
      const HeapScope unlimited(nullptr);
      CatchOutOfMemory([&] {
        answer = std::make_shared<const Remembered>(CopyOf(result_));
        return absl::OkStatus();
      }).IgnoreError();
    }
    engine_.answers().End(name_space_, request_, std::move(answer), remembers,
                          has_logged_answer_ ? ticket_.log_position() : 0);
  }
  bool had_effect() const {
    return result_.status.ok() ? has_changed() : result_.details.effects != Effects::kNone;
  }

  Done done_;
  bool has_logged_answer_ = false;  // At ticket_'s position.
};

}  // namespace formwork
