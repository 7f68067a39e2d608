#include "core/runtime/device_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/reason.h"

namespace formwork {

DeviceWatch::DeviceWatch(Device& device, absl::Duration stall,
                         absl::AnyInvocable<absl::Time() const> waits_since)
    : device_(device), stall_(stall), waits_since_(std::move(waits_since)) {}

void DeviceWatch::Start() {
  threads_.emplace_back([this] { Look(); });
  if (stall_ > absl::ZeroDuration()) threads_.emplace_back([this] { WatchForStalls(); });
}

DeviceWatch::~DeviceWatch() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void DeviceWatch::OnceLost(Told told) {
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) {
      told_.push_back(std::move(told));
      return;
    }
    lost = status_;
  }
  told(lost);
}

absl::Status DeviceWatch::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

bool DeviceWatch::Pause() {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&ends_), kInterval);
}

void DeviceWatch::Look() {
  do {
    {
      absl::MutexLock lock(&mutex_);
      looks_since_ = absl::Now();
    }
    const absl::Status health = device_.Health();
    {
      absl::MutexLock lock(&mutex_);
      looks_since_ = absl::InfiniteFuture();
    }
    if (!health.ok()) return Lose(health);
  } while (Pause());
}

void DeviceWatch::WatchForStalls() {
  while (Pause()) {
    const absl::Time now = absl::Now();
    absl::Time looks_since;
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return;
      looks_since = looks_since_;
    }
    if (now - looks_since >= stall_) {
      return Lose(absl::UnavailableError(
          absl::StrCat("it has not answered for ", absl::FormatDuration(stall_))));
    }
    if (now - waits_since_() >= stall_) {
      return Lose(absl::UnavailableError(
          absl::StrCat("nothing has gone on there for ", absl::FormatDuration(stall_))));
    }
  }
}

void DeviceWatch::Lose(const absl::Status& status) {
  std::vector<Told> told;
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    status_ = WithReason(absl::UnavailableError(absl::StrCat("device ", device_.name(),
                                                             " is lost: ", status.message())),
                         Reason::kDeviceLost);
    lost = status_;
    told.swap(told_);
  }
  for (Told& one : told) one(lost);
}

}  // namespace formwork
