#pragma once

// What an activation of a plan has its values in.

#include <memory>
#include <vector>

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
  std::vector<ScalarProgram::Register> registers;  ///< Of the program of scalars that runs.
  /// Of a root plan: one for each of its functions and lanes, made when it is called first. One
  /// cannot be called while it runs, so that one frame is enough.
  std::vector<std::unique_ptr<PlanFrame>> functions;
};

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
