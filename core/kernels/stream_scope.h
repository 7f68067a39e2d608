#pragma once

// What the enqueued steps of one call share: streams of a device, and how they fail.
//
// The host runs ahead of the device. A step that fails there fails the call: work of later steps is
// then skipped, and what would change a variable leaves it the value that it had. The failure of
// the earliest step is the call's, as it is where steps run one after the other.
//
// A value's memory is of the stream that its step is on, and goes back there. What another stream
// reads is held until that one knows of it.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/awaited.h"
#include "core/base/hash_map.h"
#include "core/device/device.h"
#include "core/device/stream_group.h"
#include "core/kernels/stream_capture.h"
#include "core/resource/access_ticket.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A copy of `value`, of plain data in host memory, in `memory` of a device: enqueued on `stream`,
/// which is of that. `host`: for what lies inside its Tensor.
absl::StatusOr<Tensor> CopyToDevice(const Tensor& value, Allocator& memory, Stream& stream,
                                    Allocator& host);
/// A copy in memory of `host` of `value`, which is on the stream's device. Waits for all that is
/// enqueued on `stream`. Errors: kResourceExhausted; the stream's.
absl::StatusOr<Tensor> CopyToHost(const Tensor& value, Stream& stream, Allocator& host);

/// How the work that a call has enqueued went so far. Thread-safe; kept by that work.
///
/// Where work enqueues kernels, these say by a FailureWord what fails when they run. They are on
/// one stream, one after the other; what they have said counts from when Collect has been told that
/// they have run.
class EnqueuedStatus {
 public:
  /// What went wrong at `where` of a FailureWord, with its node's name.
  using Explain = absl::AnyInvocable<absl::Status(uint64_t where) const>;

  /// Of the steps that fail, by their numbers, the first one holds. `effects`: how many the call
  /// had before what failed.
  void Fail(int64_t step, absl::Status status, int64_t effects);
  absl::Status Get() const;
  /// Whether one has failed that comes before `step`, which is to be skipped then.
  bool FailedBefore(int64_t step) const;
  int64_t effects_before_failure() const;

  /// A kernel of `step`, to be enqueued on `stream`, may fail: by this word, which lives as long as
  /// this. `effects`: as for Fail. Errors: those of making the word.
  absl::StatusOr<FailureWord*> MayFail(Stream& stream, int64_t step, Explain explain,
                                       int64_t effects);
  /// The word, if a kernel that is enqueued already may fail by it; else null.
  FailureWord* word() const;
  /// How enqueued work may fail, to be said by another call that enqueues it again.
  struct Failures {
    struct Step {
      int64_t step;
      std::shared_ptr<const Explain> explain;
      int64_t effects;
    };
    std::shared_ptr<FailureWord> word;
    std::vector<Step> steps;
  };
  /// From now on they are kept.
  void KeepFailures();
  Failures kept_failures() const;
  /// Work is enqueued that may fail so: the call's first. The word is nobody else's meanwhile.
  void Repeat(const Failures& failures);

  /// Steps up to `step` have run. False where a later one has failed, of which more is known once
  /// it has run to its end.
  bool Collect(int64_t step);

 private:
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t effects_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<FailureWord> word_ ABSL_GUARDED_BY(mutex_);
  std::deque<Failures::Step> may_fail_ ABSL_GUARDED_BY(mutex_);  // Not known to have run.
  bool keeps_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Failures::Step> kept_ ABSL_GUARDED_BY(mutex_);
};

/// Used by one thread at a time. What it is made of outlives it. Before it goes, and before the
/// plan and its frame do, everything that it has enqueued must have run: Ready.
///
/// Nothing here blocks but Block. A step that needs what is still on its way returns the status of
/// Ready, and is run again, from its beginning, once the call goes on.
class StreamScope {
 public:
  /// `memory`: of the streams' device. `ticket`: of the call; it is told of the streams. `host`:
  /// for values that come from the device.
  StreamScope(Allocator& memory, absl::Span<Stream* const> streams, AccessTicket& ticket,
              Allocator& host);
  StreamScope(Allocator& memory, Stream& stream, AccessTicket& ticket, Allocator& host)
      : StreamScope(memory, {&stream}, ticket, host) {}
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  /// The one that work is enqueued on now.
  Stream& stream() { return streams_.stream(); }
  bool several() const { return streams_.size() > 1; }
  /// The device's, or what is captured's.
  Allocator& memory() { return capture_ == nullptr ? memory_ : capture_->memory(); }
  AccessTicket& ticket() { return ticket_; }
  const std::shared_ptr<EnqueuedStatus>& status() const { return status_; }

  /// The calls of functions that the call is in, as errors name them; empty: none. For the work
  /// that is enqueued from now on.
  void set_calls(std::string calls) {
    calls_ = calls.empty() ? nullptr : std::make_shared<const std::string>(std::move(calls));
  }
  const std::shared_ptr<const std::string>& calls() const { return calls_; }

  /// From now on work is enqueued on stream `k`.
  void Go(int k) { streams_.Go(k); }
  /// The point that it has got to, by a number of the plan's, for WaitForPoint.
  void RecordPoint(size_t number);
  /// What is enqueued on the current stream from now on comes after that, of any of them.
  void WaitForPoint(size_t number);

  /// The number of a step that is issued now; they rise.
  int64_t NextStep() { return ++steps_; }
  /// Plain data, undefined until work on the current stream writes it.
  absl::StatusOr<Tensor> Allocate(DType dtype, const Shape& shape);
  /// Work that is enqueued on the current stream now reads `value`, of the device.
  void NoteRead(const Tensor& value);
  /// A copy on the device, enqueued; `value` itself where it is there.
  absl::StatusOr<Tensor> ToDevice(const Tensor& value);
  /// OK once everything that is enqueued has run. Errors: its first failure; the device's; one that
  /// IsWaiting where it has not run yet: to be asked again after that.
  absl::Status Ready();
  /// Before each step that enqueues work: how far the host runs ahead has a bound. Errors: as
  /// Ready, of what was enqueued some time ago.
  absl::Status MayGoOn();
  /// Returns when what has returned that IsWaiting last does not have to wait any more.
  void Block();
  /// Looks again and again whether it is so, for a time in which a thread that left it would not
  /// have been there again, or until `others_wait` for this one. False: it is not.
  bool HappensSoon(const std::atomic<bool>& others_wait) const;
  /// Calls `go_on` then, on any thread: one that must not be held up.
  void OnceReached(absl::AnyInvocable<void()> go_on);
  /// Copies in host memory, in place of those that are on the device; once the current stream has
  /// got there. Errors: as Ready; after one that IsWaiting, to be called again with the same
  /// values.
  absl::Status ToHost(absl::Span<Tensor> values);

  /// Enqueues copies of a finished plan's results, to be taken by TakeResults; then the call's
  /// places can be given back.
  absl::Status EnqueueResults(absl::Span<const Tensor> results);
  /// Moves the results, in host memory, into `results`. Errors: as Ready.
  absl::Status TakeResults(absl::Span<Tensor> results);

  /// What is enqueued from now on is captured, too: before the first step, on one stream. `capture`
  /// outlives it, or its end. False: the device captures nothing.
  bool BeginCapture(StreamCapture& capture);
  /// What is enqueued is another thing in another call: a value in host memory decides on it, or
  /// the host waits.
  void AbandonCapture();
  /// Of a step, whether it is none that AbandonCapture is for because of what it is given.
  void CheckCaptured(const Tensor& input) {
    if (capture_ != nullptr && capture_->ValueOf(input)) AbandonCapture();
  }
  StreamCapture* capture() { return capture_; }  ///< Null: nothing is captured.
  /// Null where it was abandoned, or could not be captured.
  std::unique_ptr<CapturedWork> EndCapture();
  /// Enqueues a copy of `value`, in host memory, to `to`, on the device.
  absl::Status Upload(const Tensor& value, const Tensor& to);
  /// Enqueues what has been captured of `steps` steps, as the call's own. What it touches has been
  /// waited for.
  void Replay(CapturedWork& work, const EnqueuedStatus::Failures& failures, int64_t steps,
              int64_t effects);

  /// A step with an effect that others can see has been issued.
  void NoteEffect() { ++effects_; }
  int64_t effects() const { return effects_; }
  int64_t steps() const { return steps_; }
  /// Whether the streams can be used by others.
  bool stream_works() const { return stream_works_; }
  /// How often the host needed what was still on its way.
  int64_t host_waits() const { return host_waits_; }

 private:
  // A copy on its way to the host.
  struct Download {
    size_t index;
    Tensor value;  // On the device: its dtype and shape, and its memory until it has been read.
    Buffer host;
  };
  // Memory that a stream reads whose own does not know of that.
  struct Held {
    Buffer buffer;
    int home;
    int reader;
    uint64_t time;  // Of the reader.
  };
  absl::Status Enqueue(absl::Span<const Tensor> values, std::vector<Download>& downloads);
  // OK once everything, or the current stream's part, has run.
  absl::Status Reach(bool all);
  static bool Happened(const StreamGroup::Points& points);
  absl::Status WaitFor(const StreamGroup::Points& points);
  // Drops what need not be held any more.
  void LetGo();
  static void Finish(std::vector<Download>& downloads, absl::Span<Tensor> values);

  Allocator& memory_;
  StreamCapture* capture_ = nullptr;
  StreamGroup streams_;
  AccessTicket& ticket_;
  Allocator& host_;
  const std::shared_ptr<EnqueuedStatus> status_ = std::make_shared<EnqueuedStatus>();
  std::shared_ptr<const std::string> calls_;
  std::vector<Download> downloads_, results_;
  StreamGroup::Points waits_for_;   // What Reach has not seen happen.
  bool waits_for_all_ = false;      // It is of everything.
  int64_t reached_step_ = 0;        // Up to this, those that may fail have run by then.
  StreamGroup::Points window_end_;  // Of the steps before the latest ones.
  int64_t window_end_step_ = 0;
  StreamGroup::Points blocks_on_;
  int in_window_ = 0;                       // Of the latest ones.
  std::vector<StreamGroup::Point> points_;  // By the plan's numbers.
  HashMap<const BufferBlock*, int> homes_;  // Of memory that is not of stream 0.
  std::vector<Held> held_;
  int64_t steps_ = 0;
  int64_t effects_ = 0;
  int64_t host_waits_ = 0;
  bool stream_works_ = true;
};

}  // namespace formwork
