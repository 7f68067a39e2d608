#include "core/device/captured_memory.h"

#include "core/base/status.h"

namespace formwork {

std::shared_ptr<CapturedMemory> CapturedMemory::Make(Allocator& memory, CaptureRoom& room,
                                                     size_t most_bytes) {
  return std::shared_ptr<CapturedMemory>(new CapturedMemory(memory, room, most_bytes));
}

CapturedMemory::~CapturedMemory() {
  for (BufferBlock* block : given_back_) {
    block->allocator = &memory_;
    memory_.Free(block);
  }
  room_.bytes -= bytes_;
}

bool CapturedMemory::TakeRoom(size_t bytes) {
  if (bytes > most_bytes_ - bytes_) return false;
  if (room_.bytes.fetch_add(bytes) + bytes > room_.most_bytes) {
    room_.bytes -= bytes;
    return false;
  }
  bytes_ += bytes;
  return true;
}

absl::StatusOr<BufferBlock*> CapturedMemory::Allocate(size_t bytes, Stream* stream) {
  FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, memory_.Allocate(bytes, stream));
  absl::MutexLock lock(&mutex_);
  if (!TakeRoom(bytes)) {
    complete_.store(false, std::memory_order_relaxed);
    return block;
  }
  block->allocator = this;
  if (held_++ == 0) self_ = shared_from_this();
  return block;
}

void CapturedMemory::Free(BufferBlock* block) {
  std::shared_ptr<CapturedMemory> self;  // Goes outside the lock.
  absl::MutexLock lock(&mutex_);
  given_back_.push_back(block);
  if (--held_ == 0) self = std::move(self_);
}

}  // namespace formwork
