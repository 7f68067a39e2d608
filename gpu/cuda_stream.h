#pragma once

// Streams of a GPU, and memory in their order. Private to gpu/, where kernels turn a Stream back
// into what CUDA knows.

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/device.h"
#include "gpu/cuda_completion.h"
#include "gpu/cuda_event.h"

namespace formwork {

/// Blocks that were given back, by size; the last one is the first to be taken again.
class KeptBlocks {
 public:
  explicit KeptBlocks(size_t most_bytes) : most_bytes_(most_bytes) {}

  void* Take(size_t bytes);             ///< Null: there is none.
  bool Keep(void* data, size_t bytes);  ///< False: they are too many.
  template <typename Free>
  void Clear(Free free) {
    for (const auto& [bytes, blocks] : blocks_) {
      for (void* data : blocks) free(data, bytes);
    }
    blocks_.clear();
    bytes_ = 0;
  }

 private:
  const size_t most_bytes_;
  std::map<size_t, std::vector<void*>> blocks_;
  size_t bytes_ = 0;
};

/// What a CudaStream is; lives on until the last memory that it gave out is freed. Thread-safe.
class CudaQueue final {
 public:
  static absl::StatusOr<std::shared_ptr<CudaQueue>> Make(std::shared_ptr<CudaContext> context);
  ~CudaQueue();

  cudaStream_t stream() const { return stream_; }
  const std::shared_ptr<CudaContext>& context() const { return context_; }
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  /// Fails the stream, unless `status` is OK or it has failed before.
  void Fail(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }

  /// Memory for what is enqueued from here on: `bytes`, as TakenBytes says. Blocks of that size
  /// that were given back are taken first, which CUDA is not asked for: its pools are under a lock
  /// that all streams share, and put large blocks together anew. Where CUDA has no more, what all
  /// streams keep goes back to it. Errors: kResourceExhausted.
  absl::StatusOr<void*> Take(size_t bytes);
  /// Once what is enqueued has run. Errors are the context's.
  void Give(void* data, size_t bytes);
  /// The same of pinned host memory. Null: there is none.
  void* TakePinned(size_t bytes);
  void GivePinned(void* data, size_t bytes);
  /// Nothing is kept any more of what has been.
  void GiveKeptBack();
  /// What is taken for a block: at most a quarter more.
  static size_t TakenBytes(size_t bytes);

 private:
  CudaQueue(std::shared_ptr<CudaContext> context, cudaStream_t stream)
      : context_(std::move(context)), stream_(stream), kept_(context_->most_kept()) {}

  void FreeKept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<CudaContext> context_;
  const cudaStream_t stream_;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  KeptBlocks kept_ ABSL_GUARDED_BY(mutex_);
  KeptBlocks pinned_ ABSL_GUARDED_BY(mutex_){size_t{32} << 20};
};

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<CudaQueue> queue, CudaCompletion& completion)
      : queue_(std::move(queue)), completion_(completion) {}
  ~CudaStream() override;

  const std::shared_ptr<CudaQueue>& queue() const { return queue_; }

  bool enqueues() const override { return true; }
  void Launch(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) override;
  EventRef Record() override;
  void Wait(const EventRef& event) override;
  void Copy(const Buffer& src, Buffer& dst) override;
  void Then(absl::AnyInvocable<void(absl::Status)> on_host) override;
  BufferBlock* TakePinned(size_t bytes) override;
  absl::StatusOr<std::shared_ptr<FailureWord>> NewFailureWord() override;
  void CopyUnlessFailed(FailureWord& word, const Buffer& src, Buffer& dst) override;
  bool BeginCapture() override;
  absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override;
  void Replay(CapturedWork& work) override;

  /// Where what is launched enqueues now: the queue, or the stream that captures it.
  cudaStream_t current() const { return captures_ ? capture_ : queue_->stream(); }
  /// As CopyFromHost, below.
  absl::Status CopyFromHost(const void* from, void* to, size_t bytes) const;

 private:
  const std::shared_ptr<CudaQueue> queue_;
  CudaCompletion& completion_;
  cudaStream_t capture_ = nullptr;  // One of its own, while something is captured;
  bool captures_ = false;           // while what is enqueued is.
  absl::Status captured_;           // How that went so far.
  mutable std::vector<std::unique_ptr<char[]>> captured_bytes_;  // Of the host, that it copies.
};

/// The memory of `device`, a GPU, in the order of the block's stream: from CUDA's own pool, of
/// which a stream keeps up to 32 MiB.
class CudaMemory final : public Allocator {
 public:
  explicit CudaMemory(const Device& device) : device_(device) {}

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

 private:
  const Device& device_;
};

/// For work that enqueues on `stream`, which is of a CUDA device.
cudaStream_t CudaStreamOf(const Stream& stream);
/// For such work: enqueues a copy of memory of the host that need not stay, and is not pinned, to
/// the GPU's. What is captured has bytes of its own, which are the same each time.
absl::Status CopyFromHost(const Stream& stream, const void* from, void* to, size_t bytes);

}  // namespace formwork
