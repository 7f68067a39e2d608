#pragma once

// Errors of CUDA as absl::Status, and where a device keeps those that nobody is there to take.

#include <cuda_runtime_api.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace formwork {

/// `call` is the text of the call that returned `error`.
/// kResourceExhausted: no memory; kInternal: we called it wrongly; kUnavailable: all else, which is
/// a lost device, or none.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

/// The first error that a destructor or a callback met. Thread-safe.
class CudaHealth {
 public:
  void Note(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork

#define FORMWORK_CUDA_RETURN_IF_ERROR(call)                                         \
  do {                                                                              \
    if (const cudaError_t formwork_error = (call); formwork_error != cudaSuccess) { \
      return ::formwork::CudaStatus(formwork_error, #call);                         \
    }                                                                               \
  } while (false)
