#pragma once

// Which instruction of a plan is the last to need a slot.

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace formwork {

struct Construct;

/// Instructions [begin, end) and the branches and loops in them, in order.
struct Region {
  uint32_t begin = 0, end = 0;
  std::vector<Construct> constructs;
};

/// Instructions [begin, end) of one branch or loop.
struct Construct {
  uint32_t begin = 0, end = 0;
  bool loop = false;
  /// Where instruction `begin` branches: one for each of its targets. Of a loop, where the last
  /// one decides: the body, then the condition, that one included.
  std::vector<Region> regions;
  Plan::Range outputs;         ///< Slots that each branch fills; those of a loop's variables.
  std::vector<uint32_t> kept;  ///< Of a loop: slots from outside that its regions may read.
};

/// Marks where each slot is read last, so that the kernel there may take the value over, and fills
/// in what is dropped, on every path. `whole`: the plan's instructions. `handles`: slots that are
/// needed until the call ends.
void FindLastUses(Plan& plan, const Region& whole, const std::vector<uint32_t>& handles);

}  // namespace formwork
