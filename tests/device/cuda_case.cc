// Built with FORMWORK_CUDA alone.

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/base/status.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/gpu.h"
#include "tests/device/devices.h"

namespace formwork::testing {
namespace {

class CudaGate final : public Gate {
 public:
  explicit CudaGate(Stream& stream) {
    // The callback has its own hold: it may return after this object is gone.
    auto* held = new std::shared_ptr<absl::Notification>(open_);
    stream.Launch({}, [&stream, held]() -> absl::Status {
      FORMWORK_CUDA_RETURN_IF_ERROR(cudaLaunchHostFunc(CudaStreamOf(stream), &WaitForOpen, held));
      return absl::OkStatus();
    });
  }
  ~CudaGate() override { open_->Notify(); }

 private:
  static void WaitForOpen(void* held) {
    auto* open = static_cast<std::shared_ptr<absl::Notification>*>(held);
    (*open)->WaitForNotificationWithTimeout(absl::Seconds(20));
    delete open;
  }

  const std::shared_ptr<absl::Notification> open_ = std::make_shared<absl::Notification>();
};

class CudaUnderTest final : public DeviceUnderTest {
 public:
  explicit CudaUnderTest(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  Device& device() override { return *device_; }
  void Fill(Stream& stream, Buffer& buffer, uint8_t value) override {
    stream.Launch({.reads = {}, .writes = {&buffer}}, [&]() -> absl::Status {
      FORMWORK_CUDA_RETURN_IF_ERROR(
          cudaMemsetAsync(buffer.data(), value, buffer.bytes(), CudaStreamOf(stream)));
      return absl::OkStatus();
    });
  }
  std::unique_ptr<Gate> Close(Stream& stream) override {
    return std::make_unique<CudaGate>(stream);
  }

 private:
  const std::unique_ptr<Device> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceUnderTest>> MakeCudaUnderTest() {
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, NewCudaDevice(0));
  return std::make_unique<CudaUnderTest>(std::move(device));
}

}  // namespace formwork::testing
