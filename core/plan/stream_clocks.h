#pragma once

// Which stream the steps of a plan are enqueued on, and what they wait for there.

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/device/stream_group.h"
#include "core/plan/plan.h"

namespace formwork {

/// Follows what each stream is behind while a program is put together, so that a step waits only
/// for what does not follow from earlier waits. Each point of a stream that others wait for is that
/// right behind the step that makes the value.
class StreamClocks {
 public:
  using Slots = absl::Span<const uint32_t>;

  /// For a plan that may use so many.
  explicit StreamClocks(int streams) : streams_(streams) {
    for (int k = 0; k < StreamGroup::kMost; ++k) now_.behind[k][k] = 1;
  }
  bool several() const { return streams_ > 1; }
  int streams() const { return streams_; }

  /// Whether work on `stream` that needs these slots has something to wait for.
  bool HasToWait(int stream, Slots slots) const;
  /// Whether that has no step of its own: AddPoint is to be called first.
  bool NeedsPoint(int stream, Slots slots) const;
  /// An instruction that makes a point of stream 0.
  void AddPoint(uint32_t instruction);
  void AddStep(uint32_t instruction, int stream, Slots reads, Plan::Range makes);
  /// It is the same value.
  void NoteSame(uint32_t slot, Plan::Ref of);
  /// Values that are there once all that has been enqueued on stream 0 has run.
  void NoteMade(Plan::Range slots);

  /// What is known on one way through the program: where ways part and meet, it is that of before.
  struct State {
    std::array<StreamGroup::Times, StreamGroup::kMost> behind{};
    int32_t point = -1;  // The step of the last point.
  };
  State state() const { return now_; }
  void Restore(const State& state);

  /// Says in the plan what it has found, and has the steps do so.
  void Finish(Plan& plan);

 private:
  struct Step {
    uint32_t instruction;  // kNone: of no instruction.
    int stream;
    StreamGroup::Times behind;
  };
  struct Use {
    uint32_t instruction;
    int stream;
    std::vector<int32_t> waits;  // Steps.
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  bool IsBehind(int stream, const Step& step) const {
    return stream == step.stream || now_.behind[stream][step.stream] >= step.behind[step.stream];
  }
  // The steps that `stream` has to wait for: of each other one the last, and none that follows.
  std::vector<int32_t> Needed(int stream, Slots slots) const;
  int32_t MadeBy(uint32_t slot) const { return slot < made_by_.size() ? made_by_[slot] : -1; }
  void SetMadeBy(uint32_t slot, int32_t step);
  int32_t NewStep(uint32_t instruction, int stream);

  const int streams_;
  State now_;
  std::vector<Step> steps_;
  std::vector<int32_t> made_by_;  // Of each slot; -1: nobody waits for it.
  std::vector<Use> uses_;         // In the order of their instructions.
};

}  // namespace formwork
