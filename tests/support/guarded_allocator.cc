#include "tests/support/guarded_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/base/status.h"

namespace formwork::testing {
namespace {

constexpr size_t kGuard = 256;  // Keeps the alignment of 64 and catches a vector's overrun.
constexpr unsigned char kGuardByte = 0xA5;
constexpr unsigned char kPoisonByte = 0xCB;  // As a float: -2.66e7.
constexpr size_t kMostBytes = size_t{4} << 30;

}  // namespace

GuardedAllocator::~GuardedAllocator() {
  // A block that is still held would be used after this: its holder is the test's error.
  if (live_blocks() != 0) std::abort();
}

absl::StatusOr<BufferBlock*> GuardedAllocator::Allocate(size_t bytes, Stream* /*stream*/) {
  if (bytes > kMostBytes) return ResourceExhausted("out of memory: ", bytes, " bytes");
  const size_t total = (bytes + 2 * kGuard + 63) / 64 * 64;
  auto* raw = static_cast<unsigned char*>(std::aligned_alloc(64, total));
  if (raw == nullptr) return ResourceExhausted("out of memory: ", bytes, " bytes");
  std::memset(raw, kGuardByte, kGuard);
  std::memset(raw + kGuard, kPoisonByte, bytes);
  std::memset(raw + kGuard + bytes, kGuardByte, kGuard);
  auto block = std::make_unique<BufferBlock>();
  block->data = raw + kGuard;
  block->bytes = bytes;
  block->capacity = total;
  block->allocator = this;
  absl::MutexLock lock(&mutex_);
  live_.push_back(block.get());
  return block.release();
}

void GuardedAllocator::Free(BufferBlock* block) {
  {
    absl::MutexLock lock(&mutex_);
    overwritten_ = overwritten_ || !Holds(*block);
    live_.erase(std::find(live_.begin(), live_.end(), block));
  }
  auto* raw = static_cast<unsigned char*>(block->data) - kGuard;
  std::memset(raw, kPoisonByte, block->capacity);
  std::free(raw);
  delete block;
}

bool GuardedAllocator::GuardsHold() const {
  absl::MutexLock lock(&mutex_);
  return !overwritten_ &&
         std::all_of(live_.begin(), live_.end(), [](const BufferBlock* b) { return Holds(*b); });
}

bool GuardedAllocator::Holds(const BufferBlock& block) {
  const auto* data = static_cast<const unsigned char*>(block.data);
  for (size_t i = 0; i < kGuard; ++i) {
    if (*(data - 1 - i) != kGuardByte || data[block.bytes + i] != kGuardByte) return false;
  }
  return true;
}

}  // namespace formwork::testing
