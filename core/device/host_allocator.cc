#include "core/device/host_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = size_t{4} << 10;  // Up to here malloc is as quick.
// From here on blocks lie on huge pages, where the system has some to give: they are filled in half
// the time and freed in a tenth, and all capacities are whole numbers of them.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallestHuge = 4 * kHugePage;

// Null where the system gives no more.
void* TakeFromSystem(size_t capacity) {
  if (capacity < kSmallestHuge) return std::aligned_alloc(kAlignment, capacity);
  void* const data = std::aligned_alloc(kHugePage, capacity);
  if (data != nullptr)
    madvise(data, capacity, MADV_HUGEPAGE);  // A wish: without it all is the same.
  return data;
}

// Four classes for each power of two, so that at most a fifth of a block is waste.
struct SizeClass {
  int index;
  size_t capacity;
};
SizeClass ClassOf(size_t bytes) {
  const int exponent = std::bit_width(bytes - 1) - 1;  // 2^exponent < bytes <= 2^(exponent + 1)
  const size_t quarter = size_t{1} << (exponent - 2);
  const size_t steps = (bytes - (size_t{1} << exponent) + quarter - 1) / quarter;  // 1..4
  return {(exponent - 12) * 4 + static_cast<int>(steps) - 1,
          (size_t{1} << exponent) + steps * quarter};
}

}  // namespace

HostAllocator::HostAllocator(MemoryBudget* budget, size_t cache_bytes)
    : budget_(budget), cache_limit_(cache_bytes) {
  if (budget_ != nullptr) budget_->set_reclaim([this] { ReleaseCache(); });
}

HostAllocator::~HostAllocator() {
  if (budget_ != nullptr) budget_->set_reclaim(nullptr);
  ReleaseCache();
}

void* HostAllocator::TakeKept(int size_class, size_t capacity) {
  if (size_class >= kClasses) return nullptr;
  absl::MutexLock lock(&mutex_);
  Kept* const block = kept_[size_class];
  if (block == nullptr) return nullptr;
  kept_[size_class] = block->next;
  cached_ -= capacity;
  return block;
}

void* HostAllocator::TakeFresh(size_t capacity) {
  if (budget_ != nullptr && !budget_->TryReserve(capacity)) return nullptr;
  void* data = TakeFromSystem(capacity);
  if (data == nullptr) {
    ReleaseCache();
    data = TakeFromSystem(capacity);
  }
  if (data == nullptr && budget_ != nullptr) budget_->Release(capacity);
  return data;
}

absl::StatusOr<BufferBlock*> HostAllocator::Allocate(size_t bytes, Stream* /*stream*/) {
  MemoryShare* const share = HeapScope::share();
  size_t capacity = std::max<size_t>(bytes, 1);
  auto refuse = [&]() -> absl::Status {
    if (share != nullptr && !share->Fits(capacity)) {
      if (budget_ != nullptr) budget_->CountRefusal();
      return share->Refusal(bytes);
    }
    if (budget_ != nullptr && !budget_->Fits(bytes)) return budget_->Refusal(bytes);
    return ResourceExhausted("out of memory: the system gives no more: bytes wanted=", bytes);
  };
  if (bytes > (size_t{1} << 46)) return refuse();
  void* data;
  if (bytes <= kSmallest) {
    capacity = (capacity + kAlignment - 1) / kAlignment * kAlignment;
    data = ::operator new (capacity, std::align_val_t{kAlignment}, std::nothrow);
  } else {
    const SizeClass size_class = ClassOf(bytes);
    capacity = size_class.capacity;
    if (share != nullptr && !share->TryTake(capacity)) return refuse();
    data = TakeKept(size_class.index, capacity);
    if (data == nullptr) data = TakeFresh(capacity);
  }
  if (data == nullptr) {
    if (bytes > kSmallest && share != nullptr) share->Give(capacity);
    return refuse();
  }
  auto* block = new (std::nothrow) BufferBlock;
  if (block == nullptr) {
    GiveBack(data, bytes, capacity);
    return refuse();
  }
  in_use_.fetch_add(capacity, std::memory_order_relaxed);
  block->data = data;
  block->bytes = bytes;
  block->capacity = capacity;
  block->allocator = this;
  return block;
}

void HostAllocator::Free(BufferBlock* block) {
  in_use_.fetch_sub(block->capacity, std::memory_order_relaxed);
  GiveBack(block->data, block->bytes, block->capacity);
  delete block;
}

void HostAllocator::GiveBack(void* data, size_t bytes, size_t capacity) {
  if (bytes <= kSmallest) return ::operator delete (data, std::align_val_t{kAlignment});
  if (MemoryShare* const share = HeapScope::share()) share->Give(capacity);
  const int size_class = ClassOf(bytes).index;
  if (size_class < kClasses) {
    absl::MutexLock lock(&mutex_);
    if (cached_ + capacity <= cache_limit_) {
      kept_[size_class] = new (data) Kept{kept_[size_class]};
      cached_ += capacity;
      return;
    }
  }
  std::free(data);
  if (budget_ != nullptr) budget_->Release(capacity);
}

void HostAllocator::ReleaseCache() {
  std::array<Kept*, kClasses> kept = {};
  size_t bytes;
  {
    absl::MutexLock lock(&mutex_);
    std::swap(kept, kept_);
    bytes = std::exchange(cached_, 0);
  }
  for (Kept* block : kept) {
    while (block != nullptr) std::free(std::exchange(block, block->next));
  }
  if (budget_ != nullptr) budget_->Release(bytes);
}

size_t HostAllocator::bytes_cached() const {
  absl::MutexLock lock(&mutex_);
  return cached_;
}

HostAllocator& ProcessAllocator() {
  static auto* const allocator = new HostAllocator();
  return *allocator;
}

}  // namespace formwork
