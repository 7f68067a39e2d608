#pragma once

// Which of the threads that start calls may be kept by one for longer than others.

#include <atomic>

#include "absl/time/time.h"
#include "core/engine.h"

namespace formwork::server {

/// Shared by all threads that start calls: gRPC's, and ours that decode large requests.
/// Thread-safe.
using InlineTurns = std::atomic<bool>;

/// While it lives, its thread may have the turn: then a call may keep it for up to a millisecond,
/// which saves the hop to another. One has it at a time, and gRPC has two threads at least, so that
/// another looks for requests meanwhile.
class InlineTurn {
 public:
  /// `wanted`: where false, it is left to others.
  InlineTurn(InlineTurns& turns, bool wanted)
      : turns_(turns),
        has_it_(wanted && !turns.load(std::memory_order_relaxed) &&
                !turns.exchange(true, std::memory_order_relaxed)) {}
  ~InlineTurn() {
    if (has_it_) turns_.store(false, std::memory_order_relaxed);
  }
  InlineTurn(const InlineTurn&) = delete;
  InlineTurn& operator=(const InlineTurn&) = delete;

  /// For a call that this thread starts.
  void Apply(CallSpec& spec) const {
    if (has_it_) spec.inline_below = absl::Milliseconds(1);
  }

 private:
  InlineTurns& turns_;
  const bool has_it_;
};

}  // namespace formwork::server
