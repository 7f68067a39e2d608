// A call, from its request to its answer (core/README.md, "The way of a call").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/relaxed.h"
#include "core/engine/task.h"

namespace formwork {

class CallTask final : public TaskOf<CallResult> {
 public:
  CallTask(EngineImpl& engine, CallSpec spec, Done done)
      : TaskOf(engine, std::move(spec.name_space), spec.deadline, std::move(done)),
        spec_(std::move(spec)) {
    result_.function_name = spec_.function.name;
    request_ = std::move(spec_.request);
  }

  /// For BatchQueue: those in line may run, and this one leads them.
  void Lead() { EndLine(); }

 private:
  absl::Status Prepare(std::vector<AccessRequest>& access) override;
  bool runs_inline() override;
  bool WaitsInLine() override;
  void Run() override;
  void Stop(absl::Status status) override;
  uint64_t ContentHash() override;
  bool has_changed() const override { return has_changed_; }
  void DropResult() override { DropKept(); }
  void RefuseOthers(const absl::Status& status) override;
  void DropRequest() override {
    LeaveLine();
    if (recorder_ != nullptr) result_.timeline = recorder_->Finish();
    values_.clear();
    own_inputs_.clear();
    spec_.inputs.clear();
    spec_.client_functions = nullptr;
    function_ = nullptr;
    access_.clear();
    places_ = nullptr;
    relaxed_ = nullptr;
    awaited_ = nullptr;
  }

  const EngineFunction& bound() const { return static_cast<const EngineFunction&>(*function_); }
  // What it runs.
  const Plan& program() const { return relaxed_ ? *relaxed_->plan : bound().program(); }
  FramePool& frames() const { return relaxed_ ? relaxed_->frames : bound().frames; }
  const std::vector<ResourceHandle>& named() const {
    return relaxed_ ? relaxed_->named : bound().named;
  }
  absl::Status Bind(std::vector<AccessRequest>& access);
  // It is to be relaxed: `access` is for its regions, where it has some.
  absl::Status MakeRelaxed(std::vector<AccessRequest>& access);
  // Calls that run together (BatchQueue):
  // Whether this one may.
  bool JoinsBatch();
  void LeaveLine();
  // What those have in common: the shapes of their rows, and what each reads at its place in line,
  // for somebody may have written between the two.
  std::vector<uint64_t> BatchKind();
  // Takes along what waits and fits.
  void GatherBatch();
  absl::Status StackInputs(int64_t rows);
  // Gives each its rows of the outputs, as its values_.
  absl::Status DealOut(std::vector<Tensor> outputs);
  void AnswerMembers();
  void RunMembersAlone();
  // All of them, and this one, because they cannot be told apart where something has failed.
  void RunAlone();
  // Until it is known how it runs and, where that is as any other call, until it has its places.
  // False where it has left its thread.
  absl::StatusOr<bool> IsReady();
  absl::StatusOr<std::vector<std::vector<AccessRequest>>> RequestsOfRegions();
  // False where it has left its thread, to be run again once `awaited` is over.
  bool WaitFor(Awaited& awaited, size_t bytes);
  absl::Status MakeAtomic(absl::Span<const AccessRequest> access);
  absl::Status BindInput(size_t i, Argument& argument, std::vector<AccessRequest>& access);
  // What datasets that it is given use, and those of iterators among `access`, comes to `access`.
  absl::Status BindUses(std::vector<AccessRequest>& access);
  // It is about to leave its thread, or is back, as its timeline shows it.
  void BeginAway(Timeline::Kind kind, absl::string_view name, absl::string_view reason);
  void EndAway();
  // Whether its work may be what an earlier call's was, or a later one's.
  bool may_be_captured() const {
    return bound().captured != nullptr && places_ == nullptr && relaxed_ == nullptr &&
           recorder_ == nullptr && !spec_.atomic && engine_.capture_budget_.has_value();
  }
  // True where it has enqueued, as one, what an earlier call had been captured to do.
  absl::StatusOr<bool> RepeatEarlier();
  // Of one whose first step is next; and once the last one has been issued.
  void BeginCapture();
  void EndCapture(bool finished);
  // Goes on until it has ended, or its thread is to go to others.
  absl::StatusOr<Execution::State> RunSlice();
  // Once all is enqueued, with how the host fared, and again where it has left its thread.
  void Finish(absl::Status status);
  // What is left of a call on a device: true once its results are in host memory, or `status` is
  // the call's; false where it has left its thread.
  bool FinishOnStream(absl::Status& status);
  Effects EffectsOf(bool past_last);
  // Takes back what one that is atomic has done.
  void Undo();
  absl::Status TakeOutputs();
  absl::StatusOr<FunctionPtr> FindFunction();
  void DropKept();
  // What it may be expected to take at the most to run on the thread that starts it.
  float InlineMicroseconds() const;
  // What decides on the work of this call, hashed; 0 where it may be anything.
  uint64_t WorkOf() const;
  // What the call may hold at once; 0: no bound of its own.
  size_t MostBytes() const;

  // What it takes to run, from its first slice to its last.
  struct Running {
    explicit Running(CallTask& task)
        : share(task.MostBytes()),
          call(task.engine_.allocator_, absl::MakeSpan(task.bound().state), &task.named(),
               task.stop_) {
      if (task.places_ != nullptr) {
        call.set_resources(task.places_.get());
      } else {
        call.set_resources(&task.ticket_);
      }
      if (task.spec_.print && !task.spec_.atomic) call.set_print(&task.spec_.print);
      call.set_files_dir(task.engine_.options_.files_dir);
      call.set_client_functions(task.spec_.client_functions.get());
    }
    MemoryShare share;
    formwork::Call call;
    std::unique_ptr<PlanFrame> frame;
    std::vector<Tensor> outputs;
    std::optional<Execution> execution;
    int64_t nanos = 0;  // On threads.
    // On a device:
    std::optional<absl::Status> issued;     // How the host fared, once all is enqueued.
    std::optional<RunCapture> capture;      // While it is captured.
    std::unique_ptr<CapturedRun> captured;  // What its work is, until that has run.
  };

  CallSpec spec_;
  FunctionPtr function_;
  std::vector<Tensor> values_;  // Arguments, then results.
  // Of one that is to be relaxed:
  enum class Stage : uint8_t { kReady, kNew, kIsBeingPlanned };
  Stage stage_ = Stage::kReady;
  std::vector<AccessRequest> access_;              // All of it, by ID, until its places are known.
  std::shared_ptr<Awaited> awaited_;               // By stage_.
  std::shared_ptr<RelaxedForm::Program> relaxed_;  // Where it runs by regions.
  std::unique_ptr<RelaxedPlaces> places_;          // The same.
  // Of one that runs with others, or waits to:
  bool in_line_ = false;
  // As they were when it came: the leader looks at them while the call may be cancelled.
  int64_t rows_ = 0;
  std::vector<uint64_t> batch_kind_;
  std::vector<std::shared_ptr<CallTask>> members_;  // That it has taken along.
  std::vector<Tensor> own_inputs_;                  // While values_ has those of all.
  std::optional<Running> running_;
  size_t resource_bytes_ = 0;
  bool has_uses_ = false;  // As BindUses.
  uint64_t work_ = 0;      // Of a function without fixed work; 0: not to be known.
  TimelineRecorder::SpanId away_ = TimelineRecorder::kNoSpan;
  bool has_changed_ = false;
};

}  // namespace formwork
