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
  /// Of a device that reaches host memory slowly: the word in its own memory, at which its kernels
  /// look. There it is the host's word, which the one that fails writes as well. Null: there is
  /// one.
  FailureWord* twin = nullptr;

  FailureWord* of_kernels() { return twin == nullptr ? this : twin; }
  uint64_t failed_step() { return std::atomic_ref(step).load(std::memory_order_acquire); }
  /// As a kernel does that runs on the host.
  void Fail(uint64_t of_step, uint64_t at) {
    where = at;
    std::atomic_ref(step).store(of_step, std::memory_order_release);
  }
};

}  // namespace formwork
