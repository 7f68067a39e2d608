#pragma once

// How kernels of a device that only enqueues tell the call that they are of what they have met in
// their inputs' elements: an index out of range, a divisor of zero.

#include <atomic>
#include <cstdint>

namespace formwork {

/// One for each call, in memory that the host and the device both reach. The kernels that may fail
/// run one after the other; the first that fails writes the word, and those behind it that would
/// write it, or a variable, look at it and do nothing. The host reads it once they have run.
struct FailureWord {
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  uint64_t step = 0;          ///< The number of the step that has failed; 0: none has.
  uint64_t where = kNowhere;  ///< The smallest of what its threads have said, of its own meaning.

  uint64_t failed_step() { return std::atomic_ref(step).load(std::memory_order_acquire); }
  /// As a kernel does that runs on the host.
  void Fail(uint64_t of_step, uint64_t at) {
    where = at;
    std::atomic_ref(step).store(of_step, std::memory_order_release);
  }
};

}  // namespace formwork
