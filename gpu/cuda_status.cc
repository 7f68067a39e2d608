#include "gpu/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace formwork {

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  // What is not sticky must not be found by the next cudaGetLastError, which has another caller.
  static_cast<void>(cudaGetLastError());
  const std::string text = absl::StrCat("CUDA: ", cudaGetErrorString(error), " (",
                                        cudaGetErrorName(error), ") from ", call);
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(text);
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorNotPermitted:
      return absl::InternalError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace formwork
