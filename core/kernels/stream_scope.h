#pragma once

// What the enqueued steps of one call share: a stream of a device, and how they fail.
//
// The host runs ahead of the device. A step that fails there fails the call: work of later steps is
// then skipped, and what would change a variable leaves it the value that it had. The first failure
// is the call's, as it is where steps run one after the other.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/resource/access_ticket.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A copy of `value`, of plain data in host memory, in `memory` of a device: enqueued on `stream`,
/// which is of that. `host`: for what lies inside its Tensor.
absl::StatusOr<Tensor> CopyToDevice(const Tensor& value, Allocator& memory, Stream& stream,
                                    Allocator& host);

/// How the work that a call has enqueued went so far. Thread-safe; kept by that work.
class EnqueuedStatus {
 public:
  /// The first one holds. `effects`: how many the call had before what failed.
  void Fail(absl::Status status, int64_t effects);
  absl::Status Get() const;
  int64_t effects_before_failure() const;

 private:
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t effects_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Used by one thread at a time. What it is made of outlives it. Before it goes, and before the
/// plan and its frame do, everything that it has enqueued must have run: Ready.
///
/// Nothing here blocks but Block. A step that needs what is still on its way returns the status of
/// Ready, and is run again, from its beginning, once the call goes on.
class StreamScope {
 public:
  /// `memory`: of the stream's device. `ticket`: of the call; it is told of the stream. `host`: for
  /// values that come from the device.
  StreamScope(Allocator& memory, Stream& stream, AccessTicket& ticket, Allocator& host);
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  Stream& stream() { return stream_; }
  AccessTicket& ticket() { return ticket_; }
  const std::shared_ptr<EnqueuedStatus>& status() const { return status_; }

  /// The calls of functions that the call is in, as errors name them; empty: none. For the work
  /// that is enqueued from now on.
  void set_calls(std::string calls) {
    calls_ = calls.empty() ? nullptr : std::make_shared<const std::string>(std::move(calls));
  }
  const std::shared_ptr<const std::string>& calls() const { return calls_; }

  /// Plain data, undefined until work writes it.
  absl::StatusOr<Tensor> Allocate(DType dtype, const Shape& shape);
  /// A copy on the device, enqueued; `value` itself where it is there.
  absl::StatusOr<Tensor> ToDevice(const Tensor& value);
  /// OK once everything that is enqueued has run. Errors: its first failure; the device's; one that
  /// IsWaiting where it has not run yet: to be asked again after that.
  absl::Status Ready();
  static bool IsWaiting(const absl::Status& status) {
    return status.code() == absl::StatusCode::kUnavailable && status.message().empty();
  }
  /// Before each step that enqueues work: how far the host runs ahead has a bound. Errors: as
  /// Ready, of what was enqueued some time ago.
  absl::Status MayGoOn();
  /// Returns when what has returned that IsWaiting last does not have to wait any more.
  void Block();
  /// Copies in host memory, in place of those that are on the device. Errors: as Ready; after one
  /// that IsWaiting, to be called again with the same values.
  absl::Status ToHost(absl::Span<Tensor> values);

  /// Enqueues copies of a finished plan's results, to be taken by TakeResults; then the call's
  /// places can be given back.
  absl::Status EnqueueResults(absl::Span<const Tensor> results);
  /// Moves the results, in host memory, into `results`. Errors: as Ready.
  absl::Status TakeResults(absl::Span<Tensor> results);

  /// A step with an effect that others can see has been issued.
  void NoteEffect() { ++effects_; }
  int64_t effects() const { return effects_; }
  /// Whether the stream can be used by others.
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
  absl::Status Enqueue(absl::Span<const Tensor> values, std::vector<Download>& downloads);
  absl::Status WaitFor(const EventRef& event);
  static void Finish(std::vector<Download>& downloads, absl::Span<Tensor> values);

  Allocator& memory_;
  Stream& stream_;
  AccessTicket& ticket_;
  Allocator& host_;
  const std::shared_ptr<EnqueuedStatus> status_ = std::make_shared<EnqueuedStatus>();
  std::shared_ptr<const std::string> calls_;
  std::vector<Download> downloads_, results_;
  EventRef waits_for_;   // What Ready has not seen happen.
  EventRef window_end_;  // Of the steps before the latest ones.
  int in_window_ = 0;    // Of the latest ones.
  EventRef blocks_on_;
  int64_t effects_ = 0;
  int64_t host_waits_ = 0;
  bool stream_works_ = true;
};

}  // namespace formwork
