#include "gpu/cuda_stream.h"

#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/numeric/bits.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "gpu/item_kernel.h"

namespace formwork {
namespace {

// Larger blocks than this are as large as was asked for; of the others few sizes are kept.
constexpr size_t kLargestRounded = size_t{4} << 20;
// What is pinned is nobody else's on this machine.
constexpr size_t kLargestPinned = size_t{16} << 20;
constexpr size_t kSmallestBlock = 512;

// Keeps its stream for as long as it lives.
struct CudaBlock final : BufferBlock {
  std::shared_ptr<CudaQueue> home;
};

// Frees pinned blocks, which are of no device.
class PinnedMemory final : public Allocator {
 public:
  static PinnedMemory& Instance() {
    static auto* const instance = new PinnedMemory;
    return *instance;
  }
  absl::StatusOr<BufferBlock*> Allocate(size_t /*bytes*/, Stream* /*stream*/) override {
    return Unimplemented("pinned memory is a stream's to give");
  }
  void Free(BufferBlock* block) override {
    const std::unique_ptr<CudaBlock> cuda_block(static_cast<CudaBlock*>(block));
    cuda_block->home->GivePinned(cuda_block->data, cuda_block->capacity);
  }
};

absl::Status CopyOn(cudaStream_t stream, const Buffer& src, const Buffer& dst) {
  if (src.bytes() != dst.bytes()) {
    return InvalidArgument("Copy: sizes differ: src=", src.bytes(), " dst=", dst.bytes());
  }
  if (src.bytes() == 0) return absl::OkStatus();
  // Not cudaMemcpyDefault: pageable host memory is known to us, not to every driver.
  const bool from_device = src.on_device(), to_device = dst.on_device();
  const cudaMemcpyKind kind = from_device
                                  ? (to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
                                  : (to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(dst.data(), src.data(), src.bytes(), kind, stream));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaQueue>> CudaQueue::Make(std::shared_ptr<CudaContext> context) {
  FORMWORK_RETURN_IF_ERROR(context->Use());
  cudaStream_t stream = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::shared_ptr<CudaQueue> queue(new CudaQueue(std::move(context), stream));
  queue->context_->Know(queue.get());
  return queue;
}

void* KeptBlocks::Take(size_t bytes) {
  const auto found = blocks_.find(bytes);
  if (found == blocks_.end() || found->second.empty()) return nullptr;
  void* const data = found->second.back();
  found->second.pop_back();
  bytes_ -= bytes;
  return data;
}

bool KeptBlocks::Keep(void* data, size_t bytes) {
  const HeapScope unlimited(nullptr);  // Memory that goes must not be refused any.
  if (bytes_ + bytes > most_bytes_) return false;
  blocks_[bytes].push_back(data);
  bytes_ += bytes;
  return true;
}

size_t CudaQueue::TakenBytes(size_t bytes) {
  if (bytes <= kSmallestBlock) return kSmallestBlock;
  if (bytes > kLargestRounded) return bytes;
  const size_t quarter = absl::bit_floor(bytes) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

absl::StatusOr<void*> CudaQueue::Take(size_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (void* const data = kept_.Take(bytes)) return data;
  }
  FORMWORK_RETURN_IF_ERROR(context_->Use());
  void* data = nullptr;
  const cudaError_t error = cudaMallocAsync(&data, bytes, stream_);
  if (error == cudaSuccess) return data;
  if (error != cudaErrorMemoryAllocation) return CudaStatus(error, "cudaMallocAsync");
  static_cast<void>(cudaGetLastError());
  // What other streams keep may be enough, once what is enqueued there has run.
  context_->GiveKeptBack();
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaMallocAsync(&data, bytes, stream_));
  return data;
}

void CudaQueue::GiveKeptBack() {
  absl::MutexLock lock(&mutex_);
  FreeKept();
}

void CudaQueue::FreeKept() {
  kept_.Clear([this](void* data, size_t /*bytes*/) {
    context_->health().Note(CudaStatus(cudaFreeAsync(data, stream_), "cudaFreeAsync"));
  });
}

void CudaQueue::Give(void* data, size_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (kept_.Keep(data, bytes)) return;
    if (bytes <= context_->most_kept()) {
      // Sizes that nobody asks for any more must not stay for ever.
      FreeKept();
      kept_.Keep(data, bytes);
      return;
    }
  }
  context_->health().Note(CudaStatus(cudaFreeAsync(data, stream_), "cudaFreeAsync"));
}

void* CudaQueue::TakePinned(size_t bytes) {
  if (bytes > kLargestPinned) return nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (void* const data = pinned_.Take(bytes)) return data;
  }
  return context_->TakePinned(bytes);
}

// A copy to it may still run: on this stream, as the next one to it will. What is not kept CUDA
// frees once it has.
void CudaQueue::GivePinned(void* data, size_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (pinned_.Keep(data, bytes)) return;
  }
  context_->GivePinned(data, bytes);
}

CudaQueue::~CudaQueue() {
  context_->Forget(this);
  GiveKeptBack();
  {
    absl::MutexLock lock(&mutex_);
    pinned_.Clear([this](void* data, size_t bytes) { context_->GivePinned(data, bytes); });
  }
  // Returns at once; CUDA lets what is enqueued finish.
  context_->health().Note(CudaStatus(cudaStreamDestroy(stream_), "cudaStreamDestroy"));
}

absl::StatusOr<BufferBlock*> CudaMemory::Allocate(size_t bytes, Stream* stream) {
  const auto* const cuda_stream =
      stream == nullptr ? nullptr : dynamic_cast<const CudaStream*>(&stream->inner());
  if (cuda_stream == nullptr) return InvalidArgument("Allocate: a stream of a GPU is wanted");
  const std::shared_ptr<CudaQueue>& queue = cuda_stream->queue();
  auto block = std::make_unique<CudaBlock>();
  block->bytes = bytes;
  block->capacity = CudaQueue::TakenBytes(bytes);
  FORMWORK_ASSIGN_OR_RETURN(block->data, queue->Take(block->capacity));
  block->allocator = this;
  block->device = &device_;
  block->home = queue;
  return block.release();
}

void CudaMemory::Free(BufferBlock* block) {
  const std::unique_ptr<CudaBlock> cuda_block(static_cast<CudaBlock*>(block));
  cuda_block->home->Give(cuda_block->data, cuda_block->capacity);
}

void CudaStream::Launch(const BufferAccess& /*access*/, absl::AnyInvocable<absl::Status()> work) {
  if (!queue_->status().ok()) return;
  absl::Status status = queue_->context()->Use();
  if (status.ok()) status = work();
  queue_->Fail(status);
  if (capture_ == nullptr || !status.ok()) return;
  captures_ = true;
  captured_.Update(work());
  captures_ = false;
}

EventRef CudaStream::Record() {
  return std::make_shared<CudaEvent>(queue_->context(), queue_->stream(), queue_->status());
}

void CudaStream::Wait(const EventRef& event) {
  if (event == nullptr) return;
  const auto* cuda_event = dynamic_cast<const CudaEvent*>(event.get());
  queue_->Fail(cuda_event == nullptr ? InvalidArgument("Wait: the event is of another device")
                                     : cuda_event->HoldBack(queue_->stream()));
}

void CudaStream::Copy(const Buffer& src, Buffer& dst) {
  if (!queue_->status().ok()) return;
  absl::Status status = queue_->context()->Use();
  if (status.ok()) status = CopyOn(current(), src, dst);
  if (capture_ != nullptr && !captures_ && src.on_device() && dst.on_device()) {
    captured_.Update(CopyOn(capture_, src, dst));
  }
  // The host's memory has been read or written by now if it is pageable; what is pinned is freed in
  // the stream's order.
  queue_->Fail(status);
}

void CudaStream::Then(absl::AnyInvocable<void(absl::Status)> on_host) {
  completion_.Add(
      std::make_shared<CudaEvent>(queue_->context(), queue_->stream(), queue_->status()),
      std::move(on_host));
}

BufferBlock* CudaStream::TakePinned(size_t bytes) {
  auto block = std::make_unique<CudaBlock>();
  block->bytes = bytes;
  block->capacity = CudaQueue::TakenBytes(bytes);
  block->data = queue_->TakePinned(block->capacity);
  if (block->data == nullptr) return nullptr;
  block->allocator = &PinnedMemory::Instance();
  block->home = queue_;
  return block.release();
}

absl::StatusOr<std::shared_ptr<FailureWord>> CudaStream::NewFailureWord() {
  return queue_->context()->TakeFailureWord();
}

void CudaStream::CopyUnlessFailed(FailureWord& word, const Buffer& src, Buffer& dst) {
  if (!queue_->status().ok()) return;
  // One dimension, and the kernel of the unit that divides it.
  absl::StatusOr<UnitCopy> copy =
      UnitCopyOf({.dims = {{static_cast<int64_t>(src.bytes()), 1, 1}}}, 1);
  absl::Status status = copy.status();
  if (src.bytes() != dst.bytes()) {
    status =
        InvalidArgument("CopyUnlessFailed: sizes differ: src=", src.bytes(), " dst=", dst.bytes());
  }
  if (status.ok()) status = queue_->context()->Use();
  if (status.ok()) {
    // Any step that has failed is one before this.
    status = EnqueueUnitCopy(*copy, src.data(), dst.data(), {word.of_kernels(), 0}, current());
  }
  queue_->Fail(status);
}

namespace {

class CudaGraph final : public CapturedWork {
 public:
  // `bytes`: of the host, that it copies.
  CudaGraph(cudaGraphExec_t graph, std::vector<std::unique_ptr<char[]>> bytes)
      : graph_(graph), bytes_(std::move(bytes)) {}
  // What goes wrong is a lost device, of which whoever uses it next is told.
  ~CudaGraph() override { static_cast<void>(cudaGraphExecDestroy(graph_)); }
  cudaGraphExec_t graph() const { return graph_; }

 private:
  const cudaGraphExec_t graph_;
  const std::vector<std::unique_ptr<char[]>> bytes_;
};

}  // namespace

CudaStream::~CudaStream() {
  if (capture_ != nullptr) static_cast<void>(EndCapture());
}

// Not on the queue's own stream, where the work runs meanwhile. Relaxed, so that what kernels do
// beside launching, such as loading code, is no concern of the capture's.
bool CudaStream::BeginCapture() {
  if (!queue_->context()->Use().ok() ||
      cudaStreamCreateWithFlags(&capture_, cudaStreamNonBlocking) != cudaSuccess) {
    return false;
  }
  captured_ = absl::OkStatus();
  captured_bytes_.clear();
  if (cudaStreamBeginCapture(capture_, cudaStreamCaptureModeRelaxed) == cudaSuccess) return true;
  static_cast<void>(cudaStreamDestroy(std::exchange(capture_, nullptr)));
  return false;
}

absl::StatusOr<std::unique_ptr<CapturedWork>> CudaStream::EndCapture() {
  if (capture_ == nullptr) return InvalidArgument("EndCapture: nothing is captured");
  const cudaStream_t stream = std::exchange(capture_, nullptr);
  cudaGraph_t graph = nullptr;
  const absl::Cleanup destroy = [&] {
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaStreamDestroy(stream));
  };
  captured_.Update(CudaStatus(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"));
  FORMWORK_RETURN_IF_ERROR(captured_);
  cudaGraphExec_t made = nullptr;
  FORMWORK_CUDA_RETURN_IF_ERROR(cudaGraphInstantiate(&made, graph, 0));
  return std::make_unique<CudaGraph>(made, std::move(captured_bytes_));
}

absl::Status CudaStream::CopyFromHost(const void* from, void* to, size_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  if (captures_) {
    captured_bytes_.push_back(std::make_unique<char[]>(bytes));
    std::memcpy(captured_bytes_.back().get(), from, bytes);
    from = captured_bytes_.back().get();
  }
  // What is not pinned has been read when this returns.
  FORMWORK_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, current()));
  return absl::OkStatus();
}

void CudaStream::Replay(CapturedWork& work) {
  if (!queue_->status().ok()) return;
  absl::Status status = queue_->context()->Use();
  if (status.ok()) {
    status = CudaStatus(cudaGraphLaunch(static_cast<CudaGraph&>(work).graph(), queue_->stream()),
                        "cudaGraphLaunch");
  }
  queue_->Fail(status);
}

cudaStream_t CudaStreamOf(const Stream& stream) {
  return static_cast<const CudaStream&>(stream.inner()).current();
}

absl::Status CopyFromHost(const Stream& stream, const void* from, void* to, size_t bytes) {
  return static_cast<const CudaStream&>(stream.inner()).CopyFromHost(from, to, bytes);
}

}  // namespace formwork
