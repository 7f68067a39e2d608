#include "core/runtime/deadline_watch.h"

#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace formwork {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(10);

}  // namespace

DeadlineWatch::DeadlineWatch() : thread_([this] { Loop(); }) {}

DeadlineWatch::~DeadlineWatch() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  thread_.join();
}

void DeadlineWatch::Watch(absl::Time deadline, std::weak_ptr<void> owner,
                          absl::AnyInvocable<void()> expire) {
  absl::MutexLock lock(&mutex_);
  watched_.push_back({deadline, std::move(owner), std::move(expire)});
}

void DeadlineWatch::Loop() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closing_ || !watched_.empty();
  };
  while (true) {
    // Owners may end with the last reference, and take the lock again: they outlive it.
    std::vector<std::pair<std::shared_ptr<void>, Watched>> overdue;
    std::vector<std::shared_ptr<void>> alive;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (closing_) return;
      const absl::Time now = absl::Now();
      std::vector<Watched> rest;
      for (Watched& watched : watched_) {
        std::shared_ptr<void> owner = watched.owner.lock();
        if (owner == nullptr) continue;
        if (now < watched.deadline) {
          rest.push_back(std::move(watched));
          alive.push_back(std::move(owner));
        } else {
          overdue.emplace_back(std::move(owner), std::move(watched));
        }
      }
      watched_ = std::move(rest);
    }
    for (auto& [owner, watched] : overdue) watched.expire();
    overdue.clear();
    alive.clear();
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&closing_), kPeriod);
  }
}

}  // namespace formwork
