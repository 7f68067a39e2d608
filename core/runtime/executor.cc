#include "core/runtime/executor.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/ops/control_flow.h"

namespace formwork {
namespace {

constexpr size_t kMostIdleFrames = 16;
// Reading the clock costs as much as a trivial step. Long steps look at it themselves.
constexpr uint32_t kStepsBetweenPolls = 32;
constexpr uint32_t kIterationsBetweenPolls = 16;
constexpr uint32_t kCallsBetweenPolls = 32;
// Calls of calls of calls can take for ever without a loop: as in one they stop after effects, too.
constexpr uint32_t kCallsBetweenStops = 1024;
// After an effect the steps that are left may take so long together once the call is to stop: time
// for the rest of a training step, not for as much work as a graph may have.
constexpr int64_t kLongestEndNanos = 500'000'000;

void Empty(PlanFrame& frame) {
  for (Tensor& slot : frame.slots) slot.Drop();
}

// One run of a program: an activation of the root plan, and one for each call that is under way.
class Interpreter {
 public:
  Interpreter(const Plan& root, PlanFrame& frame, CallScope& call)
      : root_(root),
        root_frame_(frame),
        call_(call),
        stop_(call.stop()),
        plan_(&root),
        frame_(&frame) {}

  absl::Status Run(absl::Span<Tensor> inputs, absl::Span<Tensor> outputs) {
    const StopScope scope(&stop_);
    for (size_t i = 0; i < inputs.size(); ++i) frame_->slots[i] = std::move(inputs[i]);
    while (true) {
      const Plan::Instruction& instruction = plan_->code[at_];
      Tensor* const slots = frame_->slots.data();
      const InputRef* const refs = frame_->inputs.data() + instruction.inputs.first;
      uint32_t next = at_ + 1;
      switch (instruction.code) {
        case Plan::Code::kKernel: {
          absl::Status status = RunKernel(instruction, refs, slots);
          if (!status.ok()) return Fail(std::move(status));
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
          absl::StatusOr<bool> again = Decide(*refs->tensor);
          if (!again.ok()) return Fail(AtNode(again.status()));
          Drop(instruction.drops);
          at_ = Land(instruction.target + (*again ? 0 : 1));
          continue;
        }
        case Plan::Code::kCall: {
          absl::Status status = Enter(instruction, refs);
          if (!status.ok()) return Fail(std::move(status));
          continue;
        }
        case Plan::Code::kRelease:
          break;
        case Plan::Code::kReturn:
          if (callers_.empty()) {
            TakeResults(outputs.data());
            return absl::OkStatus();
          }
          Leave();
          continue;
      }
      Finish(instruction);
      at_ = next;
    }
  }

  // Of the root plan.
  int64_t failed_instruction() const {
    return callers_.empty() ? at_ : static_cast<int64_t>(callers_.front().at);
  }

 private:
  struct Caller {
    const Plan* plan;
    PlanFrame* frame;
    uint32_t at;  // Its call.
  };

  absl::Status RunKernel(const Plan::Instruction& instruction, const InputRef* refs,
                         Tensor* slots) {
    if (--until_poll_ == 0) {
      until_poll_ = kStepsBetweenPolls;
      stop_.Poll();
    }
    if (stop_.requested()) FORMWORK_RETURN_IF_ERROR(StatusBeforeStep());
    KernelContext ctx(call_, {refs, instruction.inputs.count},
                      {slots + instruction.outputs.first, instruction.outputs.count});
    const KernelFn& kernel = plan_->kernels[instruction.target];
    absl::Status status = CatchOutOfMemory([&] { return kernel(ctx); });
    if (stop_.cut()) return stop_.status();  // What else the kernel says comes of work left undone.
    if (!status.ok()) return status == stop_.status() ? status : AtNode(status);
    if (instruction.effect) stop_.NoteEffect();
    return absl::OkStatus();
  }

  // The status to end with before a step, of a call that is to stop.
  absl::Status StatusBeforeStep() {
    absl::Status status = stop_.BeforeStep();
    if (!status.ok()) return status;
    const int64_t now = absl::GetCurrentTimeNanos();
    if (ending_since_ == 0) ending_since_ = now;
    return now - ending_since_ > kLongestEndNanos ? stop_.status() : absl::OkStatus();
  }

  static void Take(const InputRef& ref, Tensor& to) {
    if (ref.owned) {
      to = std::move(*const_cast<Tensor*>(ref.tensor));
    } else {
      to = *ref.tensor;
    }
  }

  static absl::StatusOr<bool> Decide(const Tensor& condition) {
    if (condition.dtype() == DType::kBool && condition.rank() == 0) return condition.scalar<bool>();
    return IsTrue(condition);
  }
  absl::StatusOr<size_t> Choose(const Plan::Instruction& instruction, const Tensor& selector) {
    return ChooseBranch(
        instruction.code == Plan::Code::kBranch ? ControlFlow::kIf : ControlFlow::kCase, selector,
        instruction.num_targets);
  }

  void Drop(Plan::Range drops) {
    for (uint32_t k = 0; k < drops.count; ++k) {
      frame_->slots[plan_->drops[drops.first + k]].Drop();
    }
  }
  uint32_t Land(uint32_t target) {
    const Plan::Target& to = plan_->targets[target];
    Drop(to.drops);
    return to.instruction;
  }
  void Finish(const Plan::Instruction& instruction) {
    for (uint32_t k = 0; k < instruction.releases.count; ++k) {
      const Tensor& handle = frame_->slots[plan_->releases[instruction.releases.first + k]];
      if (handle.has_value()) call_.resources().Release(handle.scalar<ResourceHandle>());
    }
    Drop(instruction.drops);
  }

  absl::Status Enter(const Plan::Instruction& instruction, const InputRef* refs) {
    ++calls_;
    if (calls_ % kCallsBetweenPolls == 0 && stop_.Poll() && calls_ % kCallsBetweenStops == 0) {
      return stop_.status();
    }
    if (stop_.requested()) FORMWORK_RETURN_IF_ERROR(StatusBeforeStep());
    const Plan& callee = *root_.functions[instruction.target];
    PlanFrame* frame = nullptr;
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&] {
      std::vector<std::unique_ptr<PlanFrame>>& frames = root_frame_.functions;
      if (frames.empty()) frames.resize(root_.functions.size());
      std::unique_ptr<PlanFrame>& own = frames[instruction.target];
      if (own == nullptr) own = std::make_unique<PlanFrame>(callee);
      frame = own.get();
      callers_.push_back({plan_, frame_, at_});
      return absl::OkStatus();
    }));
    for (uint32_t k = 0; k < instruction.inputs.count; ++k) Take(refs[k], frame->slots[k]);
    plan_ = &callee;
    frame_ = frame;
    at_ = 0;
    return absl::OkStatus();
  }

  void Leave() {
    const Caller caller = callers_.back();
    const Plan::Instruction& instruction = caller.plan->code[caller.at];
    TakeResults(caller.frame->slots.data() + instruction.outputs.first);
    callers_.pop_back();
    plan_ = caller.plan;
    frame_ = caller.frame;
    Finish(instruction);
    at_ = caller.at + 1;
  }

  void TakeResults(Tensor* to) {
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
  absl::Status AtNode(const absl::Status& status) const {
    HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
    return Annotate(status, absl::StrCat("node '", plan_->labels[at_].node, "'"));
  }

  // Empties the frames of all activations; the calls that they are in are named.
  absl::Status Fail(absl::Status status) {
    HeapScope unlimited(nullptr);
    const bool named = status != stop_.status();
    Empty(*frame_);
    for (size_t i = callers_.size(); i-- > 0;) {
      const Caller& caller = callers_[i];
      Empty(*caller.frame);
      if (!named) continue;
      status = Annotate(status, absl::StrCat("node '", caller.plan->labels[caller.at].node, "'"));
    }
    return status;
  }

  const Plan& root_;
  PlanFrame& root_frame_;
  CallScope& call_;
  StopFlag& stop_;
  // The activation that runs.
  const Plan* plan_;
  PlanFrame* frame_;
  uint32_t at_ = 0;

  std::vector<Caller> callers_;
  uint32_t until_poll_ = kStepsBetweenPolls;
  uint32_t iterations_ = 0;
  uint32_t calls_ = 0;
  int64_t ending_since_ = 0;  // When the first step past a stop was begun nevertheless; 0: none.
};

}  // namespace

PlanFrame::PlanFrame(const Plan& plan) : slots(plan.num_slots) {
  inputs.reserve(plan.refs.size());
  for (const Plan::Ref& ref : plan.refs) {
    inputs.push_back({ref.constant ? &plan.constants[ref.index] : &slots[ref.index], ref.owned});
  }
}

absl::Status RunPlan(const Plan& plan, PlanFrame& frame, CallScope& call, absl::Span<Tensor> inputs,
                     absl::Span<Tensor> outputs, int64_t* failed_instruction) {
  Interpreter interpreter(plan, frame, call);
  absl::Status status = interpreter.Run(inputs, outputs);
  if (!status.ok() && failed_instruction != nullptr) {
    *failed_instruction = interpreter.failed_instruction();
  }
  return status;
}

struct FramePool::Idle {
  absl::Mutex mutex;
  std::vector<std::unique_ptr<PlanFrame>> frames ABSL_GUARDED_BY(mutex);
};

FramePool::FramePool(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), idle_(std::make_unique<Idle>()) {
  absl::MutexLock lock(&idle_->mutex);
  idle_->frames.reserve(kMostIdleFrames);  // To give one back takes no memory.
}

FramePool::~FramePool() = default;

std::unique_ptr<PlanFrame> FramePool::Take() {
  {
    absl::MutexLock lock(&idle_->mutex);
    if (!idle_->frames.empty()) {
      std::unique_ptr<PlanFrame> frame = std::move(idle_->frames.back());
      idle_->frames.pop_back();
      return frame;
    }
  }
  return std::make_unique<PlanFrame>(*plan_);
}

void FramePool::Return(std::unique_ptr<PlanFrame> frame) {
  absl::MutexLock lock(&idle_->mutex);
  if (idle_->frames.size() < kMostIdleFrames) idle_->frames.push_back(std::move(frame));
}

}  // namespace formwork
