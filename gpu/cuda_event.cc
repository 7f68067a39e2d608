#include "gpu/cuda_event.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "gpu/cuda_stream.h"

namespace formwork {
namespace {

constexpr size_t kWordsBytes = 4096;      // Of words that are made together.
constexpr size_t kFailureWordBytes = 64;  // So that no two share a line of a cache.
static_assert(sizeof(FailureWord) <= kFailureWordBytes);

// Of all streams: what is pinned is nobody else's on this machine.
constexpr size_t kMostPinned = size_t{256} << 20;

constexpr absl::Duration kAtOnce = absl::Microseconds(100);

}  // namespace

absl::Duration EventPause::Next() const {
  const absl::Duration passed = absl::Now() - begin_;
  return passed < kAtOnce ? absl::ZeroDuration() : std::min(passed / 32, absl::Microseconds(250));
}

CudaContext::~CudaContext() {
  absl::MutexLock lock(&mutex_);
  for (cudaEvent_t event : events_) {
    health_.Note(CudaStatus(cudaEventDestroy(event), "cudaEventDestroy"));
  }
  for (void* block : on_device_) health_.Note(CudaStatus(cudaFree(block), "cudaFree"));
  for (void* block : pinned_) health_.Note(CudaStatus(cudaFreeHost(block), "cudaFreeHost"));
}

absl::Status CudaContext::Use() const {
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_));
  return absl::OkStatus();
}

void CudaContext::Know(CudaQueue* queue) {
  absl::MutexLock lock(&queues_mutex_);
  queues_.insert(queue);
}

void CudaContext::Forget(CudaQueue* queue) {
  absl::MutexLock lock(&queues_mutex_);
  queues_.erase(queue);
}

void CudaContext::GiveKeptBack() {
  {
    absl::MutexLock lock(&queues_mutex_);
    for (CudaQueue* queue : queues_) queue->GiveKeptBack();
  }
  health_.Note(CudaStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
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

absl::StatusOr<std::shared_ptr<FailureWord>> CudaContext::TakeFailureWord() {
  absl::MutexLock lock(&mutex_);
  if (failure_words_.empty()) FORMWORK_RETURN_IF_ERROR(MakeFailureWords());
  FailureWord* const word = failure_words_.back();
  failure_words_.pop_back();
  return std::shared_ptr<FailureWord>(
      word, [self = shared_from_this()](FailureWord* given) { self->GiveFailureWord(given); });
}

void* CudaContext::TakePinned(size_t bytes) {
  if (bytes > kMostPinned || pinned_bytes_.fetch_add(bytes) > kMostPinned - bytes) {
    if (bytes <= kMostPinned) pinned_bytes_ -= bytes;
    return nullptr;
  }
  void* data = nullptr;
  if (!Use().ok() || cudaHostAlloc(&data, bytes, cudaHostAllocPortable) != cudaSuccess) {
    (void)cudaGetLastError();  // Other memory will do.
    pinned_bytes_ -= bytes;
    return nullptr;
  }
  return data;
}

void CudaContext::GivePinned(void* data, size_t bytes) {
  health_.Note(CudaStatus(cudaFreeHost(data), "cudaFreeHost"));
  pinned_bytes_ -= bytes;
}

absl::Status CudaContext::MakeFailureWords() {
  FORMWORK_RETURN_IF_ERROR(Use());
  void* block = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaHostAlloc(&block, kWordsBytes, cudaHostAllocMapped | cudaHostAllocPortable));
  pinned_.push_back(block);
  void* on_device = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaHostGetDevicePointer(&on_device, block, 0));
  if (on_device != block) {
    return absl::UnavailableError("CUDA: host memory has another address on the GPU");
  }
  void* twins = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaMalloc(&twins, kWordsBytes));
  on_device_.push_back(twins);
  for (size_t at = 0; at < kWordsBytes; at += kFailureWordBytes) {
    auto* const word = new (static_cast<char*>(block) + at) FailureWord;
    word->twin = reinterpret_cast<FailureWord*>(static_cast<char*>(twins) + at);
    FORMWORK_RETURN_IF_ERROR(ResetTwin(*word));
    failure_words_.push_back(word);
  }
  return absl::OkStatus();
}

absl::Status CudaContext::ResetTwin(FailureWord& word) const {
  const FailureWord twin{.twin = &word};
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemcpy(word.twin, &twin, sizeof(twin), cudaMemcpyHostToDevice));
  return absl::OkStatus();
}

void CudaContext::GiveFailureWord(FailureWord* word) {
  if (word->failed_step() != 0) {
    absl::Status reset = Use();
    if (reset.ok()) reset = ResetTwin(*word);
    health_.Note(reset);
    if (!reset.ok()) return;  // Not to be used again.
    word->step = 0;
    word->where = FailureWord::kNowhere;
  }
  absl::MutexLock lock(&mutex_);
  failure_words_.push_back(word);
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

cudaError_t CudaEvent::Look() const {
  cudaError_t seen = seen_.load(std::memory_order_acquire);
  if (seen != cudaErrorNotReady) return seen;
  seen = cudaEventQuery(event_);
  if (seen != cudaErrorNotReady) seen_.store(seen, std::memory_order_release);
  return seen;
}

bool CudaEvent::Done() const { return event_ == nullptr || Look() != cudaErrorNotReady; }

absl::Status CudaEvent::Result() const {
  FORMWORK_RETURN_IF_ERROR(status_);
  return CudaStatus(Look(), "cudaEventQuery");
}

absl::Status CudaEvent::Await(absl::Time deadline) {
  if (event_ == nullptr) return status_;
  const EventPause pause;
  while (!Done()) {
    if (deadline == absl::InfiniteFuture() && pause.Next() > absl::ZeroDuration()) {
      FORMWORK_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(event_));
      break;
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("Await: the event has not happened");
    }
    absl::SleepFor(std::min(pause.Next(), left));
  }
  return Result();
}

absl::Status CudaEvent::HoldBack(cudaStream_t stream) const {
  FORMWORK_RETURN_IF_ERROR(status_);
  if (seen_.load(std::memory_order_acquire) == cudaSuccess) return absl::OkStatus();
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, event_));
  return absl::OkStatus();
}

}  // namespace formwork
