#pragma once

// Kernels of CUDA text, compiled by NVRTC for the GPU at hand, and their launch. Private to gpu/.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace formwork {

/// The code of `text` for GPUs of compute capability `major`.`minor`. Needs no GPU.
/// Errors: kInternal with the compiler's log.
absl::StatusOr<std::string> CompileCuda(const std::string& text, int major, int minor);

/// A text, compiled and loaded; unloaded when it goes, which is once its kernels have run.
class CudaLibrary {
 public:
  /// Thread-safe. Compiled once while it is among the texts that were asked for last. Errors: as
  /// CompileCuda's; kUnavailable if there is no GPU.
  static absl::StatusOr<std::shared_ptr<const CudaLibrary>> Of(const std::string& text);

  explicit CudaLibrary(cudaLibrary_t library) : library_(library) {}
  ~CudaLibrary();
  CudaLibrary(const CudaLibrary&) = delete;

  absl::StatusOr<cudaKernel_t> Kernel(const char* name) const;

 private:
  const cudaLibrary_t library_;
};

/// The kernel `name` of `text`, one of those of ours, of which there are so many and no more: it is
/// kept as long as the process. Errors: as CudaLibrary's.
absl::StatusOr<cudaKernel_t> CudaKernelOf(const std::string& text, const char* name);

/// Launches it over `items` in blocks of `block` threads, as many as the GPU keeps busy at most:
/// the kernel goes on by the grid's size. Errors: CUDA's.
absl::Status LaunchOver(cudaKernel_t kernel, uint64_t items, unsigned block,
                        absl::Span<void* const> arguments, cudaStream_t stream);

}  // namespace formwork
