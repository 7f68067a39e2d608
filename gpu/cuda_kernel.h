#pragma once

// Kernels of CUDA text, compiled by NVRTC for the GPU at hand, and their launch. Private to gpu/.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace formwork {

/// The code of `text` for GPUs of compute capability `major`.`minor`. Needs no GPU.
/// Errors: kInternal with the compiler's log.
absl::StatusOr<std::string> CompileCuda(const std::string& text, int major, int minor);

/// The kernel `name` of `text`. Compiled once for each text, and kept as long as the process.
/// Thread-safe. Errors: as above; kUnavailable if there is no GPU.
absl::StatusOr<cudaKernel_t> CudaKernelOf(const std::string& text, const char* name);

/// Launches it over `items` in blocks of `block` threads, as many as the GPU keeps busy at most:
/// the kernel goes on by the grid's size. Errors: CUDA's.
absl::Status LaunchOver(cudaKernel_t kernel, uint64_t items, unsigned block,
                        absl::Span<void* const> arguments, cudaStream_t stream);

}  // namespace formwork
