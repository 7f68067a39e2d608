#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/cuda_completion.h"
#include "gpu/cuda_event.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"

namespace formwork {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaContext> context, size_t memory_bytes, std::string pci_bus_id)
      : memory_bytes_(memory_bytes),
        name_(absl::StrCat("cuda:", context->ordinal())),
        context_(std::move(context)),
        completion_(context_),
        memory_(*this),
        load_(std::move(pci_bus_id)) {}

  absl::string_view name() const override { return name_; }
  DeviceKind kind() const override { return DeviceKind::kCuda; }

  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    FORMWORK_ASSIGN_OR_RETURN(auto queue, CudaQueue::Make(context_));
    return std::make_unique<CudaStream>(std::move(queue), completion_);
  }

  size_t memory_bytes() const override { return memory_bytes_; }
  Allocator& allocator() override { return memory_; }

  absl::Status Health() const override {
    FORMWORK_RETURN_IF_ERROR(context_->health().status());
    FORMWORK_RETURN_IF_ERROR(context_->Use());
    // Any call that takes the error of earlier work would do: a lost device answers none.
    size_t free_bytes = 0, all_bytes = 0;
    FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free_bytes, &all_bytes));
    return absl::OkStatus();
  }
  absl::StatusOr<DeviceLoad> Load() override { return load_.Get(); }

 private:
  const size_t memory_bytes_;
  const std::string name_;
  const std::shared_ptr<CudaContext> context_;
  CudaCompletion completion_;
  CudaMemory memory_;
  NvmlLoad load_;
};

// Memory that is freed stays in the pool, or each synchronisation would give it back to the driver.
absl::Status KeepFreedMemory(int ordinal) {
  int has_pools = 0;
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal));
  if (has_pools == 0) {
    return absl::UnavailableError("CUDA: the GPU has no stream-ordered memory");
  }
  cudaMemPool_t pool = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaDeviceGetDefaultMemPool(&pool, ordinal));
  uint64_t threshold = UINT64_MAX;
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  return absl::OkStatus();
}

// CUDA says the same of a driver that is too old and of none.
absl::Status CheckDriver() {
  int version = 0;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaDriverGetVersion(&version));
  if (version == 0) return absl::UnavailableError("CUDA: there is no NVIDIA driver");
  if (version / 1000 < CUDART_VERSION / 1000) {
    return absl::UnavailableError(
        absl::StrCat("CUDA: the NVIDIA driver is too old: it is for CUDA ", version / 1000, ".",
                     version % 1000 / 10, ", wanted: ", CUDART_VERSION / 1000));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(int ordinal) {
  FORMWORK_RETURN_IF_ERROR(CheckDriver());
  int count = 0;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaGetDeviceCount(&count));
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(
        absl::StrCat("CUDA: there is no such GPU: ordinal=", ordinal, " GPUs=", count));
  }
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal));
  FORMWORK_RETURN_IF_ERROR(KeepFreedMemory(ordinal));
  size_t free_bytes = 0, all_bytes = 0;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free_bytes, &all_bytes));
  char pci_bus_id[16] = "";
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaDeviceGetPCIBusId(pci_bus_id, sizeof(pci_bus_id), ordinal));
  auto context = std::make_shared<CudaContext>(ordinal, free_bytes);
  return std::make_unique<CudaDevice>(std::move(context), free_bytes, pci_bus_id);
}

}  // namespace formwork
