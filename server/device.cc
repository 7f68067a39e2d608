#include "server/device.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "spdlog/spdlog.h"

#ifdef FORMWORK_CUDA
#include "gpu/gpu.h"
#endif

namespace formwork::server {
namespace {

#ifdef FORMWORK_CUDA
constexpr auto kRegisterGpuKernels = &RegisterCudaKernels;
absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int ordinal) { return NewCudaDevice(ordinal); }
#else
constexpr void (*kRegisterGpuKernels)(KernelRegistry&) = nullptr;
absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int /*ordinal*/) {
  return InvalidArgument("--device: this server was built without CUDA (preset cuda)");
}
#endif

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name) {
  if (name == "cpu") return nullptr;
  if (name == "auto") {
    absl::StatusOr<std::unique_ptr<Device>> gpu = OpenGpu(0);
    if (gpu.ok()) return gpu;
    if (!absl::IsInvalidArgument(gpu.status())) {
      spdlog::info("no GPU is used: {}", std::string(gpu.status().message()));
    }
    return nullptr;
  }
  int ordinal = -1;
  if (!absl::ConsumePrefix(&name, "cuda:") || !absl::SimpleAtoi(name, &ordinal) || ordinal < 0) {
    return InvalidArgument("--device: wanted: auto, cpu or cuda:N");
  }
  return OpenGpu(ordinal);
}

void UseDevice(Device& device, EngineOptions* options) {
  options->device = &device;
  options->register_device_kernels = kRegisterGpuKernels;
  // What is left is for what the limit does not count: code, libraries, blocks kept for reuse.
  if (options->device_memory_limit_bytes == 0) {
    options->device_memory_limit_bytes = device.memory_bytes() / 10 * 9;
  }
  options->max_captured_bytes = options->device_memory_limit_bytes / 16;
#ifdef FORMWORK_CUDA
  if (options->least_stream_work == 0) options->least_stream_work = kLeastGpuStreamWork;
  if (!options->data_dir.empty()) KeepCudaCode(options->data_dir + "/gpu-kernels");
#endif
}

void UseTf32() {
#ifdef FORMWORK_CUDA
  AllowTf32(true);
#endif
}

void UseDeterminism() {
#ifdef FORMWORK_CUDA
  RequireDeterminism(true);
#endif
}

}  // namespace formwork::server
