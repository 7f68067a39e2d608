// A call's way once it is bound: run, wait, give back its places, answer.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/hash/hash.h"
#include "core/base/status.h"
#include "core/engine/call_task.h"

namespace formwork {
namespace {

// Work that takes less is quick (EngineFunction::quick_work).
constexpr float kQuickMicroseconds = 100;
// How many times what it was given a call may hold at once, where that is more than max_call_bytes.
constexpr size_t kMostGrowth = 1024;
// Of values that decide on sizes: they are compared as a whole.
constexpr size_t kMostValueBytes = 256;

}  // namespace

CallResult CopyOf(const CallResult& result) {
  CallResult copy;
  copy.status = result.status;
  copy.details = result.details;
  copy.printed = result.printed;
  copy.outputs = result.outputs;
  copy.function_id = result.function_id;
  copy.function_name = result.function_name;
  return copy;
}

size_t BytesOf(const CallResult& result) {
  size_t bytes = result.function_name.size() + result.status.message().size();
  for (const std::string& text : result.printed) bytes += sizeof(text) + text.size();
  for (const CallOutput& output : result.outputs) bytes += sizeof(output) + output.tensor.bytes();
  return bytes;
}

absl::StatusOr<bool> CallTask::IsReady() {
  while (stage_ != Stage::kReady || awaited_ != nullptr) {
    if (awaited_ != nullptr) {
      if (!awaited_->over()) {
        if (stop_.Poll()) return stop_.status();
        if (!WaitFor(*awaited_, 0)) return false;
        continue;
      }
      awaited_ = nullptr;
      continue;
    }
    const RelaxedForm& form = *bound().relaxed;
    if (stage_ == Stage::kNew) {
      stage_ = Stage::kIsBeingPlanned;
      FORMWORK_ASSIGN_OR_RETURN(awaited_, engine_.PlanRelaxed(function_));
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(form.status());
    stage_ = Stage::kReady;
    relaxed_ = form.program();
    if (relaxed_ != nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(auto requests, RequestsOfRegions());
      places_ = std::make_unique<RelaxedPlaces>(engine_.resources_, engine_.allocator_, ticket_,
                                                function_->id, relaxed_->plan, std::move(requests),
                                                weak_from_this());
      engine_.relaxed_calls_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    engine_.relaxed_ordered_.fetch_add(1, std::memory_order_relaxed);
    auto opened = std::make_shared<Opened>("places");
    if (access_.empty()) continue;
    if (!ticket_.Take(std::exchange(access_, {}),
                      [self = shared_from_this(), opened] { opened->Open(); })) {
      awaited_ = std::move(opened);
    }
  }
  return true;
}

bool CallTask::runs_inline() {
  if (stage_ != Stage::kReady) return false;
  const EngineFunction& function = bound();
  if (function.program().open_ended) return false;
  if (function.fixed_work) {
    const float mean = function.mean_us.load(std::memory_order_relaxed);
    return mean > 0 && mean < InlineMicroseconds();
  }
  work_ = WorkOf();
  return work_ != 0 && InlineMicroseconds() >= kQuickMicroseconds && function.quick_work.Has(work_);
}

float CallTask::InlineMicroseconds() const {
  const auto most = static_cast<float>(absl::ToDoubleMicroseconds(spec_.inline_below));
  // Threads that are awake cost no hop, and serve namespaces in turn.
  const bool awake = engine_.pool_.work_waits().load(std::memory_order_relaxed);
  return awake ? std::min(most, kQuickMicroseconds) : most;
}

size_t CallTask::MostBytes() const {
  const size_t least = engine_.options_.max_call_bytes;
  if (least == 0) return 0;
  size_t given = resource_bytes_ + bound().bytes + spec_.given_bytes;
  for (const Tensor& value : values_) given += value.bytes();
  return std::max(least, given > SIZE_MAX / kMostGrowth ? SIZE_MAX : given * kMostGrowth);
}

uint64_t CallTask::WorkOf() const {
  const EngineFunction& function = bound();
  const bool by_value = function.program().sized_by_value;
  // Resources and random numbers are values, too.
  if (by_value && (!function.resources.empty() || !function.state.empty())) return 0;
  uint64_t work = 1;
  size_t value_bytes = 0;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const Tensor& value = values_[i];
    for (int64_t dim : value.shape().dims()) work = absl::HashOf(work, dim);
    work = absl::HashOf(work, value.shape().rank());
    if (!by_value) continue;
    value_bytes += value.bytes();
    if (value_bytes > kMostValueBytes || !IsPlainData(value.dtype())) return 0;
    work =
        absl::HashOf(work, absl::string_view(static_cast<const char*>(value.raw()), value.bytes()));
  }
  return absl::HashOf(work, resource_bytes_);
}

void CallTask::BeginAway(Timeline::Kind kind, absl::string_view name, absl::string_view reason) {
  if (recorder_ == nullptr) return;
  away_ = recorder_->Open(
      {.name = recorder_->TextOf(name), .detail = recorder_->TextOf(reason), .kind = kind});
}

void CallTask::EndAway() {
  if (recorder_ != nullptr) recorder_->Close(std::exchange(away_, TimelineRecorder::kNoSpan));
}

bool CallTask::WaitFor(Awaited& awaited, size_t bytes) {
  BeginAway(Timeline::Kind::kWait, "wait", awaited.name());
  if (Await(awaited, bytes)) return false;
  awaited.Block(stop_);
  EndAway();
  return true;
}

void CallTask::Run() {
  EndAway();
  if (!running_) {
    if (stage_ != Stage::kReady || awaited_ != nullptr) {
      const absl::StatusOr<bool> ready = CatchOutOfMemory([this] { return IsReady(); });
      if (!ready.ok()) return Stop(ready.status());
      if (!*ready) return;
    }
    if (in_line_) GatherBatch();
    BeginPhase("run");
    running_.emplace(*this);
  }
  if (running_->issued) return Finish(*running_->issued);
  while (true) {
    const absl::StatusOr<Execution::State> state = RunSlice();
    if (!state.ok() || *state == Execution::State::kFinished) return Finish(state.status());
    if (*state == Execution::State::kSuspended) {
      BeginAway(Timeline::Kind::kSuspended, "suspended", "others wait for a thread");
      if (Suspend(running_->share.used())) return;
    } else if (const std::shared_ptr<Awaited> awaited = running_->call.awaited()) {
      // Who has the places that it waits for may need a thread: for them it does not keep its own,
      // whatever it holds.
      const bool for_places =
          ticket_.awaits_state() || (places_ != nullptr && places_->AwaitsBy(*awaited));
      const size_t bytes = for_places ? 0 : running_->share.used();
      if (!WaitFor(*awaited, bytes)) return;
      continue;
    } else {
      BeginAway(Timeline::Kind::kWait, "wait", "what is on its way to the host");
      if (Park(running_->share.used())) return;
      streams()->Block();
    }
    EndAway();
  }
}

absl::StatusOr<Execution::State> CallTask::RunSlice() {
  Running& running = *running_;
  const int64_t start = absl::GetCurrentTimeNanos();
  const bool resumed = running.execution.has_value();
  // What the thread has counted for others so far is not this call's.
  if (resumed) SettleThreadHeap();
  absl::StatusOr<Execution::State> ended =
      HoldToBudget(engine_.memory_, &running.share, [&]() -> absl::StatusOr<Execution::State> {
        if (!resumed) {
          FORMWORK_RETURN_IF_ERROR(OpenStream(program().num_streams));
          running.call.set_streams(streams());
          running.outputs.resize(program().results.size());
          FORMWORK_ASSIGN_OR_RETURN(const bool repeats, RepeatEarlier());
          if (repeats) return Execution::State::kFinished;
          running.frame = frames().Take();
          running.execution.emplace(program(), *running.frame, running.call,
                                    absl::MakeSpan(values_), recorder_.get());
          running.execution->set_regions(places_.get());
          BeginCapture();
        }
        FORMWORK_ASSIGN_OR_RETURN(const Execution::State state,
                                  running.execution->Run(absl::MakeSpan(running.outputs), Slice()));
        if (state != Execution::State::kFinished) SettleThreadHeap();
        return state;
      });
  const bool over = !ended.ok() || *ended == Execution::State::kFinished;
  if (over && running.capture) EndCapture(ended.ok());
  running.nanos += absl::GetCurrentTimeNanos() - start;
  return ended;
}

absl::StatusOr<bool> CallTask::RepeatEarlier() {
  if (streams() == nullptr || !may_be_captured()) return false;
  if (stop_.Poll()) return stop_.status();
  CapturedRuns& runs = *bound().captured;
  std::unique_ptr<CapturedRun> run = runs.Take(values_);
  if (run == nullptr) return false;
  if (!run->CanRepeat(ticket_)) {
    runs.Return(std::move(run), /*repeated=*/false);
    return false;
  }
  running_->captured = std::move(run);
  FORMWORK_RETURN_IF_ERROR(running_->captured->Enqueue(values_, running_->call, ticket_,
                                                       absl::MakeSpan(running_->outputs)));
  if (running_->captured->has_effects()) stop_.NoteEffect();
  engine_.calls_repeated_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void CallTask::BeginCapture() {
  if (streams() == nullptr || !may_be_captured() || !bound().captured->WantsCapture()) return;
  running_->capture.emplace(*engine_.device_memory_, *engine_.capture_budget_,
                            running_->frame->slots, program().arg_dtypes.size());
  if (running_->capture->Begin(*streams(), ticket_)) return;
  running_->capture.reset();
  bound().captured->NoteCaptured(nullptr);
}

void CallTask::EndCapture(bool finished) {
  std::unique_ptr<CapturedRun> run =
      running_->capture->End(program(), *streams(), ticket_, running_->outputs);
  if (!finished) run = nullptr;
  running_->capture.reset();
  bound().captured->NoteCaptured(run.get());
  if (run != nullptr) engine_.calls_captured_.fetch_add(1, std::memory_order_relaxed);
  running_->captured = std::move(run);
}

void CallTask::Stop(absl::Status status) {
  if (running_) return Finish(std::move(status));
  if (!ticket_.Abandon()) ticket_.ReleaseAll();
  Refuse(std::move(status));
}

bool CallTask::FinishOnStream(absl::Status& status) {
  Running& running = *running_;
  if (!running.issued) {
    BeginPhase("wait", Timeline::Kind::kWait, "results on their way to the host");
    if (recorder_ != nullptr) recorder_->SetStep(recorder_->TextOf("results"), 0);
    if (status.ok()) {
      status = HoldToBudget(engine_.memory_, &running.share,
                            [&] { return streams()->EnqueueResults(running.outputs); });
    }
    running.issued = status;
    // What runs with others may have to run again.
    if (!gives_back_last() && !spec_.atomic && members_.empty()) ticket_.ReleaseAll();
  }
  std::optional<absl::Status> enqueued = OnceReady(running.share.used(), [&] {
    return streams()->TakeResults(absl::MakeSpan(running.outputs));
  });
  if (!enqueued) return false;
  // What was enqueued came before what the host has found wrong.
  if (!enqueued->ok()) status = *std::move(enqueued);
  return true;
}

// `past_last`: nothing that has an effect was left when it failed.
Effects CallTask::EffectsOf(bool past_last) {
  const auto of = [](int64_t before, int64_t all, bool past_last) {
    if (before == 0) return Effects::kNone;
    return before == all && past_last ? Effects::kAll : Effects::kSome;
  };
  StreamScope* const streams = running_->call.streams();
  if (streams == nullptr) return of(running_->call.has_effects(), 1, past_last);
  const int64_t all = streams->effects();
  const bool enqueued_failed = !streams->status()->Get().ok();
  return of(enqueued_failed ? streams->status()->effects_before_failure() : all, all,
            past_last || running_->issued->ok());
}

void CallTask::Finish(absl::Status status) {
  const EngineFunction& function = bound();
  Running& running = *running_;
  if (running.capture) EndCapture(/*finished=*/false);  // It was stopped on its way.
  if (streams() != nullptr && !FinishOnStream(status)) return;
  BeginPhase("answer");
  result_.status = std::move(status);
  int64_t failed = -1;
  if (running.execution) {
    if (!result_.status.ok()) {
      running.execution->Stop();
      failed = running.execution->position();
    }
    frames().Return(std::move(running.frame));
  }
  if (places_ != nullptr) places_->End();
  if (!members_.empty()) {
    if (result_.status.ok()) {
      result_.status =
          HoldToBudget(engine_.memory_, [&] { return DealOut(std::move(running.outputs)); });
    }
    if (!result_.status.ok()) return RunAlone();
  } else {
    values_ = std::move(running.outputs);
  }
  // Before the places go back, so that all that it is answered is durable with what it has changed.
  if (result_.status.ok()) {
    result_.status = CatchOutOfMemory([&] { return TakeOutputs(); });
    if (!result_.status.ok()) {
      DropKept();
      failed = static_cast<int64_t>(program().code.size());  // All has run.
    }
  }
  result_.printed = std::move(running.call.printed());
  if (!result_.status.ok()) {
    result_.details.effects = EffectsOf(failed > program().last_effect);
    if (spec_.atomic) Undo();
  } else if (does_) {
    has_changed_ = EffectsOf(true) != Effects::kNone || !function.state.empty() ||
                   (spec_.keep_outputs && spec_.keep_from < result_.outputs.size());
  }
  if (is_logged()) {
    const HeapScope unlimited(nullptr);  // It has been drawn.
    LogWithChanges(function.state.empty() ? std::nullopt : StateOf(function));
  }
  ticket_.ReleaseAll();
  if (engine_.snapshots_ != nullptr && running.call.has_effects()) {
    engine_.snapshots_->CountChange(name_space_);
  }
  if (result_.status.ok() && recorder_ == nullptr && members_.empty() &&
      places_ == nullptr) {  // Else it took longer than others do.
    const float us = static_cast<float>(running.nanos) * 1e-3f;
    const float mean = function.mean_us.load(std::memory_order_relaxed);
    // Rising at once, falling slowly: one slow call is enough to leave the caller's thread.
    function.mean_us.store(us > mean ? us : 0.9f * mean + 0.1f * us, std::memory_order_relaxed);
    if (work_ != 0 && us < kQuickMicroseconds) function.quick_work.Add(work_);
  }
  if (running.captured != nullptr) {
    if (result_.status.ok()) {
      function.captured->Return(std::move(running.captured), /*repeated=*/true);
    } else {  // A failure word says so still.
      function.captured->NoteLost();
    }
  }
  if (streams() != nullptr) CloseStream();
  running_.reset();
  // First, so that who comes meanwhile need not wait for all the answers.
  LeaveLine();
  AnswerMembers();
  Answer();
}

void CallTask::RunAlone() {
  if (running_->captured != nullptr) bound().captured->NoteLost();
  if (streams() != nullptr) CloseStream();
  running_.reset();
  result_.status = absl::OkStatus();
  std::move(own_inputs_.begin(), own_inputs_.end(), values_.begin());
  own_inputs_.clear();
  LeaveLine();
  RunMembersAlone();
  Requeue();
}

void CallTask::Undo() {
  ticket_.RollBack();
  result_.printed.clear();
  result_.details.effects = Effects::kNone;
}

absl::Status CallTask::TakeOutputs() {
  result_.outputs.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    CallOutput& output = result_.outputs[i];
    const DType dtype = values_[i].dtype();
    if (spec_.keep_outputs && i >= spec_.keep_from && dtype != DType::kResource) {
      absl::StatusOr<uint64_t> id = engine_.Keep(name_space_, spec_.owner, function_->name,
                                                 spec_.kept_ttl, std::move(values_[i]));
      if (!id.ok()) return id.status();
      output.kept_id = *id;
      if (is_logged()) NoteLogged(log_->AppendMore());
    } else if (dtype == DType::kResource || dtype == DType::kVariant) {
      output.opaque = dtype;
    } else {
      output.tensor = std::move(values_[i]);
    }
  }
  return absl::OkStatus();
}

void CallTask::DropKept() {
  for (const CallOutput& output : result_.outputs) {
    if (output.kept_id != 0) engine_.kept_.Release(name_space_, {&output.kept_id, 1});
  }
  result_.outputs.clear();
}

std::shared_ptr<CallHandle> EngineImpl::Call(CallSpec spec,
                                             absl::AnyInvocable<void(CallResult)> done) {
  return std::make_shared<CallTask>(*this, std::move(spec), std::move(done));
}

}  // namespace formwork
