#include "core/device/captured_memory.h"

#include <utility>

#include "core/base/status.h"

namespace formwork {

std::shared_ptr<CapturedMemory> CapturedMemory::Make(Allocator& memory, MemoryBudget& budget,
                                                     size_t most_bytes) {
  return std::shared_ptr<CapturedMemory>(new CapturedMemory(memory, budget, most_bytes));
}

CapturedMemory::~CapturedMemory() {
  for (BufferBlock* block : blocks_) {
    block->allocator = &memory_;
    memory_.Free(block);
  }
  budget_.Release(bytes_);
}

absl::StatusOr<BufferBlock*> CapturedMemory::Allocate(size_t bytes, Stream* stream) {
  FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, memory_.Allocate(bytes, stream));
  const HeapScope unlimited(nullptr);  // It has been taken.
  absl::MutexLock lock(&mutex_);
  if (bytes > most_bytes_ - bytes_ || !budget_.TryReserve(bytes)) {
    complete_.store(false, std::memory_order_relaxed);
    return block;
  }
  bytes_ += bytes;
  blocks_.push_back(block);
  block->allocator = this;
  if (held_++ == 0) self_ = shared_from_this();
  return block;
}

// Needs no memory, and gives none: to whoever is enqueued again it is there.
void CapturedMemory::Free(BufferBlock* /*block*/) {
  std::shared_ptr<CapturedMemory> self;  // Goes outside the lock.
  absl::MutexLock lock(&mutex_);
  if (--held_ == 0) self = std::move(self_);
}

}  // namespace formwork
