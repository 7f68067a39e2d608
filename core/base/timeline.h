#pragma once

// The timeline of one call: what it did when, and what it waited for. TimelineRecorder writes it
// while the call runs, Timeline is what the caller gets.
//
// Who is not asked for one has no recorder: the executor then runs a loop that knows nothing of it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/hash_map.h"
#include "core/base/memory_budget.h"

namespace formwork {

struct Timeline {
  enum class Kind : uint8_t {
    kPhase,     ///< A part of the call's way: "find function", "run", ...
    kStep,      ///< A step on the host; of a plan for a device, also its being enqueued.
    kCall,      ///< A called function, around its steps.
    kLanes,     ///< Steps of lanes: on the call's track around all of them, on a lane's its own.
    kWork,      ///< What a step has enqueued, when it ran on the stream.
    kCopy,      ///< The same of a copy.
    kWait,      ///< `detail` says for what.
    kSuspended  ///< The call left its thread to others.
  };
  /// A stretch of time on one track. On one track they are nested or apart.
  struct Span {
    int64_t begin = 0, end = 0;  ///< Nanoseconds from `start` on.
    uint64_t bytes = 0;          ///< That it has allocated for its outputs, or copied.
    uint32_t name = 0;           ///< Of `texts`, as the next two: a node's, as the client knows it.
    uint32_t op = 0;
    uint32_t detail = 0;  ///< Dtypes and shapes of a step's outputs, and what else there is to say.
    uint16_t track = 0;
    Kind kind = Kind::kPhase;
  };

  absl::Time start;
  std::vector<std::string> texts;   ///< The first one is empty.
  std::vector<std::string> tracks;  ///< The first one is the call; then lanes and streams.
  std::vector<Span> spans;          ///< In the order of their beginnings on each track.
  uint64_t left_out = 0;            ///< Spans that there was no room for: steps beyond kMostSteps.

  static constexpr size_t kMostSteps = 20'000;
};

/// Thread-safe: a call's threads, lanes and streams write to it. What it holds is bounded, and the
/// spans' part of it is taken when it is made; texts are taken of no budget, and where there is no
/// memory for one it is left out: nothing here throws once it is made. From Finish on nothing is
/// recorded.
class TimelineRecorder {
 public:
  using Text = uint32_t;
  using SpanId = uint32_t;
  static constexpr SpanId kNoSpan = UINT32_MAX;  ///< Of what is left out; to close it does nothing.
  static constexpr uint16_t kCallTrack = 0;
  static constexpr size_t kMostTextBytes = size_t{256} << 10;

  /// Throws as operator new does.
  TimelineRecorder();

  /// Of texts beyond kMostTextBytes, one that says so.
  Text TextOf(absl::string_view text);
  /// Of the std::string that `make` makes.
  template <typename Make>
  Text TextFrom(Make make) {
    const HeapScope unlimited(nullptr);  // Bounded, and no reason for a step to fail.
    Text text = kNoMoreTexts;
    (void)CatchOutOfMemory([&] {
      text = TextOf(make());
      return absl::OkStatus();
    });
    return text;
  }
  /// The track of that name, which is made where it is new. Beyond a bound: the last one.
  uint16_t TrackOf(absl::string_view name);

  /// Begins now. `span`: kind, track and texts.
  SpanId Open(const Timeline::Span& span);
  /// Ends now.
  void Close(SpanId span);
  void Close(SpanId span, Text detail, uint64_t bytes);
  /// Makes it a wait, for what `detail` says.
  void SetWait(SpanId span, Text detail);
  /// The next part of the call's way, on its track: ends the one before, and what is in it.
  SpanId BeginPhase(absl::string_view name, Timeline::Kind kind = Timeline::Kind::kPhase,
                    absl::string_view detail = "");

  /// Whether steps are left out from now on.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  void CountLeftOut() { left_out_.fetch_add(1, std::memory_order_relaxed); }

  /// The step that is at hand: what is enqueued meanwhile is known by it.
  void SetStep(Text name, Text op) {
    step_.store(uint64_t{name} << 32 | op, std::memory_order_relaxed);
  }
  Text step_name() const { return static_cast<Text>(step_.load(std::memory_order_relaxed) >> 32); }
  Text step_op() const { return static_cast<Text>(step_.load(std::memory_order_relaxed)); }

  /// What a step is called, found by the address of its label, which outlives the call: `make` is
  /// asked once for each.
  struct StepTexts {
    Text name = 0, op = 0;
  };
  template <typename Make>
  StepTexts TextsOf(const void* label, Make make) {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = steps_.find(label);
      if (found != steps_.end()) return found->second;
    }
    const StepTexts made = make();
    Remember(label, made);
    return made;
  }

  /// Ends what is open. Once; then the recorder is of no more use.
  std::unique_ptr<Timeline> Finish();

 private:
  static constexpr Text kNoMoreTexts = 1;
  static constexpr size_t kMostTexts = 16'384;
  static constexpr size_t kMostTracks = 64;
  // Room for phases, waits and suspensions beside steps.
  static constexpr size_t kMostOthers = 4'096;

  int64_t Now() const;
  void Remember(const void* label, StepTexts texts);
  SpanId OpenLocked(const Timeline::Span& span) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseLocked(SpanId span, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Text TextLocked(absl::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t start_;
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> left_out_{0};
  std::atomic<uint64_t> step_{0};
  absl::Mutex mutex_;
  std::unique_ptr<Timeline> timeline_ ABSL_GUARDED_BY(mutex_);  // Null once it has been given.
  size_t steps_recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t text_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  HashMap<std::string, Text> texts_ ABSL_GUARDED_BY(mutex_);
  HashMap<const void*, StepTexts> steps_ ABSL_GUARDED_BY(mutex_);
  SpanId phase_ ABSL_GUARDED_BY(mutex_) = kNoSpan;
};

}  // namespace formwork
