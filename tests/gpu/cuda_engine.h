#pragma once

// An engine on the first GPU.

#include <memory>
#include <utility>

#include "gpu/gpu.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {

class CudaEngineTest : public EngineTest {
 protected:
  void SetUp() override {}  // A test starts it.
  void TearDown() override { engine_.reset(); }

  /// False where there is no GPU: the test is skipped then.
  bool StartOnGpu() {
    absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice(0);
    if (!device.ok()) {
      Skip(device.status());
      return false;
    }
    device_ = *std::move(device);
    EngineOptions options;
    options.device = device_.get();
    options.register_device_kernels = &RegisterCudaKernels;
    options.max_captured_bytes = size_t{1} << 30;
    Start(options);
    return true;
  }

 private:
  static void Skip(const absl::Status& why) { GTEST_SKIP() << why; }

  std::unique_ptr<Device> device_;  // Behind the engine, which ends first.
};

}  // namespace formwork::testing
