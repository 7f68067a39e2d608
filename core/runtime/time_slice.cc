#include "core/runtime/time_slice.h"

#include <limits>
#include <utility>

#include "absl/time/clock.h"

namespace formwork {
namespace {

// While others wait for a thread the clock is looked at about so often.
constexpr int64_t kLookNanos = 100'000;
constexpr uint32_t kLongestStride = 256;  // Steps, iterations and calls.

}  // namespace

TimeSlice::TimeSlice(const std::atomic<bool>& others_wait, absl::Duration length)
    : others_wait_(others_wait),
      ends_(length == absl::InfiniteDuration()
                ? std::numeric_limits<int64_t>::max()
                : absl::GetCurrentTimeNanos() + absl::ToInt64Nanoseconds(length)) {}

bool TimeSlice::Look() {
  const int64_t now = absl::GetCurrentTimeNanos();
  const int64_t passed = now - std::exchange(last_look_, now);
  if (passed > kLookNanos) {
    stride_ = 1;
  } else if (stride_ < kLongestStride) {
    stride_ *= 2;
  }
  until_look_ = stride_;
  over_ = now >= ends_;
  return over_;
}

}  // namespace formwork
