#pragma once

// Runs a plan's steps, back to back on the calling thread: no queue hop, no lock and, once the
// frame is warm, no allocation per step but for the kernels' results.

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/plan/plan.h"

namespace formwork {

/// The value slots of one activation of a plan. Used by one thread at a time; may be used again
/// for another activation of the same plan.
class PlanFrame final : public Callee::Frame {
 public:
  explicit PlanFrame(const Plan& plan);

  std::vector<Tensor> slots;
  std::vector<InputRef> inputs;  ///< The plan's refs, resolved against these slots.
  uint32_t activations = 0;      ///< By callers of nested functions.
};

/// Moves `inputs` into the frame, runs every step, and moves the results into `outputs`, which may
/// be the same span. On failure the frame is emptied and `failed_step` (may be null) says where.
/// Errors: those of kernels with "node 'name'" before them; kCancelled, kDeadlineExceeded.
absl::Status RunPlan(const Plan& plan, PlanFrame& frame, CallScope& call, absl::Span<Tensor> inputs,
                     absl::Span<Tensor> outputs, int* failed_step = nullptr);

/// How kernels run a nested function. Keeps a few frames for reuse.
std::shared_ptr<const Callee> MakePlanCallee(std::shared_ptr<const Plan> plan);

/// Frames of one plan, kept for reuse between calls. Thread-safe.
class FramePool {
 public:
  explicit FramePool(std::shared_ptr<const Plan> plan);
  ~FramePool();
  std::unique_ptr<PlanFrame> Take();
  void Return(std::unique_ptr<PlanFrame> frame);

 private:
  struct Idle;
  const std::shared_ptr<const Plan> plan_;
  const std::unique_ptr<Idle> idle_;
};

}  // namespace formwork
