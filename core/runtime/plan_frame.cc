#include "core/runtime/plan_frame.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace formwork {
namespace {

constexpr size_t kMostIdleFrames = 16;

}  // namespace

PlanFrame::PlanFrame(const Plan& plan) : slots(plan.num_slots), registers(plan.num_registers) {
  inputs.reserve(plan.refs.size());
  for (const Plan::Ref& ref : plan.refs) {
    inputs.push_back({ref.constant ? &plan.constants[ref.index] : &slots[ref.index], ref.owned});
  }
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
