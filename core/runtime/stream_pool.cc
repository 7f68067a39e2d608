#include "core/runtime/stream_pool.h"

#include <utility>

namespace formwork {
namespace {

constexpr size_t kMostIdle = 64;

}  // namespace

StreamPool::StreamPool(Device& device) : device_(device) {
  absl::MutexLock lock(&mutex_);
  idle_.reserve(kMostIdle);  // To give one back takes no memory.
}

absl::StatusOr<std::unique_ptr<Stream>> StreamPool::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Stream> stream = std::move(idle_.back());
      idle_.pop_back();
      return stream;
    }
  }
  return device_.NewStream();
}

void StreamPool::Return(std::unique_ptr<Stream> stream) {
  absl::MutexLock lock(&mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(stream));
}

}  // namespace formwork
