#pragma once

// How the steps of a plan appear in a call's timeline.

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/timeline.h"
#include "core/kernels/kernel.h"
#include "core/plan/plan.h"

namespace formwork {

/// One step, from its construction to End.
class RecordedStep {
 public:
  /// Instruction `at` of `plan`, which outlives the recorder; `inputs` are those of a kernel.
  RecordedStep(TimelineRecorder& recorder, uint16_t track, const Plan& plan, uint32_t at,
               absl::Span<const InputRef> inputs = {});

  /// With what it has made, where it has not failed.
  void End(const absl::Status& status, absl::Span<const Tensor> outputs);

 private:
  TimelineRecorder& recorder_;
  std::array<const void*, 8> given_{};  // Where the elements of its first inputs are.
  TimelineRecorder::SpanId span_;
};

/// Around the steps of `function`, which instruction `at` of `plan` calls; to be closed.
TimelineRecorder::SpanId OpenCall(TimelineRecorder& recorder, uint16_t track, const Plan& plan,
                                  uint32_t at, absl::string_view function);

/// Around the steps of a lane, on its own track; to be closed.
TimelineRecorder::SpanId OpenLane(TimelineRecorder& recorder, uint16_t track, const Plan& lane);

}  // namespace formwork
