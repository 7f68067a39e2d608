#pragma once

// A device's memory within a budget.

#include "core/base/memory_budget.h"
#include "core/device/buffer.h"

namespace formwork {

/// What `memory` gives, reserved of `budget` and taken off the thread's MemoryShare, if it has one,
/// before it is asked. It is given back when the free is enqueued, as the host sees the order of
/// streams: what is allocated on the same stream from then on may be the same memory.
class DeviceAllocator final : public Allocator {
 public:
  /// Both outlive it.
  DeviceAllocator(Allocator& memory, MemoryBudget& budget) : memory_(memory), budget_(budget) {}

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

 private:
  Allocator& memory_;
  MemoryBudget& budget_;
};

}  // namespace formwork
