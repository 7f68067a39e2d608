#include "core/base/thread_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace formwork {
namespace {

constexpr int kLeastStandingBy = 8;

}  // namespace

ThreadPool::ThreadPool(int threads) : most_busy_(threads) {
  const int all = threads + std::max(threads, kLeastStandingBy);
  threads_.reserve(all);
  {
    absl::MutexLock lock(&mutex_);
    sleepers_.reserve(all);  // To go to sleep takes no memory.
  }
  try {
    for (int i = 0; i < all; ++i) threads_.emplace_back([this] { Loop(); });
  } catch (const std::system_error&) {  // No more threads.
    absl::MutexLock lock(&mutex_);
    most_busy_ = std::min(most_busy_, this->threads());
  }
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    for (Sleeper* sleeper : sleepers_) {
      sleeper->woken = true;
      sleeper->wakes.Signal();
    }
    sleepers_.clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

uint64_t ThreadPool::Schedule(absl::string_view key, absl::AnyInvocable<void()>&& work) {
  absl::MutexLock lock(&mutex_);
  const uint64_t place = queue_.Add(key, std::move(work));
  NoteWaiting();
  WakeOne();
  return place;
}

void ThreadPool::Remove(absl::string_view key, uint64_t place) {
  absl::AnyInvocable<void()> removed;  // Destroyed outside the lock.
  absl::MutexLock lock(&mutex_);
  removed = queue_.Remove(key, place);
  NoteWaiting();
}

void ThreadPool::NoteWaiting() {
  const bool waits = AllBusy() && queue_.HasNext(/*idle_keys=*/false);
  if (work_waits_.load(std::memory_order_relaxed) != waits) {
    work_waits_.store(waits, std::memory_order_relaxed);
  }
}

void ThreadPool::Sleep() {
  Sleeper self;
  sleepers_.push_back(&self);
  while (!self.woken) self.wakes.Wait(&mutex_);
}

void ThreadPool::WakeOne() {
  if (sleepers_.empty() || !HasWork()) return;
  Sleeper* const last = sleepers_.back();
  sleepers_.pop_back();
  last->woken = true;
  last->wakes.Signal();
}

void ThreadPool::Loop() {
  for (;;) {
    FairQueue::Next next;
    {
      absl::MutexLock lock(&mutex_);
      while (!closing_ && !HasWork()) Sleep();
      // While closing, who finds nothing that it may run leaves the rest to those that run.
      if (!HasWork()) return;
      next = queue_.Take();
      ++busy_;
      NoteWaiting();
      WakeOne();
    }
    next.work();
    next.work = nullptr;
    absl::MutexLock lock(&mutex_);
    --busy_;
    queue_.Done(next.key);
    NoteWaiting();
  }
}

}  // namespace formwork
