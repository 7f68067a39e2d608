// What an engine does with its device: values to it and back, and how it is lost.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/engine/task.h"
#include "core/kernels/stream_scope.h"

namespace formwork {

absl::StatusOr<Tensor> EngineImpl::PlaceValue(Tensor value) {
  if (!streams_ || !IsPlainData(value.dtype())) return value;
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, streams_->Take());
  FORMWORK_ASSIGN_OR_RETURN(value, CopyToDevice(value, *device_memory_, *stream, allocator_));
  FORMWORK_RETURN_IF_ERROR(stream->Record()->Await(absl::InfiniteFuture()));
  streams_->Return(std::move(stream));
  return value;
}

absl::StatusOr<Tensor> EngineImpl::HostValue(Tensor value) {
  if (!value.on_device()) return value;
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, streams_->Take());
  FORMWORK_ASSIGN_OR_RETURN(value, CopyToHost(value, *stream, allocator_));
  streams_->Return(std::move(stream));
  return value;
}

void EngineImpl::LoseDevice(const absl::Status& lost) {
  device_lost_.store(true);
  scheduled_.EndAll(lost);
  // Its thread may be copying from the device.
  if (commits_ != nullptr) commits_->Fail(lost);
}

absl::Time EngineImpl::DeviceWaitsSince() {
  return std::max(scheduled_.OldestPark(), absl::FromUnixNanos(last_unpark_nanos_.load()));
}

absl::Time ScheduledTasks::OldestPark() {
  absl::Time oldest = absl::InfiniteFuture();
  absl::MutexLock lock(&mutex_);
  for (const Task* task : tasks_) oldest = std::min(oldest, task->parked_since());
  return oldest;
}

void ScheduledTasks::EndAll(const absl::Status& status) {
  const HeapScope unlimited(nullptr);
  for (const std::shared_ptr<Task>& task : All()) task->EndWithDevice(status);
}

void Task::EndWithDevice(const absl::Status& status) {
  if (parked_since_nanos_.exchange(0) == 0) return EndWait(status);
  // The device may still read and write all that it holds: that never goes.
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const kept = new std::vector<std::shared_ptr<Task>>;
  {
    absl::MutexLock lock(&mutex);
    kept->push_back(shared_from_this());
  }
  GivePlaceBack();
  Forsake(status);
}

}  // namespace formwork
