#pragma once

// What all requests that may wait have in common. Included by core/engine*.cc alone.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine_impl.h"

namespace formwork {

/// One request from admission to answer: it is prepared, takes its place in line at the variables
/// that it needs, waits for them and for a thread where it must, and then either runs or is
/// refused, once. Lives as long as its handle, its thread or a waiting ticket needs it.
class Task : public CallHandle, public std::enable_shared_from_this<Task> {
 public:
  ~Task() override;
  void Start() final;
  void Cancel() final { Stop(StopReason::kCancelled); }
  /// As Cancel, with kAborted: the engine shuts down.
  void Abort() { Stop(StopReason::kAborted); }

 protected:
  /// `name_space`: as asked, or empty.
  Task(EngineImpl& engine, std::string name_space, absl::Time deadline)
      : engine_(engine),
        name_space_(name_space.empty() ? kDefaultNamespace : std::move(name_space)),
        deadline_(deadline),
        ticket_(engine.resources_, engine.allocator_) {}

  /// Finds and checks what the request names, and adds the variables that it needs to `access`.
  virtual absl::Status Prepare(std::vector<AccessRequest>& access) = 0;
  /// Asked once prepared: whether it runs on Start's thread where it need not wait.
  virtual bool runs_inline() = 0;
  /// Where it runs else.
  virtual ThreadPool& pool() { return engine_.pool_; }
  /// Does what was asked, with all places granted, and answers, after Ended().
  virtual void Run() = 0;
  /// Answers that nothing was done, after Ended().
  virtual void Refuse(absl::Status status) = 0;
  /// The request is to be stopped while it runs.
  virtual void StopRunning() {}

  /// kCancelled or kAborted once it is to stop, else OK.
  absl::Status AskedStatus() const;
  /// Gives back what it holds of the engine: before the answer, which may be the engine's end.
  void Ended();

  EngineImpl& engine_;
  const std::string name_space_;
  const absl::Time deadline_;
  AccessTicket ticket_;

 private:
  enum class State : uint8_t {
    kStarting,  // Or not started yet: whoever starts it looks for a cancellation.
    kWaiting,   // Holds one of its namespace's places; whoever ends the wait claims it.
    kClaimed,   // Runs, is refused or has ended.
  };

  enum class StopReason : uint8_t { kNone, kCancelled, kAborted };

  void Stop(StopReason reason);
  // Whether it is now for the caller to run it or refuse it.
  bool Claim();
  absl::Status TakePlace();
  void Schedule();
  void RunClaimed();
  // From here on a cancellation or the deadline ends it, until it runs.
  void Wait();
  void EndWait(absl::Status status);
  absl::Status StopStatus() const;

  std::atomic<State> state_{State::kStarting};
  std::atomic<StopReason> stop_reason_{StopReason::kNone};
  std::atomic<uint64_t> queued_at_{0};  // Its place in the pool's queue, once it has one.
  bool admitted_ = false;
  bool scheduled_ = false;
};

}  // namespace formwork
