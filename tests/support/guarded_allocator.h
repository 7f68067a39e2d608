#pragma once

// An allocator for tests: every block lies between guard zones, and is poisoned when given out and
// when taken back, so that kernels that write past an end or read what nobody wrote are found.

#include <cstddef>
#include <vector>

#include "core/device/buffer.h"

namespace formwork::testing {

/// Not thread-safe: kernels allocate from the thread that runs them.
class GuardedAllocator final : public Allocator {
 public:
  ~GuardedAllocator() override;

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes) override;
  void Free(BufferBlock* block) override;

  /// True while no guard zone of any block, living or freed, was found to be overwritten.
  bool GuardsHold() const;
  size_t live_blocks() const { return live_.size(); }

 private:
  static bool Holds(const BufferBlock& block);

  std::vector<BufferBlock*> live_;
  bool overwritten_ = false;
};

}  // namespace formwork::testing
