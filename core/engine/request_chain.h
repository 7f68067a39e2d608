#pragma once

// Requests that are made of others, one after the other. Included by core/engine*.cc alone.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/task.h"

namespace formwork {

struct FileTaskResult {
  absl::Status status;
  ErrorDetails details;
};

/// Work on files, on a thread of the compilers'.
class FileTask final : public TaskOf<FileTaskResult> {
 public:
  using Work = absl::AnyInvocable<absl::Status()>;
  FileTask(EngineImpl& engine, std::string name_space, absl::Time deadline, Work work, Done done)
      : TaskOf(engine, std::move(name_space), deadline, std::move(done)), work_(std::move(work)) {}

 private:
  absl::Status Prepare(std::vector<AccessRequest>&) override { return absl::OkStatus(); }
  bool runs_inline() override { return false; }
  ThreadPool& pool() override { return engine_.compilers_; }
  void Run() override {
    absl::Status status = HoldToBudget(engine_.memory_, [this] {
      const StopScope scope(&stop_);
      return work_();
    });
    if (!status.ok()) return Refuse(std::move(status));
    Answer();
  }
  void DropRequest() override { work_ = nullptr; }

  Work work_;
};

/// Several requests, one after the other, as one, which has no number. `Spec` and `Result` are
/// those of a method of Engine.
template <typename Spec, typename Result>
class RequestChain : public CallHandle,
                     public std::enable_shared_from_this<RequestChain<Spec, Result>> {
 public:
  using Done = absl::AnyInvocable<void(Result)>;
  RequestChain(EngineImpl& engine, Spec spec, Done done)
      : engine_(engine), spec_(std::move(spec)), done_(std::move(done)) {}

  void Cancel() final {
    std::shared_ptr<CallHandle> current;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      if (!commits_) current = current_;
    }
    if (current != nullptr) current->Cancel();
  }
  void Disconnected() final { Cancel(); }

 protected:
  /// Takes back what has been done of a chain that fails. Throws nothing.
  virtual void Undo() {}

  /// The next one. What it is to be answered to holds this chain.
  void Begin(std::shared_ptr<CallHandle> request) {
    bool cancelled = false;
    {
      absl::MutexLock lock(&mutex_);
      current_ = request;
      cancelled = cancelled_ && !commits_;
    }
    if (cancelled) request->Cancel();
    request->Start();
  }
  /// From here on it is not cancelled. False where it has been.
  bool Commit() {
    absl::MutexLock lock(&mutex_);
    commits_ = !cancelled_;
    return commits_;
  }
  /// Work on files as the next one; `next` goes on where it succeeds.
  void BeginWork(FileTask::Work work, absl::AnyInvocable<void()> next) {
    Begin(std::make_shared<FileTask>(
        engine_, spec_.name_space, spec_.deadline, std::move(work),
        [self = this->shared_from_this(), next = std::move(next)](FileTaskResult worked) mutable {
          if (worked.status.ok()) return next();
          self->Fail(std::move(worked.status), std::move(worked.details));
        }));
  }
  void Fail(absl::Status status, ErrorDetails details) {
    Undo();
    result_.status = std::move(status);
    result_.details = std::move(details);
    Answer();
  }
  /// As Fail, where nothing has been done, or all of it is taken back.
  void Refuse(absl::Status status, ErrorDetails details = {}) {
    details.effects = Effects::kNone;
    Fail(std::move(status), std::move(details));
  }
  void Answer() {
    {
      absl::MutexLock lock(&mutex_);
      current_ = nullptr;
    }
    std::exchange(done_, nullptr)(std::move(result_));
  }

  std::shared_ptr<Transfer> BeginTransfer(TransferInfo::Kind kind) {
    return engine_.transfers().Begin(kind, std::string(NamespaceOf(spec_.name_space)), spec_.path);
  }

  EngineImpl& engine_;
  const Spec spec_;
  Result result_;

 private:
  Done done_;
  absl::Mutex mutex_;
  std::shared_ptr<CallHandle> current_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool commits_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace formwork
