#pragma once

// The devices that the conformance suite runs on, and what it needs of each beside the contract:
// something to enqueue, and a way to hold a stream up. A new device is one entry in devices.cc.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"

namespace formwork::testing {

/// Holds a stream up until it is destroyed. Before its own patience ends, at the latest, so that a
/// test that is stuck fails and does not hang.
class Gate {
 public:
  virtual ~Gate() = default;
};

class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  virtual Device& device() = 0;
  /// Work that fills `buffer` with `value`.
  virtual void Fill(Stream& stream, Buffer& buffer, uint8_t value) = 0;
  /// Nothing enqueued on `stream` later runs before the gate is destroyed, or, on a device that
  /// runs only while the host waits for it, before that.
  virtual std::unique_ptr<Gate> Close(Stream& stream) = 0;
  /// Said before the host touches a buffer of its own that copies touch.
  virtual void HostReads(const Buffer& /*buffer*/) {}
  virtual void HostWrites(const Buffer& /*buffer*/) {}
  /// What the device itself found wrong with the way it was used.
  virtual std::vector<std::string> Reports() const { return {}; }
};

struct DeviceCase {
  std::string name;
  /// kUnavailable: this machine has no such device, and the reason.
  std::function<absl::StatusOr<std::unique_ptr<DeviceUnderTest>>()> make;
};

const std::vector<DeviceCase>& DeviceCases();

#ifdef FORMWORK_CUDA
absl::StatusOr<std::unique_ptr<DeviceUnderTest>> MakeCudaUnderTest();
#endif

}  // namespace formwork::testing
