#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace formwork {

/// How long a call may keep its thread once others wait for one. For one thread at a time.
class TimeSlice {
 public:
  TimeSlice() : TimeSlice(nobody_waits_, absl::InfiniteDuration()) {}  ///< For ever.
  /// From now on. `others_wait` outlives it, and may change on any thread.
  TimeSlice(const std::atomic<bool>& others_wait, absl::Duration length);

  /// To be asked before each step: a load while nobody waits, and then a look at the clock now and
  /// then, as often as steps are long. Not before the first one, so that each slice gets on.
  bool Over() {
    return others_wait_.load(std::memory_order_relaxed) &&
           (over_ || (--until_look_ == 0 && Look()));
  }

 private:
  static constexpr std::atomic<bool> nobody_waits_{false};
  bool Look();

  const std::atomic<bool>& others_wait_;
  const int64_t ends_;  // Nanoseconds; the clock's end: never.
  int64_t last_look_ = 0;
  uint32_t stride_ = 1;
  uint32_t until_look_ = 2;
  bool over_ = false;
};

}  // namespace formwork
