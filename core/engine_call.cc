// A call's way: find the function, bind the inputs, take a ticket, run, release, answer.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/hash/hash.h"
#include "absl/time/clock.h"
#include "core/base/name.h"
#include "core/base/reason.h"
#include "core/base/stable_hash.h"
#include "core/base/status.h"
#include "core/engine_relaxed.h"
#include "core/engine_task.h"
#include "core/ops/data.h"

namespace formwork {
namespace {

// A call that is expected to take less runs on the caller's thread: a hop to another would cost as
// much.
constexpr float kInlineMicroseconds = 100;
// How many times what it was given a call may hold at once, where that is more than max_call_bytes.
constexpr size_t kMostGrowth = 1024;
// Of values that decide on sizes: they are compared as a whole.
constexpr size_t kMostValueBytes = 256;

// How late a kept tensor may go, at the most.
constexpr absl::Duration kKeptWatchPeriod = absl::Seconds(1);

}  // namespace

class CallTask final : public TaskOf<CallResult> {
 public:
  CallTask(EngineImpl& engine, CallSpec spec, Done done)
      : TaskOf(engine, std::move(spec.name_space), spec.deadline, std::move(done)),
        spec_(std::move(spec)) {
    result_.function_name = spec_.function.name;
    request_ = std::move(spec_.request);
  }

 private:
  absl::Status Prepare(std::vector<AccessRequest>& access) override;
  bool runs_inline() override;
  void Run() override;
  void Stop(absl::Status status) override;
  uint64_t ContentHash() override;
  bool has_changed() const override { return has_changed_; }
  void DropResult() override { DropKept(); }
  void DropRequest() override {
    if (recorder_ != nullptr) result_.timeline = recorder_->Finish();
    values_.clear();
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
  // Until it is known how it runs and, where that is as any other call, until it has its places.
  // False where it has left its thread.
  absl::StatusOr<bool> IsReady();
  absl::StatusOr<std::vector<std::vector<AccessRequest>>> RequestsOfRegions();
  // False where it has left its thread, to be run again once `awaited` is over.
  bool WaitFor(Awaited& awaited, size_t bytes);
  absl::Status MakeAtomic(absl::Span<const AccessRequest> access);
  absl::Status BindInput(size_t i, Argument& argument, std::vector<AccessRequest>& access);
  // It is about to leave its thread, or is back, as its timeline shows it.
  void BeginAway(Timeline::Kind kind, absl::string_view name, absl::string_view reason);
  void EndAway();
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
    std::optional<absl::Status> issued;  // How the host fared, once all is enqueued.
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
  std::optional<Running> running_;
  size_t resource_bytes_ = 0;
  uint64_t work_ = 0;  // Of a function without fixed work; 0: not to be known.
  TimelineRecorder::SpanId away_ = TimelineRecorder::kNoSpan;
  bool has_changed_ = false;
};

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

uint64_t CallTask::ContentHash() {
  StableHash hash;
  hash.Add(spec_.function.id).Add(spec_.function.name).Add(uint64_t{spec_.keep_outputs});
  for (const Argument& input : spec_.inputs) {
    const Tensor& tensor = input.tensor;
    hash.Add(static_cast<uint64_t>(input.kind)).Add(input.id);
    hash.Add(static_cast<uint64_t>(tensor.dtype()) << 32 | uint64_t(tensor.shape().rank()));
    for (int64_t dim : tensor.shape().dims()) hash.Add(static_cast<uint64_t>(dim));
  }
  return hash.value();
}

absl::Status CallTask::Prepare(std::vector<AccessRequest>& access) {
  if (spec_.timeline) recorder_ = std::make_shared<TimelineRecorder>();
  BeginPhase("find function");
  FORMWORK_ASSIGN_OR_RETURN(function_, FindFunction());
  BeginPhase("bind");
  result_.function_id = function_->id;
  result_.function_name = function_->name;
  function_->calls.fetch_add(1, std::memory_order_relaxed);
  ticket_.set_writer(function_->id);
  FORMWORK_RETURN_IF_ERROR(Bind(access));
  // What it is answered becomes durable with what it changes.
  if (does_ && is_logged()) ticket_.HoldAll();
  if (spec_.relaxed) return MakeRelaxed(access);
  return spec_.atomic ? MakeAtomic(access) : absl::OkStatus();
}

absl::Status CallTask::MakeRelaxed(std::vector<AccessRequest>& access) {
  if (spec_.atomic) return InvalidArgument("a call cannot be both atomic and relaxed");
  const RelaxedForm* const form = bound().relaxed.get();
  std::sort(access.begin(), access.end(), [](const AccessRequest& a, const AccessRequest& b) {
    return a.resource->id < b.resource->id;
  });
  // Under two names a resource could be in two regions at once.
  const bool aliased = std::adjacent_find(access.begin(), access.end(),
                                          [](const AccessRequest& a, const AccessRequest& b) {
                                            return a.resource == b.resource;
                                          }) != access.end();
  if (form == nullptr || aliased || (form->known() && form->program() == nullptr)) {
    engine_.relaxed_ordered_.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  if (engine_.commits_ != nullptr) FORMWORK_RETURN_IF_ERROR(engine_.commits_->Admit(access));
  access_ = std::exchange(access, {});
  stage_ = Stage::kNew;
  return absl::OkStatus();
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

absl::StatusOr<std::vector<std::vector<AccessRequest>>> CallTask::RequestsOfRegions() {
  std::vector<std::vector<AccessRequest>> requests;
  for (const Plan::Region& region : relaxed_->plan->regions) {
    std::vector<AccessRequest>& of_region = requests.emplace_back();
    for (const auto& [origin, mode] : region.access) {
      const uint64_t id =
          (origin >= 0 ? values_[static_cast<size_t>(origin)].scalar<ResourceHandle>()
                       : relaxed_->named[static_cast<size_t>(-1 - origin)])
              .id;
      const auto found = std::lower_bound(
          access_.begin(), access_.end(), id,
          [](const AccessRequest& request, uint64_t id) { return request.resource->id < id; });
      std::shared_ptr<Resource> resource = found != access_.end() && found->resource->id == id
                                               ? found->resource
                                               : engine_.resources_.Find(id);
      if (resource == nullptr) return NoResource({id, ""});
      of_region.push_back({std::move(resource), mode});
    }
  }
  return requests;
}

absl::Status CallTask::MakeAtomic(absl::Span<const AccessRequest> access) {
  if (engine_.streams_) return Unimplemented("atomic calls on a device");
  for (const AccessRequest& request : access) {
    if (request.mode == Access::kWrite && request.resource->type.kind == &kIteratorKind) {
      return Unimplemented("atomic calls that take elements of an iterator: ",
                           Described(*request.resource), " cannot be put back");
    }
  }
  ticket_.SetAtomic();
  return absl::OkStatus();
}

absl::Status CallTask::BindInput(size_t i, Argument& argument, std::vector<AccessRequest>& access) {
  const TensorSpec& spec = bound().inputs[i];
  auto where = [&] { return absl::StrCat("input ", i, " ('", spec.name, "')"); };
  if (argument.kind == Argument::Kind::kResource) {
    if (spec.dtype != DType::kResource) {
      return InvalidArgument(where(), ": a resource was given for a tensor of dtype ",
                             DTypeName(spec.dtype));
    }
    std::shared_ptr<Resource> resource = engine_.resources_.Find(argument.id);
    if (resource == nullptr || resource->name_space != name_space_) {
      return InField(Annotate(NoResource({argument.id, ""}), where()), "resource_id");
    }
    values_.push_back(Tensor::Scalar(ResourceHandle{argument.id}));
    const Access mode = bound().program().arg_access[i];
    if (mode != Access::kNone) {
      resource_bytes_ += resource->bytes();
      access.push_back({std::move(resource), mode});
    }
    return absl::OkStatus();
  }
  Tensor value = std::move(argument.tensor);
  if (argument.kind == Argument::Kind::kKeptTensor) {
    absl::StatusOr<Tensor> kept = engine_.kept_.Use(name_space_, argument.id);
    if (!kept.ok()) return InField(Annotate(kept.status(), where()), "kept_tensor_id");
    value = *std::move(kept);
  }
  if (value.dtype() != spec.dtype) {
    return InvalidArgument(where(), " has a wrong dtype: expected=", DTypeName(spec.dtype),
                           " given=", DTypeName(value.dtype()));
  }
  if (!spec.shape.Accepts(value.shape())) {
    return InvalidArgument(where(), " has a wrong shape: expected=", spec.shape.ToString(),
                           " given=", value.shape().ToString());
  }
  values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status CallTask::Bind(std::vector<AccessRequest>& access) {
  const EngineFunction& function = bound();
  if (spec_.inputs.size() != function.inputs.size()) {
    return InField(InvalidArgument("function '", function.name,
                                   "' was called with a wrong number of inputs: expected=",
                                   function.inputs.size(), " given=", spec_.inputs.size()),
                   "inputs");
  }
  values_.reserve(function.program().arg_dtypes.size());
  access.reserve(function.resources.size());
  for (const BoundResource& bound_to : function.resources) {
    if (bound_to.access == Access::kNone) continue;
    std::shared_ptr<Resource> resource = bound_to.resource.lock();
    if (resource == nullptr || resource->destroyed()) {
      return WithReason(FailedPrecondition("Could not find ", bound_to.kind->name, " ",
                                           bound_to.name, " of function '", function.name,
                                           "': the ", bound_to.kind->name, " has been deleted"),
                        Reason::kVariableDeleted,
                        {{"variableName", bound_to.name}, {"functionName", function.name}});
    }
    resource_bytes_ += resource->bytes();
    access.push_back({std::move(resource), bound_to.access});
  }
  for (size_t i = 0; i < spec_.inputs.size(); ++i) {
    absl::Status input = BindInput(i, spec_.inputs[i], access);
    if (!input.ok()) return InField(std::move(input), absl::StrCat("inputs[", i, "]"));
  }
  for (const Binding& binding : function.identity.bindings) {
    values_.push_back(binding.resource_id == 0
                          ? binding.value
                          : Tensor::Scalar(ResourceHandle{binding.resource_id}));
  }
  return absl::OkStatus();
}

bool CallTask::runs_inline() {
  if (stage_ != Stage::kReady) return false;
  const EngineFunction& function = bound();
  if (function.program().open_ended) return false;
  if (function.fixed_work) {
    const float mean = function.mean_us.load(std::memory_order_relaxed);
    return mean > 0 && mean < kInlineMicroseconds;
  }
  work_ = WorkOf();
  return work_ != 0 && function.quick_work.Has(work_);
}

size_t CallTask::MostBytes() const {
  const size_t least = engine_.options_.max_call_bytes;
  if (least == 0) return 0;
  size_t given = resource_bytes_ + bound().bytes;
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
      const bool for_places = places_ != nullptr && places_->AwaitsBy(*awaited);
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
          running.frame = frames().Take();
          running.outputs.resize(program().results.size());
          running.execution.emplace(program(), *running.frame, running.call,
                                    absl::MakeSpan(values_), recorder_.get());
          running.execution->set_regions(places_.get());
        }
        FORMWORK_ASSIGN_OR_RETURN(const Execution::State state,
                                  running.execution->Run(absl::MakeSpan(running.outputs), Slice()));
        if (state != Execution::State::kFinished) SettleThreadHeap();
        return state;
      });
  running.nanos += absl::GetCurrentTimeNanos() - start;
  return ended;
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
    ticket_.ReleaseAll();
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
  values_ = std::move(running.outputs);
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
  if (result_.status.ok() && recorder_ == nullptr &&
      places_ == nullptr) {  // Else it took longer than others do.
    const float us = static_cast<float>(running.nanos) * 1e-3f;
    const float mean = function.mean_us.load(std::memory_order_relaxed);
    // Rising at once, falling slowly: one slow call is enough to leave the caller's thread.
    function.mean_us.store(us > mean ? us : 0.9f * mean + 0.1f * us, std::memory_order_relaxed);
    if (work_ != 0 && us < kInlineMicroseconds) function.quick_work.Add(work_);
  }
  if (streams() != nullptr) CloseStream();
  running_.reset();
  Answer();
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
      if (engine_.commits_ != nullptr) NoteLogged(engine_.commits_->AppendMore());
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

absl::Status EngineImpl::Admit() {
  // Counted first: once Drain has seen none, nobody slips in.
  calls_.fetch_add(1);
  if (!refuses_.load()) return absl::OkStatus();
  CallDone();
  return WithReason(absl::UnavailableError("the server is shutting down"), Reason::kDraining);
}

void EngineImpl::CallDone() {
  if (calls_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!refuses_.load(std::memory_order_relaxed)) return;
  absl::MutexLock lock(&drain_mutex_);  // Wakes Drain.
}

absl::StatusOr<uint64_t> EngineImpl::KeepTensor(absl::string_view name_space,
                                                absl::string_view owner, absl::Duration ttl,
                                                Tensor tensor) {
  name_space = NamespaceOf(name_space);
  FORMWORK_RETURN_IF_ERROR(InField(CheckName("namespace", name_space), "namespace"));
  return Keep(name_space, owner, "", ttl, std::move(tensor));
}

absl::StatusOr<uint64_t> EngineImpl::Keep(absl::string_view name_space, absl::string_view owner,
                                          absl::string_view function_name, absl::Duration ttl,
                                          Tensor tensor) {
  if (ttl <= absl::ZeroDuration()) ttl = options_.kept_tensor_ttl;
  if (commits_ != nullptr) commits_->AppendMore();  // The ID is gone after a crash.
  // First: it may find no memory, and then nothing has been kept.
  if (std::min(ttl, options_.client_ttl) != absl::InfiniteDuration()) WatchKept(kKeptWatchPeriod);
  return kept_.Put(name_space, owner, function_name, ttl, std::move(tensor));
}

void EngineImpl::WatchKept(absl::Duration in) {
  if (watches_kept_.exchange(true)) return;
  absl::Cleanup unwatched = [this] { watches_kept_.store(false); };
  deadlines_.Watch(absl::Now() + in, watch_owner_, [this] { ExpireKept(); });
  std::move(unwatched).Cancel();
}

void EngineImpl::ExpireKept() {
  watches_kept_.store(false);
  const absl::Status expires = CatchOutOfMemory([this] {
    const absl::Time now = absl::Now();
    std::vector<KeptTensors::Expired> expired;
    const absl::Time next = kept_.Expire(now, &expired);
    if (next != absl::InfiniteFuture()) {
      WatchKept(next > now ? kKeptWatchPeriod : absl::ZeroDuration());
    }
    if (!options_.on_eviction) return absl::OkStatus();
    for (const auto& [name_space, info] : expired) {
      options_.on_eviction(
          {Eviction::Kind::kKeptTensor, name_space, info.owner, info.id, info.bytes});
    }
    return absl::OkStatus();
  });
  if (expires.ok()) return;
  (void)CatchOutOfMemory([this] {
    WatchKept(kKeptWatchPeriod);  // Else the next one that is kept brings it back.
    return absl::OkStatus();
  });
}

absl::StatusOr<FunctionPtr> CallTask::FindFunction() {
  if (spec_.function.id != 0) {
    FunctionPtr function = engine_.functions_.Find(name_space_, spec_.function.id);
    if (function != nullptr) return function;
    return InField(NoFunction(spec_.function), "function_id");
  }
  std::vector<InputType> types(spec_.inputs.size());
  std::vector<std::shared_ptr<Resource>> variables;  // Whose shapes the types point into.
  for (size_t i = 0; i < types.size(); ++i) {
    Argument& argument = spec_.inputs[i];
    InputType& type = types[i];
    const auto in_input = [i](const absl::Status& status, absl::string_view field) {
      return InField(Annotate(status, absl::StrCat("input ", i)),
                     absl::StrCat("inputs[", i, "].", field));
    };
    if (argument.kind == Argument::Kind::kKeptTensor) {
      absl::StatusOr<Tensor> kept = engine_.kept_.Use(name_space_, argument.id);
      if (!kept.ok()) return in_input(kept.status(), "kept_tensor_id");
      argument.tensor = *std::move(kept);
      argument.kind = Argument::Kind::kTensor;
    }
    if (argument.kind == Argument::Kind::kTensor) {
      type.dtype = argument.tensor.dtype();
      type.dims = argument.tensor.shape().dims();
      continue;
    }
    std::shared_ptr<Resource> resource = engine_.resources_.Find(argument.id);
    if (resource == nullptr || resource->name_space != name_space_) {
      return in_input(NoResource({argument.id, ""}), "resource_id");
    }
    type.dtype = DType::kResource;
    if (!resource->type.is_variable()) continue;
    type.variable_dtype = resource->dtype();
    type.known_rank = resource->shape().known_rank();
    type.dims = resource->shape().dims();
    variables.push_back(std::move(resource));
  }
  Dispatch dispatch = engine_.functions_.Find(name_space_, spec_.function.name, types);
  if (dispatch.function != nullptr) return dispatch.function;
  if (dispatch.unknown_name) {
    return InField(NoFunction(spec_.function), "function_name");
  }
  result_.details.candidates = std::move(dispatch.candidates);
  result_.details.suggested = std::move(dispatch.suggested);
  return InField(
      WithReason(NotFound("no signature of function '", spec_.function.name,
                          "' takes these inputs: candidates=", result_.details.candidates.size()),
                 Reason::kNoMatchingSignature, {{"functionName", spec_.function.name}}),
      "inputs");
}

std::shared_ptr<CallHandle> EngineImpl::Call(CallSpec spec,
                                             absl::AnyInvocable<void(CallResult)> done) {
  return std::make_shared<CallTask>(*this, std::move(spec), std::move(done));
}

}  // namespace formwork
