#include "core/device/host_allocator.h"

#include <bit>
#include <cstdlib>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = size_t{64} << 10;  // Below it malloc is as quick.

// Four classes for each power of two, so that at most a fifth of a block is waste.
struct SizeClass {
  int index;
  size_t capacity;
};
SizeClass ClassOf(size_t bytes) {
  const int exponent = std::bit_width(bytes - 1) - 1;  // 2^exponent < bytes <= 2^(exponent + 1)
  const size_t quarter = size_t{1} << (exponent - 2);
  const size_t steps = (bytes - (size_t{1} << exponent) + quarter - 1) / quarter;  // 1..4
  return {(exponent - 15) * 4 + static_cast<int>(steps) - 1,
          (size_t{1} << exponent) + steps * quarter};
}

}  // namespace

HostAllocator::HostAllocator(size_t limit_bytes, size_t cache_bytes)
    : limit_(limit_bytes), cache_limit_(cache_bytes) {}

HostAllocator::~HostAllocator() {
  absl::MutexLock lock(&mutex_);
  for (auto& list : free_) {
    for (void* data : list) std::free(data);
  }
}

absl::StatusOr<BufferBlock*> HostAllocator::Allocate(size_t bytes) {
  if (bytes > (size_t{1} << 46)) return ResourceExhausted("out of memory: bytes asked for=", bytes);
  SizeClass size_class{-1, (bytes + kAlignment - 1) / kAlignment * kAlignment};
  if (size_class.capacity == 0) size_class.capacity = kAlignment;
  if (bytes > kSmallest) size_class = ClassOf(bytes);
  const size_t before = in_use_.fetch_add(size_class.capacity, std::memory_order_relaxed);
  if (limit_ != 0 && before + size_class.capacity > limit_) {
    in_use_.fetch_sub(size_class.capacity, std::memory_order_relaxed);
    return ResourceExhausted("out of memory: the server's limit is reached: bytes asked for=",
                             bytes, " in use=", before, " limit=", limit_);
  }
  void* data = nullptr;
  if (size_class.index >= 0 && size_class.index < kClasses) {
    absl::MutexLock lock(&mutex_);
    auto& list = free_[size_class.index];
    if (!list.empty()) {
      data = list.back();
      list.pop_back();
      cached_ -= size_class.capacity;
    }
  }
  if (data == nullptr) data = std::aligned_alloc(kAlignment, size_class.capacity);
  if (data == nullptr) {
    in_use_.fetch_sub(size_class.capacity, std::memory_order_relaxed);
    return ResourceExhausted("out of memory: bytes asked for=", bytes);
  }
  auto* block = new BufferBlock;
  block->data = data;
  block->bytes = bytes;
  block->capacity = size_class.capacity;
  block->allocator = this;
  return block;
}

void HostAllocator::Free(BufferBlock* block) {
  void* data = block->data;
  const size_t capacity = block->capacity;
  const size_t bytes = block->bytes;
  delete block;
  in_use_.fetch_sub(capacity, std::memory_order_relaxed);
  if (bytes > kSmallest) {
    const SizeClass size_class = ClassOf(bytes);
    absl::MutexLock lock(&mutex_);
    if (size_class.index < kClasses && cached_ + capacity <= cache_limit_) {
      free_[size_class.index].push_back(data);
      cached_ += capacity;
      return;
    }
  }
  std::free(data);
}

HostAllocator& ProcessAllocator() {
  static auto* const allocator = new HostAllocator();
  return *allocator;
}

}  // namespace formwork
