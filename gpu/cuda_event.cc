#include "gpu/cuda_event.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"

namespace formwork {

CudaContext::~CudaContext() {
  absl::MutexLock lock(&mutex_);
  for (cudaEvent_t event : events_) {
    health_.Note(CudaStatus(cudaEventDestroy(event), "cudaEventDestroy"));
  }
}

absl::Status CudaContext::Use() const {
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_));
  return absl::OkStatus();
}

absl::StatusOr<cudaEvent_t> CudaContext::TakeEvent() {
  {
    absl::MutexLock lock(&mutex_);
    if (!events_.empty()) {
      const cudaEvent_t event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  FORMWORK_RETURN_IF_ERROR(Use());
  cudaEvent_t event = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
  return event;
}

void CudaContext::GiveEvent(cudaEvent_t event) {
  absl::MutexLock lock(&mutex_);
  events_.push_back(event);
}

CudaEvent::CudaEvent(std::shared_ptr<CudaContext> context, cudaStream_t stream, absl::Status status)
    : context_(std::move(context)), status_(std::move(status)) {
  const absl::Status recorded = Recorded(stream);
  if (status_.ok()) status_ = recorded;
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) context_->GiveEvent(event_);
}

absl::Status CudaEvent::Recorded(cudaStream_t stream) {
  FORMWORK_ASSIGN_OR_RETURN(const cudaEvent_t event, context_->TakeEvent());
  if (const cudaError_t error = cudaEventRecord(event, stream); error != cudaSuccess) {
    context_->GiveEvent(event);
    return CudaStatus(error, "cudaEventRecord");
  }
  event_ = event;
  return absl::OkStatus();
}

bool CudaEvent::Done() const {
  return event_ == nullptr || cudaEventQuery(event_) != cudaErrorNotReady;
}

absl::Status CudaEvent::Result() const {
  FORMWORK_RETURN_IF_ERROR(status_);
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaEventQuery(event_));
  return absl::OkStatus();
}

absl::Status CudaEvent::Await(absl::Time deadline) {
  if (event_ == nullptr) return status_;
  if (deadline == absl::InfiniteFuture()) {
    FORMWORK_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(event_));
    return Result();
  }
  // CUDA waits without a deadline: look, and sleep a little longer each time.
  absl::Duration pause = absl::Microseconds(5);
  while (!Done()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("Await: the event has not happened");
    }
    absl::SleepFor(std::min(pause, left));
    pause = std::min(pause * 2, absl::Milliseconds(1));
  }
  return Result();
}

absl::Status CudaEvent::HoldBack(cudaStream_t stream) const {
  FORMWORK_RETURN_IF_ERROR(status_);
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, event_));
  return absl::OkStatus();
}

}  // namespace formwork
