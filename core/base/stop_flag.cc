#include "core/base/stop_flag.h"

#include "absl/time/clock.h"

namespace formwork {
namespace {

// After an effect a step may take so much longer before it is cut.
constexpr int64_t kLongStepNanos = 50'000'000;

}  // namespace

absl::Time StopFlag::deadline() const {
  return has_deadline() ? absl::FromUnixNanos(deadline_nanos_) : absl::InfiniteFuture();
}

bool StopFlag::Poll() {
  if (requested()) return true;
  if (!has_deadline()) return false;
  if (absl::GetCurrentTimeNanos() < deadline_nanos_) return false;
  Expire();
  return true;
}

bool StopFlag::StopsWithin(absl::Duration duration) const {
  return requested() || (has_deadline() && absl::Now() + duration >= deadline());
}

absl::Status StopFlag::status() const {
  // Made once, because a copy takes no memory: what ends a request must not fail.
  static const auto& cancelled = *new absl::Status(absl::CancelledError("the call was cancelled"));
  static const auto& late =
      *new absl::Status(absl::DeadlineExceededError("the call's deadline has passed"));
  static const auto& aborted =
      *new absl::Status(absl::AbortedError("the call was cut off: the server is shutting down"));
  switch (request_.load(std::memory_order_relaxed)) {
    case kCancelled:
      return cancelled;
    case kLate:
      return late;
    case kAborted:
      return aborted;
    default:
      return absl::OkStatus();
  }
}

absl::Status StopFlag::BeforeStep() {
  if (!after_effect_) return status();
  in_the_way_since_.store(absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
  return absl::OkStatus();
}

bool StopFlag::CutsWork() {
  if (cut()) return true;
  if (!Poll() || uncut_ > 0) return false;
  if (after_effect_) {
    const int64_t now = absl::GetCurrentTimeNanos();
    int64_t since = 0;
    if (in_the_way_since_.compare_exchange_strong(since, now, std::memory_order_relaxed)) {
      return false;
    }
    if (now - since < kLongStepNanos) return false;
  }
  cut_.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace formwork
