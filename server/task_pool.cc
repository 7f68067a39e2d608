#include "server/task_pool.h"

#include <utility>

namespace formwork::server {

TaskPool::~TaskPool() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool TaskPool::Add(absl::AnyInvocable<void()>&& task) {
  absl::MutexLock lock(&mutex_);
  if (closed_ || tasks_.size() >= max_queued_) return false;
  tasks_.push_back(std::move(task));
  if (idle_ < tasks_.size() && threads_.size() < max_threads_) {
    threads_.emplace_back([this] { Run(); });
  }
  return true;
}

void TaskPool::Run() {
  while (true) {
    absl::AnyInvocable<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(this, &TaskPool::HasWork));
      --idle_;
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace formwork::server
