// A GPU that is lost: in processes of their own (death tests), for theirs cannot use it any more.

#include <cstdlib>
#include <iostream>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_stream.h"
#include "gpu/gpu.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

// The first ends the CUDA context. The second stays for so many nanoseconds.
constexpr char kText[] = R"cuda(
extern "C" __global__ void destroy(unsigned long long address) {
  *reinterpret_cast<volatile unsigned long long*>(address) = 1;
}
extern "C" __global__ void stay(unsigned long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
})cuda";

class LostGpuTest : public EngineTest {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice(0);
    if (!device.ok()) GTEST_SKIP() << device.status();
  }

  // In the child: has the kernel run, in `items` threads, on a stream of the engine's device while
  // calls come, until one is told that the device is lost. Exits with 0 if that is soon enough.
  [[noreturn]] void Lose(const char* kernel_name, unsigned long long argument, uint64_t items,
                         absl::Duration stall) {
    absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice(0);
    if (!device.ok()) Fail("no device", device.status());
    EngineOptions options;
    options.device = device->get();
    options.register_device_kernels = &RegisterCudaKernels;
    options.device_stall = stall;
    Start(options);
    const absl::StatusOr<Registered> add = RegisterAdd("f", 1);
    if (!add.ok()) Fail("Register", add.status());
    const CallResult before = Run(add->function.id, Owned(Tensor::Scalar(1.0f)));
    if (!before.status.ok()) Fail("a call before", before.status);

    absl::StatusOr<std::unique_ptr<Stream>> stream = (*device)->NewStream();
    if (!stream.ok()) Fail("NewStream", stream.status());
    absl::Status launched;
    (*stream)->Launch({}, [&] {
      const absl::StatusOr<cudaKernel_t> kernel = CudaKernelOf(kText, kernel_name);
      void* const arguments[] = {&argument};
      launched = kernel.ok() ? LaunchOver(*kernel, items, 1024, arguments, CudaStreamOf(**stream))
                             : kernel.status();
      return launched;
    });
    if (!launched.ok()) Fail("Launch", launched);
    const absl::Time begin = absl::Now();
    CallResult result;
    do {
      if (absl::Now() - begin > absl::Seconds(2.5)) Fail("it is not seen", result.status);
      result = Run(add->function.id, Owned(Tensor::Scalar(1.0f)));
    } while (ReasonOf(result.status) != Reason::kDeviceLost);
    std::cerr << "seen after " << absl::Now() - begin << ": " << result.status << "\n";
    // As the server does: nothing that the device may still reach is taken away.
    std::_Exit(absl::IsUnavailable(result.status) && engine_->Stats().device_lost ? 0 : 1);
  }

  [[noreturn]] static void Fail(const char* what, const absl::Status& status) {
    std::cerr << what << ": " << status << "\n";
    std::_Exit(1);
  }
};

TEST_F(LostGpuTest, AnIllegalAddressIsSeen) {
  EXPECT_EXIT(Lose("destroy", 16, 1, absl::ZeroDuration()), ::testing::ExitedWithCode(0), "");
}

// It leaves no room for another kernel.
TEST_F(LostGpuTest, AStallIsSeen) {
  EXPECT_EXIT(Lose("stay", 4'000'000'000, uint64_t{1} << 30, absl::Seconds(1)),
              ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace formwork::testing
