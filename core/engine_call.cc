// A call's way: find the function, bind the inputs, take a ticket, run, release, answer.

#include <algorithm>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/engine_impl.h"

namespace formwork {
namespace {

// A call that is expected to take less runs on the caller's thread: a hop to another would cost as
// much.
constexpr float kInlineMicroseconds = 100;
constexpr size_t kInlineBytes = size_t{64} << 10;
constexpr size_t kInlineSteps = 100;

absl::Status LateStatus() { return absl::DeadlineExceededError("the call's deadline has passed"); }

// Before a function has run, only what is certainly small counts as small.
bool LooksSmall(const BoundFunction& function, size_t input_bytes) {
  const Plan& plan = function.program();
  if (plan.has_loop || plan.sized_by_value || plan.steps.size() > kInlineSteps) return false;
  size_t bytes = input_bytes + function.bound_bytes;
  for (const AccessRequest& request : function.access) bytes += request.variable->bytes();
  for (const Tensor& constant : plan.constants) bytes += constant.bytes();
  return bytes <= kInlineBytes;
}

}  // namespace

/// One call from admission to answer. Lives as long as its thread or a waiting ticket needs it.
class CallTask final : public CallHandle, public std::enable_shared_from_this<CallTask> {
 public:
  CallTask(EngineImpl& engine, FunctionPtr function, bool keep_outputs, absl::Time deadline)
      : engine_(engine),
        function_(std::move(function)),
        bound_(static_cast<const BoundFunction&>(*function_)),
        keep_outputs_(keep_outputs),
        call_(engine.allocator_, &bound_.counters, &bound_.named, deadline),
        ticket_(engine.resources_, engine.allocator_) {}

  void Cancel() override {
    call_.Cancel();
    EndUnstarted(absl::CancelledError("the call was cancelled"));
  }

  absl::Status Bind(CallSpec& spec);
  void Start(absl::AnyInvocable<void(CallResult)> done);

 private:
  absl::Status BindInput(size_t i, Argument& argument, const std::string& name_space);
  void Schedule();
  void Run();
  // Ends a call that waits, in line or for a thread; one that runs looks for itself.
  void EndUnstarted(absl::Status status) {
    if (started_.exchange(true)) return;
    if (!ticket_.Abandon()) ticket_.ReleaseAll();
    Fail(std::move(status));
  }
  void WatchDeadline() {
    if (call_.deadline() == absl::InfiniteFuture()) return;
    engine_.deadlines_.Watch(call_.deadline(), weak_from_this(),
                             [this] { EndUnstarted(LateStatus()); });
  }
  void Fail(absl::Status status) {
    CallResult result;
    result.status = std::move(status);
    result.details.effects = Effects::kNone;
    Finish(std::move(result));
  }
  void Finish(CallResult result);
  absl::Status TakeOutputs(CallResult& result);

  EngineImpl& engine_;
  const FunctionPtr function_;
  const BoundFunction& bound_;
  const bool keep_outputs_;
  formwork::Call call_;
  AccessTicket ticket_;
  absl::AnyInvocable<void(CallResult)> done_;
  std::vector<Tensor> values_;  // Arguments, then results.
  std::vector<AccessRequest> access_;
  size_t input_bytes_ = 0;
  bool inline_ = false;
  std::atomic<bool> started_{false};  // Or ended.
};

absl::Status CallTask::BindInput(size_t i, Argument& argument, const std::string& name_space) {
  const TensorSpec& spec = bound_.inputs[i];
  auto where = [&] { return absl::StrCat("input ", i, " ('", spec.name, "')"); };
  if (argument.kind == Argument::Kind::kResource) {
    if (spec.dtype != DType::kResource) {
      return InvalidArgument(where(), ": a variable was given for a tensor of dtype ",
                             DTypeName(spec.dtype));
    }
    std::shared_ptr<Variable> variable = engine_.resources_.Find(argument.id);
    if (variable == nullptr || variable->name_space != name_space) {
      return NotFound(where(), ": there is no variable of id=", argument.id);
    }
    values_.push_back(Tensor::Scalar(ResourceHandle{argument.id}));
    const Access access = bound_.program().arg_access[i];
    if (access != Access::kNone) access_.push_back({std::move(variable), access});
    return absl::OkStatus();
  }
  Tensor value = std::move(argument.tensor);
  if (argument.kind == Argument::Kind::kKeptTensor) {
    FORMWORK_ASSIGN_OR_RETURN(value, engine_.kept_.Get(name_space, argument.id));
  }
  if (value.dtype() != spec.dtype) {
    return InvalidArgument(where(), " has a wrong dtype: expected=", DTypeName(spec.dtype),
                           " given=", DTypeName(value.dtype()));
  }
  if (!spec.shape.Accepts(value.shape())) {
    return InvalidArgument(where(), " has a wrong shape: expected=", spec.shape.ToString(),
                           " given=", value.shape().ToString());
  }
  input_bytes_ += value.bytes();
  values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status CallTask::Bind(CallSpec& spec) {
  if (spec.inputs.size() != bound_.inputs.size()) {
    return InvalidArgument("function '", bound_.name,
                           "' was called with a wrong number of inputs: ", "expected=",
                           bound_.inputs.size(), " given=", spec.inputs.size());
  }
  values_.reserve(bound_.program().arg_dtypes.size());
  access_ = bound_.access;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    FORMWORK_RETURN_IF_ERROR(BindInput(i, spec.inputs[i], spec.name_space));
  }
  for (const Binding& binding : bound_.identity.bindings) {
    values_.push_back(binding.resource_id == 0
                          ? binding.value
                          : Tensor::Scalar(ResourceHandle{binding.resource_id}));
  }
  return absl::OkStatus();
}

void CallTask::Start(absl::AnyInvocable<void(CallResult)> done) {
  done_ = std::move(done);
  const float mean = bound_.mean_us.load(std::memory_order_relaxed);
  inline_ = mean > 0 ? mean < kInlineMicroseconds && !bound_.program().has_loop
                     : LooksSmall(bound_, input_bytes_);
  call_.set_resources(&ticket_);
  if (!access_.empty()) {
    absl::StatusOr<bool> ready =
        ticket_.Take(std::move(access_), [self = shared_from_this()] { self->Schedule(); });
    if (!ready.ok()) return EndUnstarted(ready.status());
    if (!*ready) return WatchDeadline();
  }
  if (inline_) return Run();
  WatchDeadline();
  Schedule();
}

void CallTask::Schedule() {
  engine_.queued_.fetch_add(1, std::memory_order_relaxed);
  engine_.pool_.Schedule([self = shared_from_this()] {
    self->engine_.queued_.fetch_sub(1, std::memory_order_relaxed);
    self->Run();
  });
}

void CallTask::Run() {
  if (started_.exchange(true)) return;  // It has been ended.
  const int64_t start = absl::GetCurrentTimeNanos();
  CallResult result;
  const Plan& plan = bound_.program();
  int failed_step = -1;
  // What has waited may be late by now.
  result.status = absl::Now() >= call_.deadline() ? LateStatus() : call_.CheckStopped();
  if (result.status.ok()) {
    std::unique_ptr<PlanFrame> frame = bound_.frames.Take();
    std::vector<Tensor> outputs(plan.results.size());
    result.status = RunPlan(plan, *frame, call_, absl::MakeSpan(values_), absl::MakeSpan(outputs),
                            &failed_step);
    bound_.frames.Return(std::move(frame));
    values_ = std::move(outputs);
  }
  ticket_.ReleaseAll();
  if (result.status.ok()) {
    result.status = TakeOutputs(result);
    const float us = static_cast<float>(absl::GetCurrentTimeNanos() - start) * 1e-3f;
    const float mean = bound_.mean_us.load(std::memory_order_relaxed);
    // Rising at once, falling slowly: one slow call is enough to leave the caller's thread.
    bound_.mean_us.store(us > mean ? us : 0.9f * mean + 0.1f * us, std::memory_order_relaxed);
  }
  if (!result.status.ok()) {
    result.details.effects = !call_.has_effects()                  ? Effects::kNone
                             : failed_step > plan.last_effect_step ? Effects::kAll
                                                                   : Effects::kSome;
  }
  result.printed = std::move(call_.printed());
  Finish(std::move(result));
}

absl::Status CallTask::TakeOutputs(CallResult& result) {
  result.outputs.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    CallOutput& output = result.outputs[i];
    const DType dtype = values_[i].dtype();
    if (keep_outputs_ && dtype != DType::kResource) {
      output.kept_id = engine_.next_kept_id_.fetch_add(1, std::memory_order_relaxed);
      engine_.kept_.Put(bound_.name_space, output.kept_id, std::move(values_[i]));
    } else if (dtype == DType::kResource || dtype == DType::kVariant) {
      output.opaque = dtype;
    } else {
      output.tensor = std::move(values_[i]);
    }
  }
  return absl::OkStatus();
}

void CallTask::Finish(CallResult result) {
  result.function_id = bound_.id;
  result.function_name = bound_.name;
  absl::AnyInvocable<void(CallResult)> done = std::move(done_);
  values_.clear();
  engine_.CallDone();
  done(std::move(result));
}

absl::Status EngineImpl::Admit() {
  if (refuses_.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the server is shutting down");
  }
  if (queued_.load(std::memory_order_relaxed) >= options_.max_queued_calls) {
    return ResourceExhausted("too many calls are queued: limit=", options_.max_queued_calls);
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

void EngineImpl::CallDone() {
  if (calls_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!refuses_.load(std::memory_order_relaxed)) return;
  absl::MutexLock lock(&drain_mutex_);  // Wakes Drain.
}

absl::StatusOr<FunctionPtr> EngineImpl::FindFunction(const CallSpec& spec, ErrorDetails& details) {
  if (spec.function_id != 0) {
    FunctionPtr function = functions_.Find(spec.name_space, spec.function_id);
    if (function != nullptr) return function;
    details.unknown_function = true;
    return NotFound("there is no function of id=", spec.function_id, ": it was removed or evicted");
  }
  std::vector<InputType> types(spec.inputs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const Argument& argument = spec.inputs[i];
    InputType& type = types[i];
    if (argument.kind == Argument::Kind::kTensor) {
      type.dtype = argument.tensor.dtype();
      type.dims = argument.tensor.shape().dims();
      continue;
    }
    if (argument.kind == Argument::Kind::kKeptTensor) {
      return InvalidArgument("input ", i, ": a kept tensor needs a call by function ID");
    }
    std::shared_ptr<Variable> variable = resources_.Find(argument.id);
    if (variable == nullptr)
      return NotFound("input ", i, ": there is no variable of id=", argument.id);
    type.dtype = DType::kResource;
    type.variable_dtype = variable->dtype;
    type.known_rank = variable->shape.known_rank();
    type.dims = variable->shape.dims();
  }
  Dispatch dispatch = functions_.Find(spec.name_space, spec.name, types);
  if (dispatch.function != nullptr) return dispatch.function;
  if (dispatch.unknown_name) {
    details.unknown_function = true;
    return NotFound("there is no function '", spec.name, "'");
  }
  details.no_matching_signature = true;
  details.candidates = std::move(dispatch.candidates);
  details.suggested = std::move(dispatch.suggested);
  return NotFound("no signature of function '", spec.name,
                  "' takes these inputs: candidates=", details.candidates.size());
}

std::shared_ptr<CallHandle> EngineImpl::Call(CallSpec spec,
                                             absl::AnyInvocable<void(CallResult)> done) {
  auto refuse = [&](absl::Status status, ErrorDetails details) {
    CallResult result;
    result.status = std::move(status);
    result.details = std::move(details);
    result.details.effects = Effects::kNone;
    result.function_name = spec.name;
    done(std::move(result));
    return nullptr;
  };
  ErrorDetails details;
  absl::StatusOr<FunctionPtr> function = FindFunction(spec, details);
  if (!function.ok()) return refuse(function.status(), std::move(details));
  if (absl::Status status = Admit(); !status.ok()) return refuse(status, {});
  (*function)->calls.fetch_add(1, std::memory_order_relaxed);
  spec.name = (*function)->name;
  auto task =
      std::make_shared<CallTask>(*this, *std::move(function), spec.keep_outputs, spec.deadline);
  if (absl::Status status = task->Bind(spec); !status.ok()) {
    CallDone();
    return refuse(status, {});
  }
  task->Start(std::move(done));
  return task;
}

}  // namespace formwork
