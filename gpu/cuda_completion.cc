#include "gpu/cuda_completion.h"

#include <iterator>
#include <utility>

#include "absl/time/time.h"

namespace formwork {

CudaCompletion::CudaCompletion(std::shared_ptr<CudaContext> context)
    : context_(std::move(context)), thread_([this] { Run(); }) {}

CudaCompletion::~CudaCompletion() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void CudaCompletion::Add(std::shared_ptr<CudaEvent> event,
                         absl::AnyInvocable<void(absl::Status)> on_host) {
  absl::MutexLock lock(&mutex_);
  added_.push_back({std::move(event), std::move(on_host)});
}

void CudaCompletion::Run() {
  context_->health().Note(context_->Use());
  std::vector<Pending> pending;
  EventPause pause;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &CudaCompletion::HasWork),
                              pending.empty() ? absl::InfiniteDuration() : pause.Next());
      if (!added_.empty()) pause = EventPause();
      pending.insert(pending.end(), std::make_move_iterator(added_.begin()),
                     std::make_move_iterator(added_.end()));
      added_.clear();
      if (pending.empty()) return;  // It ends, and all has been called.
    }
    // From the last to the first, so that of one stream's events an earlier one is not missed where
    // a later one is seen.
    std::vector<Pending> waiting, happened;
    for (auto it = pending.rbegin(); it != pending.rend(); ++it) {
      (it->event->Done() ? happened : waiting).push_back(std::move(*it));
    }
    for (auto it = happened.rbegin(); it != happened.rend(); ++it) {
      it->on_host(it->event->Result());
    }
    if (!happened.empty()) pause = EventPause();
    pending.assign(std::make_move_iterator(waiting.rbegin()),
                   std::make_move_iterator(waiting.rend()));
  }
}

}  // namespace formwork
