#include "gpu/cuda_completion.h"

#include <iterator>
#include <utility>

#include "absl/time/time.h"

namespace formwork {
namespace {

// A lost device calls nobody back: the thread looks at its events this often anyway.
constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

CudaCompletion::CudaCompletion(std::shared_ptr<CudaContext> context)
    : context_(std::move(context)), thread_([this] { Run(); }) {}

CudaCompletion::~CudaCompletion() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void CudaCompletion::Add(cudaStream_t stream, std::shared_ptr<CudaEvent> event,
                         absl::AnyInvocable<void(absl::Status)> on_host) {
  {
    absl::MutexLock lock(&mutex_);
    pending_.push_back({std::move(event), std::move(on_host)});
  }
  const cudaError_t error = cudaLaunchHostFunc(stream, &CudaCompletion::Pulse, this);
  if (error == cudaSuccess) return;
  context_->health().Note(CudaStatus(error, "cudaLaunchHostFunc"));
  Pulse(this);  // Nobody else will.
}

void CudaCompletion::Pulse(void* self) {
  auto* completion = static_cast<CudaCompletion*>(self);
  absl::MutexLock lock(&completion->mutex_);
  completion->pulsed_ = true;
}

void CudaCompletion::Run() {
  context_->health().Note(context_->Use());
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.AwaitWithTimeout(absl::Condition(this, &CudaCompletion::Woken),
                            pending_.empty() ? absl::InfiniteDuration() : kLook);
    pulsed_ = false;
    std::vector<Pending> looked_at = std::exchange(pending_, {});
    mutex_.Unlock();  // CUDA is never called under a lock that its callbacks take.
    // From the last to the first, so that of one stream's events an earlier one is not missed where
    // a later one is seen.
    std::vector<Pending> waiting, happened;
    for (auto it = looked_at.rbegin(); it != looked_at.rend(); ++it) {
      (it->event->Done() ? happened : waiting).push_back(std::move(*it));
    }
    for (auto it = happened.rbegin(); it != happened.rend(); ++it) {
      it->on_host(it->event->Result());
    }
    happened.clear();  // Without the lock: it may drop buffers and events.
    mutex_.Lock();
    pending_.insert(pending_.begin(), std::make_move_iterator(waiting.rbegin()),
                    std::make_move_iterator(waiting.rend()));
    if (!stopping_ || !pending_.empty()) continue;
    // A pulse that is still to come would find the object gone. After this none comes: all have
    // been called, or the device is lost and calls nobody.
    mutex_.Unlock();
    context_->health().Note(CudaStatus(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
    mutex_.Lock();
    return;
  }
}

}  // namespace formwork
