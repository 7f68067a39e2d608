#pragma once

// A place that computes (Device), its in-order queues (Stream) and points in a queue (Event). The
// streams of a device run side by side; only events order one against another, and streams are
// arguments, never state of a thread. Buffer (buffer.h) is their memory.
//
// Implementations: cpu_device.h, gpu/gpu.h, and tests/support/sim_device.h, which runs work in any
// order that the events allow and reports accesses that they do not order. One suite, tests/device,
// is what the words here mean. The steps of a plan for a device are enqueued on its streams
// (core/kernels/enqueued_step.h); plans for the CPU run without.
//
// Every class here is thread-safe. A device outlives its streams, events and buffers.

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/device/buffer.h"
#include "core/device/failure_word.h"

namespace formwork {

/// The point of a stream where Record was called. It happens when everything enqueued there before
/// has run, or was skipped because the stream had failed.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether it has happened. What was written before it may then be read. Never blocks.
  virtual bool Done() const = 0;
  /// Blocks until it has happened. Not to be called from work or from Then.
  /// Errors: the stream's, if the stream had failed; kDeadlineExceeded.
  virtual absl::Status Await(absl::Time deadline) = 0;
};
using EventRef = std::shared_ptr<Event>;

/// What work touches: every buffer that it reads and every one that it writes. One that it does
/// both with is in `writes`, and may be in `reads`.
struct BufferAccess {
  absl::InlinedVector<const Buffer*, 4> reads;
  absl::InlinedVector<const Buffer*, 4> writes;
};

/// Work that has been captured (Stream::BeginCapture), to be enqueued as one by Stream::Replay.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

/// A queue that runs what is enqueued in order. Nothing here waits for the device, except copies
/// from and to pageable host memory on a GPU.
///
/// A stream fails at the first error of what it runs or waits for. It stays so: later work and
/// copies are skipped, and later events, those who wait for them and Then get that error. Whoever
/// leases streams replaces one that failed. An error that belongs to one call alone is kept by the
/// work itself, which then returns OK.
///
/// A stream may be destroyed at any time: what was enqueued still runs.
///
/// A timeline (recorded_stream.h) takes the times of waits and copies by Then around them, and of
/// work by the clock around its being called. So a device that only enqueues kernels there has to
/// make what its work enqueues known in time by two Thens as well, or by timed events of its own.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Itself, or the stream that it stands in front of. For devices, which know their own by type.
  virtual const Stream& inner() const { return *this; }
  /// Whether what Launch is given enqueues here, and the host cannot reach the device's memory: so
  /// it is with a GPU. Else it computes, when its turn comes.
  virtual bool enqueues() const { return false; }
  /// Enqueues `work`. A device that runs on the host calls it when its turn comes; a GPU calls it
  /// at once, to enqueue kernels and copies on this stream. It may be the caller's thread that runs
  /// it, also before this returns. `work` never blocks on events.
  virtual void Launch(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) = 0;
  /// A point after everything enqueued so far.
  virtual EventRef Record() = 0;
  /// Holds what is enqueued later until `event`, of a stream of this device, has happened. Null: no
  /// event to wait for. The stream fails if the event did.
  virtual void Wait(const EventRef& event) = 0;
  /// Enqueues a copy of all of `src` to `dst`, which is as large. Each is of this device or of the
  /// host; one of the host is kept alive until the copy has run.
  /// The stream fails with kInvalidArgument if the sizes differ.
  virtual void Copy(const Buffer& src, Buffer& dst) = 0;
  /// Calls `on_host` with the stream's status once everything enqueued so far has run; in order
  /// within a stream. On any thread: one that must not be held up. It may drop buffers.
  virtual void Then(absl::AnyInvocable<void(absl::Status)> on_host) = 0;

  /// A block of host memory to which enqueuing a copy here waits for nothing, where copies to other
  /// host memory wait for the device. It is freed as memory of the stream is. Null: there is none,
  /// or none left.
  virtual BufferBlock* TakePinned(size_t /*bytes*/) { return nullptr; }

  // Of a stream that enqueues:

  /// One that no kernel has written, for those of a call: here of the heap, for a device that is
  /// the host. Errors: kResourceExhausted; the device's.
  virtual absl::StatusOr<std::shared_ptr<FailureWord>> NewFailureWord() {
    return std::make_shared<FailureWord>();
  }
  /// As Copy, of two buffers of the device, unless a step before it has failed by `word`, which
  /// outlives it. Only in what Launch is given.
  virtual void CopyUnlessFailed(FailureWord& /*word*/, const Buffer& /*src*/, Buffer& /*dst*/) {
    Launch({}, [] { return absl::UnimplementedError("CopyUnlessFailed: it does not enqueue"); });
  }

  /// From now on until EndCapture what Launch is given is called a second time, and what it
  /// enqueues then does not run but is captured; so are copies between buffers of the device.
  /// False: this device captures nothing. Of a stream that one thread uses at a time.
  virtual bool BeginCapture() { return false; }
  /// Errors: what was enqueued cannot be captured, which does it no harm.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() {
    return absl::UnimplementedError("EndCapture: this device captures nothing");
  }
  /// Enqueues what has been captured on a stream of this device, with the same memory, for whose
  /// being there the caller sees. `work` must not be running still, and outlives its running.
  virtual void Replay(CapturedWork& /*work*/) {
    Launch({}, [] { return absl::UnimplementedError("Replay: this device captures nothing"); });
  }
};

enum class DeviceKind { kCpu, kCuda, kSimulated };

/// How busy a device is, by all processes that use it. What nobody tells is not there.
struct DeviceLoad {
  /// The parts of the last second, or of less, in which something ran, and in which memory was read
  /// or written: 0 to 1.
  std::optional<double> utilization, memory_utilization;
  std::optional<double> memory_occupied_bytes;  ///< Of its own memory.
  std::optional<double> celsius, watts;         ///< Its temperature, and the power that it draws.
};

class Device {
 public:
  virtual ~Device() = default;
  /// Such as "cpu:0". Lives as long as the device.
  virtual absl::string_view name() const = 0;
  virtual DeviceKind kind() const = 0;
  /// Errors: kUnavailable if the device is lost; kResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream() = 0;
  /// Bytes of its own memory that were free when it was made; 0: it has none but the host's.
  virtual size_t memory_bytes() const { return 0; }
  /// Its memory. Lives as long as the device.
  virtual Allocator& allocator() = 0;
  /// OK while the device can be used. Errors: kUnavailable once it is lost, for good.
  virtual absl::Status Health() const = 0;
  /// How busy it is, or was a second ago; may take half of one. Errors: kUnimplemented if a device
  /// of the kind does not tell; kUnavailable: this one does not, now.
  virtual absl::StatusOr<DeviceLoad> Load() {
    return absl::UnimplementedError("a device of this kind does not tell how busy it is");
  }
};

}  // namespace formwork
