#pragma once

// Runs of a plan on a device that enqueue their work as one.
//
// Where the shapes of what a call is given, and its variables' memory, are those of an earlier
// call, it enqueues the same work with the same numbers, but for the elements of its arguments. So
// a call is captured: its steps are issued as ever, with memory that stays, and what they enqueue
// is kept as one CapturedWork (a CUDA graph, on a GPU). Another one copies its arguments to where
// they were, takes its variables by its ticket, and enqueues that.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/device/captured_memory.h"
#include "core/kernels/stream_capture.h"
#include "core/kernels/stream_scope.h"
#include "core/plan/plan.h"
#include "core/resource/access_ticket.h"

namespace formwork {

/// Of one call at a time, from when it is taken until the call's work has run.
class CapturedRun {
 public:
  /// Whether `args` have the shapes that it was captured for, and handles are of the same
  /// resources.
  bool Fits(absl::Span<const Tensor> args) const;
  /// Whether the call's variables are where they were (AccessTicket::CanRepeat).
  bool CanRepeat(AccessTicket& ticket) const { return ticket.CanRepeat(accesses_); }
  /// Enqueues it for `args`, and sets `results`, on the device or not. `call` has streams. Errors:
  /// those of what the host does, and of memory; kInternal.
  absl::Status Enqueue(absl::Span<const Tensor> args, CallScope& call, AccessTicket& ticket,
                       absl::Span<Tensor> results) const;
  bool has_effects() const { return effects_ > 0; }

 private:
  friend class RunCapture;
  // What an argument has to be.
  struct Arg {
    Shape shape;
    uint64_t resource = 0;
  };
  struct Result {
    Tensor kept;                  // The same each time, or made where it was.
    std::optional<size_t> value;  // Else it is one of the call's,
    ResourceHandle variable;      // or this variable's.
  };

  std::vector<Arg> args_;
  size_t num_values_ = 0;
  std::vector<StreamCapture::HostStep> host_steps_;
  std::vector<StreamCapture::Upload> uploads_;
  std::vector<AccessTicket::EnqueuedAccess> accesses_;
  EnqueuedStatus::Failures failures_;
  int64_t steps_ = 0, effects_ = 0;
  std::vector<Result> results_;
  std::shared_ptr<CapturedMemory> memory_;
  std::unique_ptr<CapturedWork> work_;
};

/// A call that is being captured.
class RunCapture {
 public:
  /// `slots`: of the call's frame, of which the first ones are its arguments; they outlive it, as
  /// do the others.
  RunCapture(Allocator& memory, MemoryBudget& budget, absl::Span<const Tensor> slots, size_t args);

  /// Before the first step. False: the device captures nothing.
  bool Begin(StreamScope& streams, AccessTicket& ticket);
  /// Once all steps have been issued. Null: another call's would not be the same work.
  std::unique_ptr<CapturedRun> End(const Plan& plan, StreamScope& streams, AccessTicket& ticket,
                                   absl::Span<const Tensor> results);

 private:
  const Tensor* const slots_;  // Of the frame.
  const std::shared_ptr<CapturedMemory> memory_;
  StreamCapture capture_;
  std::unique_ptr<CapturedRun> run_;
};

/// Those of one plan. Thread-safe.
class CapturedRuns {
 public:
  CapturedRuns();
  /// Whether calls of it could be captured, and there is something to gain: it is a row of steps on
  /// one stream, without hidden state.
  static bool MayBeCaptured(const Plan& plan);

  /// One that fits and is nobody's; null: there is none.
  std::unique_ptr<CapturedRun> Take(absl::Span<const Tensor> args);
  /// `repeated`: it could be used.
  void Return(std::unique_ptr<CapturedRun> run, bool repeated);
  /// Of a call that finds none: whether it is to be captured. Then NoteCaptured is to be told.
  bool WantsCapture();
  /// Null: it could not be. Else it is the caller's until he returns it.
  void NoteCaptured(const CapturedRun* run);
  /// One that the caller had taken, or captured, has gone.
  void NoteLost();

 private:
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<CapturedRun>> idle_ ABSL_GUARDED_BY(mutex_);
  int count_ ABSL_GUARDED_BY(mutex_) = 0;  // With those that are taken.
  bool capturing_ ABSL_GUARDED_BY(mutex_) = false;
  int misses_ ABSL_GUARDED_BY(mutex_) = 0;         // Of those that fit, in a row.
  int64_t until_capture_ ABSL_GUARDED_BY(mutex_);  // So many calls;
  int64_t next_wait_ ABSL_GUARDED_BY(mutex_);      // and after the next failure so many.
};

}  // namespace formwork
