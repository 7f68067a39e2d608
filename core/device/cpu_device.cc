#include "core/device/cpu_device.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"

namespace formwork {
namespace {

class CpuQueue;
using CpuQueues = std::vector<std::shared_ptr<CpuQueue>>;

class CpuEvent final : public Event {
 public:
  bool Done() const override { return done_.load(std::memory_order_acquire); }

  absl::Status Await(absl::Time deadline) override {
    if (!Done()) {
      absl::MutexLock lock(&mutex_);
      if (!mutex_.AwaitWithDeadline(absl::Condition(this, &CpuEvent::Done), deadline)) {
        return absl::DeadlineExceededError("Await: the event has not happened");
      }
    }
    return status_;
  }

  /// Makes it happen; returns the queues that were parked.
  CpuQueues Settle(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    done_.store(true, std::memory_order_release);
    return std::exchange(parked_, {});
  }

  /// False if it has happened already. Else Settle returns `queue`.
  bool Park(std::shared_ptr<CpuQueue> queue) {
    absl::MutexLock lock(&mutex_);
    if (Done()) return false;
    parked_.push_back(std::move(queue));
    return true;
  }

  /// Once done.
  const absl::Status& status() const { return status_; }

 private:
  absl::Mutex mutex_;
  std::atomic<bool> done_{false};
  absl::Status status_;  // Written once, before done_.
  CpuQueues parked_ ABSL_GUARDED_BY(mutex_);
};

// One thing enqueued: exactly one of `work`, `wait`, `record` and `then` is set.
struct Item {
  std::vector<Buffer> held;
  absl::AnyInvocable<absl::Status()> work;
  std::shared_ptr<CpuEvent> wait;
  std::shared_ptr<CpuEvent> record;
  absl::AnyInvocable<void(absl::Status)> then;
};

// What a CpuStream is; it lives on while an event that it waits for knows it.
class CpuQueue : public std::enable_shared_from_this<CpuQueue> {
 public:
  void Enqueue(Item item) {
    {
      absl::MutexLock lock(&mutex_);
      items_.push_back(std::move(item));
      if (busy_) return;
      busy_ = true;
    }
    Drain(shared_from_this());
  }

  /// True if nothing is pending: the caller has the queue, runs one piece of work and calls Finish.
  bool TryBegin(absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (busy_) return false;
    busy_ = true;
    status = status_;
    return true;
  }

  void Finish(absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (status_.ok()) status_ = std::move(status);
      if (items_.empty()) {
        busy_ = false;
        return;
      }
    }
    Drain(shared_from_this());
  }

  /// The status, if nothing is pending.
  bool Idle(absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    status = status_;
    return !busy_;
  }

 private:
  // Runs `first`, which the caller has, and the queues that its events let go, until each is empty
  // or parked. A list and no recursion: chains of waiting streams may be long.
  static void Drain(std::shared_ptr<CpuQueue> first) {
    std::deque<std::shared_ptr<CpuQueue>> ready;
    ready.push_back(std::move(first));
    while (!ready.empty()) {
      const std::shared_ptr<CpuQueue> queue = std::move(ready.front());
      ready.pop_front();
      while (queue->RunOne(ready)) {
      }
    }
  }

  // False once the queue is empty or parked.
  bool RunOne(std::deque<std::shared_ptr<CpuQueue>>& ready) {
    Item item;
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      if (items_.empty()) {
        busy_ = false;
        return false;
      }
      Item& front = items_.front();
      // A parked queue stays busy, its wait in front: whoever settles the event takes it up there.
      if (front.wait != nullptr && front.wait->Park(shared_from_this())) return false;
      item = std::move(front);
      items_.pop_front();
      status = status_;
    }
    if (item.record != nullptr) {
      for (auto& queue : item.record->Settle(status)) ready.push_back(std::move(queue));
    } else if (item.then) {
      item.then(status);
    } else if (status.ok()) {
      status = item.wait != nullptr ? item.wait->status() : item.work();
      absl::MutexLock lock(&mutex_);
      status_ = std::move(status);
    }
    return true;
  }

  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // A thread runs it, or an event has it parked.
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class CpuStream final : public Stream {
 public:
  void Launch(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) override {
    absl::Status status;
    if (queue_->TryBegin(status)) {
      queue_->Finish(status.ok() ? work() : status);
      return;
    }
    Item item;
    item.held.reserve(access.reads.size() + access.writes.size());
    for (const Buffer* buffer : access.reads) item.held.push_back(*buffer);
    for (const Buffer* buffer : access.writes) item.held.push_back(*buffer);
    item.work = std::move(work);
    queue_->Enqueue(std::move(item));
  }

  EventRef Record() override {
    auto event = std::make_shared<CpuEvent>();
    absl::Status status;
    if (queue_->Idle(status)) {
      event->Settle(status);
    } else {
      Item item;
      item.record = event;
      queue_->Enqueue(std::move(item));
    }
    return event;
  }

  void Wait(const EventRef& event) override {
    if (event == nullptr) return;
    Item item;
    item.wait = std::dynamic_pointer_cast<CpuEvent>(event);
    if (item.wait == nullptr) {
      item.work = [] { return InvalidArgument("Wait: the event is of another device"); };
    }
    queue_->Enqueue(std::move(item));
  }

  void Copy(const Buffer& src, Buffer& dst) override {
    Launch({.reads = {&src}, .writes = {&dst}},
           [from = src.data(), to = dst.data(), bytes = src.bytes(), room = dst.bytes()] {
             if (bytes != room) {
               return InvalidArgument("Copy: sizes differ: src=", bytes, " dst=", room);
             }
             if (bytes != 0) std::memmove(to, from, bytes);
             return absl::OkStatus();
           });
  }

  void Then(absl::AnyInvocable<void(absl::Status)> on_host) override {
    Item item;
    item.then = std::move(on_host);
    queue_->Enqueue(std::move(item));
  }

 private:
  const std::shared_ptr<CpuQueue> queue_ = std::make_shared<CpuQueue>();
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(Allocator& allocator) : allocator_(allocator) {}

  absl::string_view name() const override { return "cpu:0"; }
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    return std::make_unique<CpuStream>();
  }
  Allocator& allocator() override { return allocator_; }
  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  Allocator& allocator_;
};

}  // namespace

std::unique_ptr<Device> NewCpuDevice(Allocator& allocator) {
  return std::make_unique<CpuDevice>(allocator);
}

}  // namespace formwork
