#include "core/runtime/executor.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/awaited.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/stream_scope.h"
#include "core/ops/control_flow.h"
#include "core/runtime/recorded_step.h"

namespace formwork {
namespace {

// Reading the clock costs as much as a trivial step. Long steps look at it themselves.
constexpr uint32_t kStepsBetweenPolls = 32;
constexpr uint32_t kIterationsBetweenPolls = 16;
constexpr uint32_t kCallsBetweenPolls = 32;
// Calls of calls of calls can take for ever without a loop: as in one they stop after effects, too.
constexpr uint32_t kCallsBetweenStops = 1024;
// After an effect the steps that are left may take so long together once the call is to stop: time
// for the rest of a training step, not for as much work as a graph may have.
constexpr int64_t kLongestEndNanos = 500'000'000;
// Of the calls that an error is in, the outermost and the innermost ones are named: so many each.
constexpr size_t kNamedCalls = 8;

void Empty(PlanFrame& frame) {
  for (Tensor& slot : frame.slots) slot.Drop();
}

void Take(const InputRef& ref, Tensor& to) {
  if (ref.owned) {
    to = std::move(*const_cast<Tensor*>(ref.tensor));
  } else {
    to = *ref.tensor;
  }
}

absl::StatusOr<bool> Decide(const Tensor& condition) {
  if (condition.dtype() == DType::kBool && condition.rank() == 0) return condition.scalar<bool>();
  return IsTrue(condition);
}

absl::StatusOr<size_t> Choose(const Plan::Instruction& instruction, const Tensor& selector) {
  return ChooseBranch(
      instruction.code == Plan::Code::kBranch ? ControlFlow::kIf : ControlFlow::kCase, selector,
      instruction.num_targets);
}

uint16_t LaneTrack(TimelineRecorder* recorder, uint32_t lane) {
  return recorder == nullptr ? 0 : recorder->TrackOf(absl::StrCat("lane ", lane + 1));
}

}  // namespace

struct Execution::Lane {
  Lane(const Plan& plan, PlanFrame& frame, CallScope& call, Tensor* outputs,
       TimelineRecorder* recorder, uint16_t track)
      : run(plan, frame, call, {}, recorder, track), outputs(outputs, plan.results.size()) {}

  absl::StatusOr<State> Run(TimeSlice slice) {
    if (run.recorder_ == nullptr) return run.Run(outputs, slice);
    const TimelineRecorder::SpanId span = OpenLane(*run.recorder_, run.track_, run.root_);
    absl::StatusOr<State> ended = run.Run(outputs, slice);
    run.recorder_->Close(span);
    return ended;
  }

  Execution run;
  const absl::Span<Tensor> outputs;
  absl::StatusOr<State> state = State::kSuspended;
};

Execution::~Execution() = default;

Execution::Execution(const Plan& root, PlanFrame& frame, CallScope& call, absl::Span<Tensor> inputs,
                     TimelineRecorder* recorder, uint16_t track)
    : root_(root),
      root_frame_(frame),
      call_(call),
      stop_(call.stop()),
      plan_(&root),
      frame_(&frame),
      until_poll_(kStepsBetweenPolls),
      track_(track),
      recorder_(recorder) {
  for (size_t i = 0; i < inputs.size(); ++i) frame.slots[i] = std::move(inputs[i]);
}

absl::StatusOr<Execution::State> Execution::Run(absl::Span<Tensor> outputs, TimeSlice slice) {
  return recorder_ == nullptr ? RunAs<false>(outputs, slice) : RunAs<true>(outputs, slice);
}

template <bool kRecorded, typename Step>
inline auto Execution::Recorded(const Plan::Instruction& instruction, const InputRef* refs,
                                const Tensor* slots, Step run) {
  if constexpr (kRecorded) {
    if (recorder_->full()) {
      recorder_->CountLeftOut();
      return run();
    }
    RecordedStep step(*recorder_, track_, *plan_, at_, {refs, instruction.inputs.count});
    auto result = run();
    if constexpr (std::is_same_v<decltype(result), absl::Status>) {
      step.End(result, {slots + instruction.outputs.first, instruction.outputs.count});
    } else {  // Whether it has finished.
      const bool made = result.ok() && *result;
      step.End(result.status(),
               {slots + instruction.outputs.first, made ? instruction.outputs.count : 0});
    }
    return result;
  } else {
    return run();
  }
}

template <bool kRecorded>
absl::StatusOr<Execution::State> Execution::RunAs(absl::Span<Tensor> outputs, TimeSlice& slice) {
  const StopScope scope(&stop_);
  const ComputeScope computes;
  while (true) {
    const Plan::Instruction& instruction = plan_->code[at_];
    Tensor* const slots = frame_->slots.data();
    const InputRef* const refs = frame_->inputs.data() + instruction.inputs.first;
    uint32_t next = at_ + 1;
    switch (instruction.code) {
      case Plan::Code::kKernel: {
        if (!stop_.after_effect() && slice.Over()) return State::kSuspended;
        absl::Status status = Recorded<kRecorded>(
            instruction, refs, slots, [&] { return RunKernel(instruction, refs, slots); });
        if (!status.ok()) {
          if (IsWaiting(status)) return State::kWaiting;
          return Fail(std::move(status), /*named=*/call_.streams() != nullptr);
        }
        break;
      }
      case Plan::Code::kScalar: {
        if (!stop_.after_effect() && slice.Over()) return State::kSuspended;
        absl::StatusOr<bool> finished = Recorded<kRecorded>(
            instruction, refs, slots, [&] { return RunScalars(instruction, refs, slots, slice); });
        if (!finished.ok()) return Fail(finished.status());
        if (!*finished) return State::kSuspended;
        break;
      }
      case Plan::Code::kMove:
        for (uint32_t k = 0; k < instruction.inputs.count; ++k) {
          Take(refs[k], slots[instruction.outputs.first + k]);
        }
        break;
      case Plan::Code::kJump:
        next = Land(instruction.target);
        break;
      case Plan::Code::kBranch:
      case Plan::Code::kSwitch: {
        absl::StatusOr<size_t> branch = Choose(instruction, *refs->tensor);
        if (!branch.ok()) return Fail(AtNode(branch.status()));
        Drop(instruction.drops);
        at_ = Land(instruction.target + static_cast<uint32_t>(*branch));
        continue;
      }
      case Plan::Code::kLoop: {
        if (stop_.requested() || (++iterations_ % kIterationsBetweenPolls == 0 && stop_.Poll())) {
          return Fail(stop_.status());
        }
        if (slice.Over()) return State::kSuspended;
        absl::StatusOr<bool> again = Decide(*refs->tensor);
        if (!again.ok()) return Fail(AtNode(again.status()));
        Drop(instruction.drops);
        at_ = Land(instruction.target + (*again ? 0 : 1));
        continue;
      }
      case Plan::Code::kCall: {
        const bool stops = !stop_.after_effect() || (calls_ + 1) % kCallsBetweenStops == 0;
        if (stops && slice.Over()) return State::kSuspended;
        absl::Status status = Enter(instruction, refs);
        if (!status.ok()) return Fail(std::move(status));
        if constexpr (kRecorded) {
          Caller& caller = callers_.back();
          caller.span = OpenCall(*recorder_, track_, *caller.plan, caller.at, plan_->name);
        }
        continue;
      }
      case Plan::Code::kFork: {
        if (lanes_.empty()) {
          if (!stop_.after_effect() && slice.Over()) return State::kSuspended;
          absl::Status status = BeginLanes(instruction, refs);
          if (!status.ok()) return Fail(std::move(status));
        }
        absl::StatusOr<bool> joined =
            Recorded<kRecorded>(instruction, refs, slots, [&] { return RunLanes(slice); });
        if (!joined.ok()) return Fail(joined.status());
        if (!*joined) return State::kSuspended;
        break;
      }
      case Plan::Code::kRelease:
        break;
      case Plan::Code::kRegion: {
        absl::Status status = regions_->Enter(call_, instruction.target);
        if (IsWaiting(status)) return State::kWaiting;
        if (!status.ok()) return Fail(std::move(status), /*named=*/true);
        break;
      }
      case Plan::Code::kReturn:
        if (callers_.empty()) {
          TakeResults(outputs.data());
          return State::kFinished;
        }
        if constexpr (kRecorded) recorder_->Close(callers_.back().span);
        Leave();
        continue;
    }
    Finish(instruction);
    at_ = next;
  }
}

// The status to end with before the step at hand.
inline absl::Status Execution::LookAtStop() {
  if (--until_poll_ == 0) {
    until_poll_ = kStepsBetweenPolls;
    stop_.Poll();
  }
  return stop_.requested() ? StatusBeforeStep() : absl::OkStatus();
}

absl::Status Execution::RunKernel(const Plan::Instruction& instruction, const InputRef* refs,
                                  Tensor* slots) {
  FORMWORK_RETURN_IF_ERROR(LookAtStop());
  KernelContext ctx(call_, {refs, instruction.inputs.count},
                    {slots + instruction.outputs.first, instruction.outputs.count});
  const KernelFn& kernel = plan_->kernels[instruction.target];
  absl::Status status = CatchOutOfMemory([&] { return kernel(ctx); });
  if (stop_.cut()) return stop_.status();  // What else the kernel says comes of work left undone.
  if (!status.ok()) {
    if (IsWaiting(status)) return status;
    const bool named =
        plan_->labels[at_].op == nullptr || call_.streams() != nullptr || status == stop_.status();
    return named ? status : AtNode(status);
  }
  if (instruction.effect) stop_.NoteEffect();
  return absl::OkStatus();
}

// False where the slice is over at an iteration of one of its loops.
absl::StatusOr<bool> Execution::RunScalars(const Plan::Instruction& instruction,
                                           const InputRef* refs, Tensor* slots, TimeSlice& slice) {
  const ScalarProgram& program = plan_->scalars[instruction.target];
  ScalarProgram::Register* const registers = frame_->registers.data();
  if (scalar_at_ == 0) {
    FORMWORK_RETURN_IF_ERROR(LookAtStop());
    absl::Status status = program.Read({refs, instruction.inputs.count}, registers);
    if (!status.ok()) return AtNode(status);
  }
  while (true) {
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&] { return program.Run(registers, scalar_at_); }));
    if (scalar_at_ == program.code.size()) break;
    if (stop_.requested() || stop_.Poll()) return stop_.status();
    if (slice.Over()) return false;
  }
  program.Write(registers, {slots + instruction.outputs.first, instruction.outputs.count});
  scalar_at_ = 0;
  return true;
}

// The status to end with before a step, of a call that is to stop.
absl::Status Execution::StatusBeforeStep() {
  absl::Status status = stop_.BeforeStep();
  if (!status.ok()) return status;
  const int64_t now = absl::GetCurrentTimeNanos();
  if (ending_since_ == 0) ending_since_ = now;
  return now - ending_since_ > kLongestEndNanos ? stop_.status() : absl::OkStatus();
}

inline void Execution::Drop(Plan::Range drops) {
  for (uint32_t k = 0; k < drops.count; ++k) {
    frame_->slots[plan_->drops[drops.first + k]].Drop();
  }
}

inline uint32_t Execution::Land(uint32_t target) {
  const Plan::Target& to = plan_->targets[target];
  Drop(to.drops);
  return to.instruction;
}

inline void Execution::Finish(const Plan::Instruction& instruction) {
  for (uint32_t k = 0; k < instruction.releases.count; ++k) {
    const Tensor& handle = frame_->slots[plan_->releases[instruction.releases.first + k]];
    if (handle.has_value()) call_.resources().Release(handle.scalar<ResourceHandle>());
  }
  Drop(instruction.drops);
}

PlanFrame* Execution::FrameOf(uint32_t function) {
  std::vector<std::unique_ptr<PlanFrame>>& frames = root_frame_.functions;
  if (frames.empty()) frames.resize(root_.functions.size());
  std::unique_ptr<PlanFrame>& own = frames[function];
  if (own == nullptr) own = std::make_unique<PlanFrame>(*root_.functions[function]);
  return own.get();
}

absl::Status Execution::Enter(const Plan::Instruction& instruction, const InputRef* refs) {
  ++calls_;
  if (calls_ % kCallsBetweenPolls == 0 && stop_.Poll() && calls_ % kCallsBetweenStops == 0) {
    return stop_.status();
  }
  if (stop_.requested()) FORMWORK_RETURN_IF_ERROR(StatusBeforeStep());
  const Plan::Call& called = plan_->calls[instruction.target];
  const Plan& callee = *root_.functions[called.function];
  PlanFrame* frame = nullptr;
  FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&] {
    frame = FrameOf(called.function);
    callers_.push_back({plan_, frame_, at_, call_.first_state()});
    return absl::OkStatus();
  }));
  for (uint32_t k = 0; k < instruction.inputs.count; ++k) Take(refs[k], frame->slots[k]);
  call_.set_first_state(call_.first_state() + called.first_state);
  plan_ = &callee;
  frame_ = frame;
  at_ = 0;
  TellCalls();
  return absl::OkStatus();
}

absl::Status Execution::BeginLanes(const Plan::Instruction& instruction, const InputRef* refs) {
  FORMWORK_RETURN_IF_ERROR(LookAtStop());
  return CatchOutOfMemory([&] {
    std::vector<std::unique_ptr<Lane>> lanes;
    Tensor* outputs = frame_->slots.data() + instruction.outputs.first;
    for (uint32_t l = 0; l < instruction.num_targets; ++l) {
      const uint32_t function = plan_->calls[instruction.target + l].function;
      const Plan& plan = *root_.functions[function];
      lanes.push_back(std::make_unique<Lane>(plan, *FrameOf(function), call_, outputs, recorder_,
                                             LaneTrack(recorder_, l)));
      outputs += plan.results.size();
    }
    for (const std::unique_ptr<Lane>& lane : lanes) {
      for (size_t k = 0; k < lane->run.plan_->arg_dtypes.size(); ++k) {
        Take(*refs++, lane->run.frame_->slots[k]);
      }
    }
    lanes_ = std::move(lanes);
    return absl::OkStatus();
  });
}

// False where a lane's slice is over. Of those that failed, the first one's error.
absl::StatusOr<bool> Execution::RunLanes(const TimeSlice& slice) {
  ParallelFor(static_cast<int64_t>(lanes_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t l = begin; l < end; ++l) {
      Lane& lane = *lanes_[static_cast<size_t>(l)];
      const bool runs = lane.state.ok() && *lane.state == State::kSuspended;
      if (runs) lane.state = lane.Run(slice);
    }
  });
  bool finished = true;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    FORMWORK_RETURN_IF_ERROR(lane->state.status());
    finished = finished && *lane->state == State::kFinished;
  }
  if (stop_.cut()) return stop_.status();  // Some may not have begun.
  if (finished) lanes_.clear();
  return finished;
}

void Execution::Leave() {
  const Caller caller = callers_.back();
  const Plan::Instruction& instruction = caller.plan->code[caller.at];
  TakeResults(caller.frame->slots.data() + instruction.outputs.first);
  callers_.pop_back();
  call_.set_first_state(caller.first_state);
  plan_ = caller.plan;
  frame_ = caller.frame;
  Finish(instruction);
  at_ = caller.at + 1;
  TellCalls();
}

void Execution::TakeResults(Tensor* to) {
  for (size_t i = 0; i < plan_->results.size(); ++i) {
    const Plan::Ref& ref = plan_->results[i];
    if (ref.constant) {
      to[i] = plan_->constants[ref.index];
    } else {
      Take({&frame_->slots[ref.index], ref.owned}, to[i]);
    }
  }
  // Parameters that nobody reads.
  for (size_t i = 0; i < plan_->arg_dtypes.size(); ++i) frame_->slots[i].Drop();
}

// Errors name the instruction at hand.
absl::Status Execution::AtNode(const absl::Status& status) const {
  HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
  return Annotate(status, absl::StrCat("node '", plan_->labels[at_].node, "'"));
}

// The calls that it is in, as errors name them.
std::string Execution::Calls() const {
  std::string calls;
  for (size_t i = 0; i < callers_.size(); ++i) {
    const size_t left_out =
        callers_.size() > 2 * kNamedCalls ? callers_.size() - 2 * kNamedCalls : 0;
    if (left_out > 0 && i == kNamedCalls) {
      absl::StrAppend(&calls, ": and in ", left_out, " more");
      i += left_out;
    }
    const Caller& caller = callers_[i];
    absl::StrAppend(&calls, i == 0 ? "" : ": ", "node '", caller.plan->labels[caller.at].node, "'");
  }
  return calls;
}

// Of a plan for a device: what its work has to say may come out of a later call.
void Execution::TellCalls() {
  StreamScope* const streams = call_.streams();
  if (streams == nullptr) return;
  HeapScope unlimited(nullptr);
  streams->set_calls(Calls());
}

absl::Status Execution::Fail(absl::Status status, bool named) {
  HeapScope unlimited(nullptr);
  if (!named && status != stop_.status() && !callers_.empty()) status = Annotate(status, Calls());
  Stop();
  return status;
}

void Execution::Stop() {
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->run.Stop();
  lanes_.clear();
  Empty(*frame_);
  for (const Caller& caller : callers_) Empty(*caller.frame);
}

}  // namespace formwork
