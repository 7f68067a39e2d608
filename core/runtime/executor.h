#pragma once

// Runs a plan's program on the calling thread: no queue hop, no lock and, once the frame is warm,
// no allocation per instruction but for the kernels' results.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/plan/plan.h"

namespace formwork {

/// The value slots of one activation of a plan, and those of the functions that it calls. Used by
/// one thread at a time; may be used again for another activation of the same plan.
class PlanFrame {
 public:
  explicit PlanFrame(const Plan& plan);

  std::vector<Tensor> slots;
  std::vector<InputRef> inputs;  ///< The plan's refs, resolved against these slots.
  /// Of a root plan: one for each of its functions, made when it is called first. A function cannot
  /// be called while it runs, so that one is enough.
  std::vector<std::unique_ptr<PlanFrame>> functions;
};

/// Moves `inputs` into the frame, runs the program, and moves the results into `outputs`, which may
/// be the same span. On failure the frames are emptied and `failed_instruction` (may be null) says
/// where, in `plan` itself. Errors: those of kernels with "node 'name'" before them, for each call
/// that they are in; kCancelled, kDeadlineExceeded.
absl::Status RunPlan(const Plan& plan, PlanFrame& frame, CallScope& call, absl::Span<Tensor> inputs,
                     absl::Span<Tensor> outputs, int64_t* failed_instruction = nullptr);

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
