#include "core/runtime/deadline_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/memory_budget.h"

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

void DeadlineWatch::TakeOverdue(absl::Time now, std::vector<Overdue>& overdue,
                                std::vector<std::shared_ptr<void>>& alive) {
  const auto gone = [&](Watched& watched) {
    std::shared_ptr<void> owner = watched.owner.lock();
    if (owner == nullptr) return true;
    if (now < watched.deadline) {
      alive.push_back(std::move(owner));
      return false;
    }
    overdue.emplace_back(std::move(owner), std::move(watched));
    return true;
  };
  watched_.erase(std::remove_if(watched_.begin(), watched_.end(), gone), watched_.end());
}

void DeadlineWatch::Loop() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closing_ || !watched_.empty();
  };
  while (true) {
    // Owners may end with the last reference, and take the lock again: they outlive it.
    std::vector<Overdue> overdue;
    std::vector<std::shared_ptr<void>> alive;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (closing_) return;
      const absl::Status room = CatchOutOfMemory([&] {
        mutex_.AssertHeld();
        overdue.reserve(watched_.size());
        alive.reserve(watched_.size());
        return absl::OkStatus();
      });
      if (room.ok()) TakeOverdue(absl::Now(), overdue, alive);  // Else the next time.
    }
    for (auto& [owner, watched] : overdue) watched.expire();
    overdue.clear();
    alive.clear();
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&closing_), kPeriod);
  }
}

}  // namespace formwork
