#pragma once

// The instructions of one plan as they are put together: slots, constants, jumps, and values that
// are copied between the host's memory and a device's.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/planner.h"
#include "core/plan/stream_clocks.h"

namespace formwork {

class ProgramBuilder {
 protected:
  /// `streams`: of the device, that the plan may use.
  ProgramBuilder(const PlannerContext& context, int streams)
      : context_(context), plan_(std::make_shared<Plan>()), clocks_(streams) {}

  /// The next instruction's place.
  uint32_t Here() const { return static_cast<uint32_t>(plan_->code.size()); }

  uint32_t NewSlots(size_t count, Plan::Memory memory = Plan::Memory::kHost);
  Plan::Ref NewConstant(const Tensor& value, Plan::Memory memory = Plan::Memory::kHost);
  uint32_t NewKernel(KernelFn kernel);

  /// Its inputs are to be added before the next one is made.
  Plan::Instruction& NewInstruction(Plan::Code code, std::string node, const OpDef* op);
  void AddInput(Plan::Ref ref);
  /// Slots from `to` on become `from`, in this order.
  void Move(const std::vector<Plan::Ref>& from, uint32_t to);

  uint32_t NewTargets(size_t count);
  /// Instruction `from` goes on here by its k-th target.
  void LandHere(uint32_t from, size_t k = 0);
  /// To where it is landed. Its place.
  uint32_t Jump();

  // Of a plan for a device; one for the CPU has but one memory.

  bool on_device() const { return context_.device.has_value(); }
  const PlannerContext::Target& device() const { return *context_.device; }
  Plan::Memory MemoryOf(Plan::Ref ref) const {
    return ref.constant ? constant_memory_[ref.index] : plan_->memory[ref.index];
  }
  /// The same value in that memory: the ref itself where it is there. A constant is copied once for
  /// all calls; to the device it goes on stream_.
  Plan::Ref CopyTo(Plan::Memory memory, Plan::Ref ref);
  /// What has been copied already, by slot, while its steps are run.
  using Copies = std::map<uint32_t, Plan::Ref>;
  Plan::Ref CopyTo(Plan::Memory memory, Plan::Ref ref, Copies& copies);
  /// To be called before a step on `stream` reads them.
  void PrepareWaits(int stream, absl::Span<const Plan::Ref> refs);
  /// The step that has just been added is enqueued on `stream`.
  void NoteStep(int stream, absl::Span<const Plan::Ref> reads);
  /// All that is enqueued on stream 0 from now on comes after what has made these.
  void JoinStreams(absl::Span<const Plan::Ref> refs);
  /// Where each constant is wanted.
  const std::vector<Plan::Memory>& constant_memory() const { return constant_memory_; }

  const PlannerContext& context_;
  std::shared_ptr<Plan> plan_;
  StreamClocks clocks_;
  int stream_ = 0;  // Of the step that is being added.

 private:
  std::vector<uint32_t> SlotsOnDevice(absl::Span<const Plan::Ref> refs) const;
  void AddNoStep();

  std::vector<Plan::Memory> constant_memory_;
  std::map<uint32_t, uint32_t> device_constants_;  // Of those of the host, their likes there.
};

}  // namespace formwork
