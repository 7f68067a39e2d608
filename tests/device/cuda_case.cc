// Built with FORMWORK_CUDA alone.

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/gpu.h"
#include "tests/device/devices.h"

namespace formwork::testing {
namespace {

// Not a host function: CUDA may run those of all streams one after the other, on one thread.
constexpr char kGateText[] = R"cuda(
extern "C" __global__ void gate(const volatile unsigned long long* open) {
  const unsigned long long most = 20000000000;  // 20 s, in nanoseconds.
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*open == 0 && now - begin < most);
})cuda";

class CudaGate final : public Gate {
 public:
  explicit CudaGate(Stream& stream) {
    stream.Launch({}, [&]() -> absl::Status {
      FORMWORK_ASSIGN_OR_RETURN(open_, stream.NewFailureWord());
      FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, CudaKernelOf(kGateText, "gate"));
      const void* word = &open_->step;
      void* const arguments[] = {&word};
      return LaunchOver(kernel, 1, 1, arguments, CudaStreamOf(stream));
    });
    stream.Then([open = open_](const absl::Status&) {});  // The kernel still looks at it.
  }
  ~CudaGate() override {
    if (open_ != nullptr) open_->Fail(1, 0);
  }

 private:
  std::shared_ptr<FailureWord> open_;
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
