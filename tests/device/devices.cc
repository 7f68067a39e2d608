#include "tests/device/devices.h"

#include <cstring>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/device/cpu_device.h"
#include "core/device/host_allocator.h"
#include "tests/support/sim_device.h"

namespace formwork::testing {
namespace {

// Fill on a device whose work runs on the host.
void FillOnHost(Stream& stream, Buffer& buffer, uint8_t value) {
  stream.Launch({.reads = {}, .writes = {&buffer}},
                [data = buffer.data(), bytes = buffer.bytes(), value] {
                  std::memset(data, value, bytes);
                  return absl::OkStatus();
                });
}

class CpuGate final : public Gate {
 public:
  explicit CpuGate(Stream& stream)
      : launcher_([this, &stream] {
          stream.Launch({}, [this] {
            closed_.Notify();
            open_.WaitForNotificationWithTimeout(absl::Seconds(20));
            return absl::OkStatus();
          });
        }) {
    closed_.WaitForNotification();
  }
  ~CpuGate() override {
    open_.Notify();
    launcher_.join();
  }

 private:
  absl::Notification closed_, open_;
  std::thread launcher_;  // Runs the work that waits, and then what was enqueued behind it.
};

class CpuUnderTest final : public DeviceUnderTest {
 public:
  Device& device() override { return *device_; }
  void Fill(Stream& stream, Buffer& buffer, uint8_t value) override {
    FillOnHost(stream, buffer, value);
  }
  std::unique_ptr<Gate> Close(Stream& stream) override { return std::make_unique<CpuGate>(stream); }

 private:
  const std::unique_ptr<Device> device_ = NewCpuDevice(ProcessAllocator());
};

class SimUnderTest final : public DeviceUnderTest {
 public:
  SimUnderTest(uint64_t seed, bool enqueues) : device_(seed, enqueues) {}
  Device& device() override { return device_; }
  void Fill(Stream& stream, Buffer& buffer, uint8_t value) override {
    if (!stream.enqueues()) return FillOnHost(stream, buffer, value);
    stream.Launch({.reads = {}, .writes = {&buffer}},
                  [&stream, to = buffer.data(), bytes = buffer.bytes(), value] {
                    EnqueueKernel(stream, [to, bytes, value] {
                      std::memset(to, value, bytes);
                      return absl::OkStatus();
                    });
                    return absl::OkStatus();
                  });
  }
  // Nothing runs until the host waits.
  std::unique_ptr<Gate> Close(Stream& /*stream*/) override { return std::make_unique<Gate>(); }
  void HostReads(const Buffer& buffer) override { device_.HostReads(buffer); }
  void HostWrites(const Buffer& buffer) override { device_.HostWrites(buffer); }
  std::vector<std::string> Reports() const override { return device_.Reports(); }

 private:
  SimDevice device_;
};

DeviceCase Sim(uint64_t seed, bool enqueues = false) {
  return {(enqueues ? "sim_enqueues_seed" : "sim_seed") + std::to_string(seed),
          [seed, enqueues] { return std::make_unique<SimUnderTest>(seed, enqueues); }};
}

}  // namespace

const std::vector<DeviceCase>& DeviceCases() {
  static const auto* const cases = new std::vector<DeviceCase>{
      {"cpu", [] { return std::make_unique<CpuUnderTest>(); }},
      Sim(1),
      Sim(2),
      Sim(3),
      Sim(4, /*enqueues=*/true),
#ifdef FORMWORK_CUDA
      {"cuda", &MakeCudaUnderTest},
#endif
  };
  return *cases;
}

}  // namespace formwork::testing
