#pragma once

// Events of a GPU: a cudaEvent_t from a pool, and what the stream's status was.

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/device/device.h"
#include "gpu/cuda_status.h"

namespace formwork {

class CudaQueue;

/// What the streams, events and memory of one GPU share. Thread-safe. The device owns it, and holds
/// on to it until the last of them is gone.
class CudaContext : public std::enable_shared_from_this<CudaContext> {
 public:
  /// `memory_bytes`: of the GPU, that are free.
  CudaContext(int ordinal, size_t memory_bytes) : ordinal_(ordinal), most_kept_(memory_bytes / 8) {}
  ~CudaContext();

  int ordinal() const { return ordinal_; }
  CudaHealth& health() { return health_; }
  /// Makes the GPU the calling thread's current one.
  absl::Status Use() const;
  /// What a stream may keep of memory that it does not use.
  size_t most_kept() const { return most_kept_; }
  void Know(CudaQueue* queue);  ///< Until Forget.
  void Forget(CudaQueue* queue);
  /// Has all streams give back what they keep, and waits for the GPU, so that it is there.
  void GiveKeptBack();
  absl::StatusOr<cudaEvent_t> TakeEvent();
  /// An event that something still waits for may go back: a wait is for what was recorded before.
  void GiveEvent(cudaEvent_t event);
  /// A word in pinned host memory, with a twin in the GPU's, kept for reuse. The context outlives
  /// it. It is given back once no kernel uses it.
  absl::StatusOr<std::shared_ptr<FailureWord>> TakeFailureWord();
  /// Pinned host memory. Null: so much of it has been given out already, or CUDA has none. It goes
  /// by GivePinned.
  void* TakePinned(size_t bytes);
  void GivePinned(void* data, size_t bytes);

 private:
  absl::Status MakeFailureWords() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ResetTwin(FailureWord& word) const;
  void GiveFailureWord(FailureWord* word);

  const int ordinal_;
  const size_t most_kept_;
  CudaHealth health_;
  absl::Mutex queues_mutex_;  // Before the queues' own.
  absl::flat_hash_set<CudaQueue*> queues_ ABSL_GUARDED_BY(queues_mutex_);
  absl::Mutex mutex_;
  std::vector<cudaEvent_t> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<FailureWord*> failure_words_ ABSL_GUARDED_BY(mutex_);  // That nobody uses.
  std::vector<void*> pinned_ ABSL_GUARDED_BY(mutex_);                // What those are of,
  std::vector<void*> on_device_ ABSL_GUARDED_BY(mutex_);             // and their twins.
  std::atomic<size_t> pinned_bytes_ = 0;                             // That TakePinned gave out.
};

/// How long to wait between two looks at events that have not happened.
class EventPause {
 public:
  /// None for the first 100 us, since to sleep and wake takes longer than short work does, and then
  /// a 32nd of the time that has passed, at most 250 us.
  absl::Duration Next() const;

 private:
  absl::Time begin_ = absl::Now();
};

class CudaEvent final : public Event {
 public:
  /// Records on `stream`, whose status is `status`. Where recording fails, the event has happened
  /// and has failed.
  CudaEvent(std::shared_ptr<CudaContext> context, cudaStream_t stream, absl::Status status);
  ~CudaEvent() override;

  bool Done() const override;
  absl::Status Await(absl::Time deadline) override;

  /// Makes `stream` wait on the device. Errors: that of the stream that recorded it.
  absl::Status HoldBack(cudaStream_t stream) const;
  /// Once done: the status that Await returns.
  absl::Status Result() const;

 private:
  absl::Status Recorded(cudaStream_t stream);
  // What CUDA says of it; asked no more once it has happened, for a look takes a microsecond.
  cudaError_t Look() const;

  const std::shared_ptr<CudaContext> context_;
  cudaEvent_t event_ = nullptr;  // Null where recording failed.
  mutable std::atomic<cudaError_t> seen_{cudaErrorNotReady};
  absl::Status status_;
};

}  // namespace formwork
