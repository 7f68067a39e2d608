#include "core/runtime/executor.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kMostIdleFrames = 16;
// Reading the clock costs as much as a trivial step. Long steps look at it themselves.
constexpr uint32_t kStepsBetweenPolls = 32;
constexpr uint32_t kActivationsBetweenPolls = 32;
constexpr uint32_t kActivationsBetweenStops = 1024;
// After an effect the steps that are left may take so long together once the call is to stop: time
// for the rest of a training step, not for as much work as a graph may have.
constexpr int64_t kLongestEndNanos = 500'000'000;

void Empty(PlanFrame& frame) {
  for (Tensor& slot : frame.slots) slot.Drop();
}

// The status to end with before a step, of a call that is to stop. `ending_since`: when the first
// step was begun nevertheless; 0: none.
absl::Status StatusBeforeStep(StopFlag& stop, int64_t& ending_since) {
  absl::Status status = stop.BeforeStep();
  if (!status.ok()) return status;
  const int64_t now = absl::GetCurrentTimeNanos();
  if (ending_since == 0) ending_since = now;
  return now - ending_since > kLongestEndNanos ? stop.status() : absl::OkStatus();
}

class PlanCallee final : public Callee {
 public:
  explicit PlanCallee(std::shared_ptr<const Plan> plan) : plan_(plan), frames_(plan) {}

  int num_inputs() const override { return static_cast<int>(plan_->arg_dtypes.size()); }
  int num_outputs() const override { return static_cast<int>(plan_->results.size()); }
  DType output_dtype(int i) const override { return plan_->result_dtypes[i]; }
  bool reads(int i) const override {
    const auto is_input = [i](const Plan::Ref& ref) {
      return !ref.constant && ref.index == static_cast<uint32_t>(i);
    };
    return std::any_of(plan_->refs.begin(), plan_->refs.end(), is_input) ||
           std::any_of(plan_->results.begin(), plan_->results.end(), is_input);
  }

  std::unique_ptr<Frame> NewFrame() const override {
    return std::make_unique<Lease>(frames_, frames_.Take());
  }
  absl::Status Run(CallScope& call, Frame& frame, absl::Span<Tensor> inputs,
                   absl::Span<Tensor> outputs) const override {
    PlanFrame& own = *static_cast<Lease&>(frame).frame;
    // Calls of calls of calls can take for ever without a loop: as in one they stop after effects,
    // too.
    const uint32_t count = ++own.activations;
    StopFlag& stop = call.stop();
    if (count % kActivationsBetweenPolls == 0 && stop.Poll() &&
        count % kActivationsBetweenStops == 0) {
      return stop.status();
    }
    return RunPlan(*plan_, own, call, inputs, outputs);
  }

 private:
  // A frame that goes back to the pool.
  struct Lease final : Frame {
    Lease(FramePool& pool, std::unique_ptr<PlanFrame> taken)
        : pool(pool), frame(std::move(taken)) {}
    ~Lease() override { pool.Return(std::move(frame)); }
    FramePool& pool;
    std::unique_ptr<PlanFrame> frame;
  };

  const std::shared_ptr<const Plan> plan_;
  mutable FramePool frames_;
};

}  // namespace

PlanFrame::PlanFrame(const Plan& plan) : slots(plan.num_slots) {
  inputs.reserve(plan.refs.size());
  for (const Plan::Ref& ref : plan.refs) {
    inputs.push_back({ref.constant ? &plan.constants[ref.index] : &slots[ref.index], ref.owned});
  }
}

absl::Status RunPlan(const Plan& plan, PlanFrame& frame, CallScope& call, absl::Span<Tensor> inputs,
                     absl::Span<Tensor> outputs, int* failed_step) {
  Tensor* const slots = frame.slots.data();
  for (size_t i = 0; i < inputs.size(); ++i) slots[i] = std::move(inputs[i]);
  const InputRef* const refs = frame.inputs.data();
  StopFlag& stop = call.stop();
  const StopScope scope(&stop);
  uint32_t until_poll = kStepsBetweenPolls;
  int64_t ending_since = 0;
  for (const Plan::Step& step : plan.steps) {
    KernelContext ctx(call, {refs + step.first_input, step.num_inputs},
                      {slots + step.first_output, step.num_outputs});
    absl::Status status;
    if (--until_poll == 0) {
      until_poll = kStepsBetweenPolls;
      stop.Poll();
    }
    if (stop.requested()) status = StatusBeforeStep(stop, ending_since);
    if (status.ok()) {
      status = CatchOutOfMemory([&] { return step.kernel(ctx); });
      if (stop.cut()) {
        status = stop.status();  // What else the kernel says comes of work left undone.
      } else if (!status.ok() && status != stop.status()) {
        HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
        status = Annotate(status, absl::StrCat("node ", step.name));
      }
    }
    if (!status.ok()) {
      if (failed_step != nullptr) *failed_step = static_cast<int>(&step - plan.steps.data());
      Empty(frame);
      return status;
    }
    if (step.effect) stop.NoteEffect();
    for (uint32_t k = 0; k < step.num_releases; ++k) {
      const Tensor& handle = slots[plan.releases[step.first_release + k]];
      if (handle.has_value()) call.resources().Release(handle.scalar<ResourceHandle>());
    }
    for (uint32_t k = 0; k < step.num_drops; ++k) slots[plan.drops[step.first_drop + k]].Drop();
  }
  for (size_t i = 0; i < plan.results.size(); ++i) {
    const Plan::Ref& ref = plan.results[i];
    if (ref.constant) {
      outputs[i] = plan.constants[ref.index];
    } else if (ref.owned) {
      outputs[i] = std::move(slots[ref.index]);
    } else {
      outputs[i] = slots[ref.index];
    }
  }
  // Parameters that nobody reads, and those that are results twice.
  for (size_t i = 0; i < plan.arg_dtypes.size(); ++i) slots[i].Drop();
  return absl::OkStatus();
}

std::shared_ptr<const Callee> MakePlanCallee(std::shared_ptr<const Plan> plan) {
  return std::make_shared<PlanCallee>(std::move(plan));
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
