#pragma once

// Runs a plan's program on the calling thread: no queue hop, no lock and, once the frame is warm,
// no allocation per instruction but for the kernels' results. No state stays on the thread's stack
// between instructions.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/timeline.h"
#include "core/kernels/kernel.h"
#include "core/plan/plan.h"
#include "core/runtime/plan_frame.h"
#include "core/runtime/time_slice.h"

namespace formwork {

/// What a relaxed call has of resources while it is in a region.
class RegionPlaces {
 public:
  virtual ~RegionPlaces() = default;
  /// Gives back what the region before had, and takes the places of this one of the plan's.
  /// Errors: Waiting(), with `call`.awaited() set, to be called again once that is over; those of
  /// the StopFlag; kResourceExhausted.
  virtual absl::Status Enter(CallScope& call, uint32_t region) = 0;
};

/// One run of a plan's program, as data: an activation of the root plan and one for each call that
/// is under way, each with its position. So it can leave its thread between two instructions and go
/// on with another. Used by one thread at a time; what it is made of outlives it.
class Execution {
 public:
  enum class State : uint8_t {
    kFinished,
    kSuspended,
    kWaiting  ///< For CallScope::awaited or, where there is none, for StreamScope::Ready.
  };

  /// Moves `inputs` into the frame. `recorder`: where its steps are written to, on `track`; null:
  /// nowhere, and then they cost nothing for it.
  Execution(const Plan& root, PlanFrame& frame, CallScope& call, absl::Span<Tensor> inputs,
            TimelineRecorder* recorder = nullptr, uint16_t track = TimelineRecorder::kCallTrack);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();

  /// Before it runs, of a plan that has regions. Outlives this.
  void set_regions(RegionPlaces* regions) { regions_ = regions; }

  /// Runs on from where it is. kFinished: the results have been moved into `outputs`, which may be
  /// the inputs' span. kSuspended: the slice is over; to be run again, or stopped. That is where a
  /// stop would end it, too: at a loop's iteration, or anywhere before the first effect. kWaiting:
  /// the step at hand is to be run, again, once what it waits for is there. After an error the
  /// frames are empty.
  /// Errors: those of kernels with "node 'name'" before them, for each call that they are in;
  /// kResourceExhausted where calls nest deeper than there is memory; those of the StopFlag.
  absl::StatusOr<State> Run(absl::Span<Tensor> outputs, TimeSlice slice = TimeSlice());
  /// Instead of running on: empties the frames.
  void Stop();

  /// Where it is, in the root plan: once it has failed or been stopped, where that was.
  int64_t position() const {
    return callers_.empty() ? at_ : static_cast<int64_t>(callers_.front().at);
  }

 private:
  struct Caller {
    const Plan* plan;
    PlanFrame* frame;
    uint32_t at;  // Its call.
    uint32_t first_state;
    TimelineRecorder::SpanId span = TimelineRecorder::kNoSpan;  // Of the call, where recorded.
  };

  struct Lane;

  // Run, in two instances: for calls whose steps are recorded, and for all others.
  template <bool kRecorded>
  absl::StatusOr<State> RunAs(absl::Span<Tensor> outputs, TimeSlice& slice);
  // The result of `run`, which is one step, as it is recorded.
  template <bool kRecorded, typename Step>
  auto Recorded(const Plan::Instruction& instruction, const InputRef* refs, const Tensor* slots,
                Step run);
  absl::Status LookAtStop();
  absl::Status RunKernel(const Plan::Instruction& instruction, const InputRef* refs, Tensor* slots);
  absl::StatusOr<bool> RunScalars(const Plan::Instruction& instruction, const InputRef* refs,
                                  Tensor* slots, TimeSlice& slice);
  absl::Status StatusBeforeStep();
  void Drop(Plan::Range drops);
  uint32_t Land(uint32_t target);
  void Finish(const Plan::Instruction& instruction);
  PlanFrame* FrameOf(uint32_t function);
  absl::Status Enter(const Plan::Instruction& instruction, const InputRef* refs);
  absl::Status BeginLanes(const Plan::Instruction& instruction, const InputRef* refs);
  absl::StatusOr<bool> RunLanes(const TimeSlice& slice);
  void Leave();
  void TakeResults(Tensor* to);
  absl::Status AtNode(const absl::Status& status) const;
  // `named`: it names the calls already.
  absl::Status Fail(absl::Status status, bool named = false);
  std::string Calls() const;
  void TellCalls();

  const Plan& root_;
  PlanFrame& root_frame_;
  CallScope& call_;
  StopFlag& stop_;
  RegionPlaces* regions_ = nullptr;
  // The activation that runs.
  const Plan* plan_;
  PlanFrame* frame_;
  uint32_t at_ = 0;
  uint32_t scalar_at_ = 0;  // In the program of scalars that it is in; 0: it has not begun.

  std::vector<Caller> callers_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // Of the fork that it is in.
  uint32_t until_poll_;
  uint32_t iterations_ = 0;
  uint32_t calls_ = 0;
  const uint16_t track_;      // Of the recorder's.
  int64_t ending_since_ = 0;  // When the first step past a stop was begun nevertheless; 0: none.
  TimelineRecorder* const recorder_;  // Null: its steps are not recorded.
};

}  // namespace formwork
