#pragma once

// A device on which nothing runs until it is stepped, in an order drawn from a seed, and which
// reports what events do not order: a race detector for streams.
//
// Memory is separate: outside of work, and inside of work for buffers that it did not name, a
// buffer reads as poison, and what is written there is reported. Each stream has a vector clock,
// and each buffer knows its last write and the reads since; an access, a free or a host access
// that these do not precede is a race, whether or not this run got a wrong value from it.
//
// The host is one more clock: it knows what it awaited, or was told through Then, on any thread.
// Unlike the CPU device, pending work does not hold its buffers, as it does not on a GPU.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/device/device.h"

namespace formwork::testing {

class SimState;

/// A wait of a stream, as it is enqueued.
struct SimWait {
  int64_t number;    ///< Counted from 0 over all streams.
  const void* site;  ///< Where in the program: the same for all waits of one statement.
};

/// Thread-safe, as every device. It holds the buffers of the host that copies touch: what they are
/// known by is their address.
///
/// One that enqueues is used as a GPU is: what Launch is given is called at once, outside of the
/// device's work, and enqueues by EnqueueKernel and Copy what it wants to be done with the memory.
class SimDevice final : public Device {
 public:
  explicit SimDevice(uint64_t seed, bool enqueues = false);
  ~SimDevice() override;

  absl::string_view name() const override { return "sim:0"; }
  DeviceKind kind() const override { return DeviceKind::kSimulated; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  Allocator& allocator() override;
  absl::Status Health() const override;

  /// Runs one thing of a stream that the seed chooses among those that may go on. False if there is
  /// none.
  bool Step();
  /// Whether there is one.
  bool CanStep() const;
  /// Steps until nothing can run. Await does so until its event has happened.
  void RunAll();

  /// From now on memory of the host is neither held nor watched: for those whose memory it is may
  /// go before the device.
  void IgnoreHost();
  /// The same, and a thread of its own steps it, so that nobody else has to. To be called once,
  /// first.
  void RunByItself();

  /// What a test says before it reads or writes `buffer`, of the host, that copies touch.
  void HostReads(const Buffer& buffer);
  void HostWrites(const Buffer& buffer);

  /// To test the tests: leaves out the waits that this says. Before the first of them.
  void LeaveOutWaits(std::function<bool(const SimWait&)> which);

  /// From now on everything that runs fails with kUnavailable.
  void Lose();
  /// From now on nothing runs any more.
  void Stall();

  /// What was found so far, in the order of finding.
  std::vector<std::string> Reports() const;

 private:
  const std::shared_ptr<SimState> state_;
  std::thread driver_;
};

/// From within what `stream`, of a SimDevice that enqueues, was given to launch: enqueues `kernel`,
/// which touches what that was said to touch.
void EnqueueKernel(const Stream& stream, absl::AnyInvocable<absl::Status()> kernel);

}  // namespace formwork::testing
