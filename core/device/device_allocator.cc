#include "core/device/device_allocator.h"

#include "core/base/status.h"

namespace formwork {

absl::StatusOr<BufferBlock*> DeviceAllocator::Allocate(size_t bytes, Stream* stream) {
  MemoryShare* const share = HeapScope::share();
  if (share != nullptr && !share->TryTake(bytes)) {
    budget_.CountRefusal();
    return share->Refusal(bytes);
  }
  absl::Status reserved = budget_.Reserve(bytes);
  if (!reserved.ok()) {
    if (share != nullptr) share->Give(bytes);
    return reserved;
  }
  absl::StatusOr<BufferBlock*> block = memory_.Allocate(bytes, stream);
  if (!block.ok()) {
    budget_.Release(bytes);
    if (share != nullptr) share->Give(bytes);
    return block;
  }
  (*block)->allocator = this;
  return block;
}

void DeviceAllocator::Free(BufferBlock* block) {
  const size_t bytes = block->bytes;
  block->allocator = &memory_;
  memory_.Free(block);
  budget_.Release(bytes);
  if (MemoryShare* const share = HeapScope::share()) share->Give(bytes);
}

}  // namespace formwork
