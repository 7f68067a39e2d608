// operator new and delete that count (core/base/heap_count.h) and refuse what a HeapScope's budget
// has no room for. A program has them by linking formwork_heap; a library must not bring them
// along.

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "core/base/heap_count.h"
#include "core/base/memory_budget.h"

namespace {

using formwork::heap_bytes;
using formwork::kUnsettledBytes;
using formwork::MemoryBudget;
using formwork::MemoryShare;
using formwork::thread_heap;

// Address space that is given back where the system gives no more outside of every HeapScope: what
// hands places on and answers must not fail. It is taken again as soon as there is some.
constexpr size_t kReserveBytes = size_t{8} << 20;
std::atomic<void*> reserve{nullptr};

void TakeReserve() {
  void* const taken =
      mmap(nullptr, kReserveBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) return;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, taken)) munmap(taken, kReserveBytes);
}

[[maybe_unused]] const bool taken_at_start = (TakeReserve(), true);

// Adds `bytes`, about to be taken, and what the thread has counted to the process's sum and the
// scope's share. False, and `bytes` not added, where one of them has no room.
[[gnu::noinline]] bool Admit(size_t bytes) {
  formwork::SettleThreadHeap();
  if (reserve.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
    TakeReserve();
  MemoryBudget* const budget = thread_heap.budget;
  MemoryShare* const share = thread_heap.share;
  if (share != nullptr && !share->TryTake(bytes)) return false;
  // Refused before it is counted, so that a request far too large disturbs nobody else's.
  if (budget != nullptr && !budget->Fits(bytes)) {
    budget->Reclaim();
    if (!budget->Fits(bytes)) {
      if (share != nullptr) share->Give(bytes);
      return false;
    }
  }
  thread_heap.unsettled -= static_cast<int64_t>(bytes);
  formwork::CountHeap(static_cast<int64_t>(bytes));
  if (budget == nullptr || budget->Fits(0)) return true;
  thread_heap.unsettled += static_cast<int64_t>(bytes);
  formwork::CountHeap(-static_cast<int64_t>(bytes));
  if (share != nullptr) share->Give(bytes);
  return false;
}

[[gnu::noinline]] void* TakeAgain(size_t bytes, size_t alignment) {
  if (MemoryBudget* const budget = thread_heap.budget) {
    budget->Reclaim();
  } else if (void* const held = reserve.exchange(nullptr)) {
    munmap(held, kReserveBytes);
  }
  return alignment == 0 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
}

// Null where there is no memory; then `refused` tells whether it was the budget that said so.
inline void* Take(size_t bytes, size_t alignment, bool* refused) {
  *refused = false;
  if (alignment != 0) bytes = (bytes + alignment - 1) / alignment * alignment;
  bytes = std::max<size_t>(bytes, 1);
  if (bytes > PTRDIFF_MAX) return nullptr;
  if (thread_heap.unsettled + static_cast<int64_t>(bytes) > kUnsettledBytes && !Admit(bytes))
      [[unlikely]] {
    *refused = true;
    return nullptr;
  }
  void* data = alignment == 0 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
  if (data == nullptr) [[unlikely]] {
    data = TakeAgain(bytes, alignment);
  }
  // Where Admit has added `bytes`, it has taken them off here.
  if (data != nullptr) thread_heap.unsettled += static_cast<int64_t>(malloc_usable_size(data));
  return data;
}

inline void* TakeOrThrow(size_t bytes, size_t alignment) {
  bool refused;
  void* data = Take(bytes, alignment, &refused);
  if (data != nullptr) [[likely]]
    return data;
  if (refused) {
    MemoryBudget& budget = *thread_heap.budget;
    budget.CountRefusal();
    const MemoryShare* const share = thread_heap.share;
    if (share != nullptr && !share->Fits(bytes)) {
      throw formwork::MemoryRefused(bytes, share->used(), share->most(), /*of_share=*/true);
    }
    throw formwork::MemoryRefused(bytes, budget.used(), budget.limit(), /*of_share=*/false);
  }
  throw std::bad_alloc();
}

inline void* TakeOrNull(size_t bytes, size_t alignment) noexcept {
  bool refused;
  return Take(bytes, alignment, &refused);
}

inline void Give(void* data) noexcept {
  if (data == nullptr) return;
  thread_heap.unsettled -= static_cast<int64_t>(malloc_usable_size(data));
  std::free(data);
  if (thread_heap.unsettled < -kUnsettledBytes) formwork::SettleThreadHeap();
}

size_t Of(std::align_val_t alignment) {
  // As aligned_alloc and posix_memalign want it.
  return std::max(static_cast<size_t>(alignment), sizeof(void*));
}

}  // namespace

void* operator new(size_t bytes) { return TakeOrThrow(bytes, 0); }
void* operator new[](size_t bytes) { return TakeOrThrow(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t a) { return TakeOrThrow(bytes, Of(a)); }
void* operator new[](size_t bytes, std::align_val_t a) { return TakeOrThrow(bytes, Of(a)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return TakeOrNull(bytes, 0); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return TakeOrNull(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return TakeOrNull(bytes, Of(a));
}
void* operator new[](size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return TakeOrNull(bytes, Of(a));
}

void operator delete(void* data) noexcept { Give(data); }
void operator delete[](void* data) noexcept { Give(data); }
void operator delete(void* data, size_t) noexcept { Give(data); }
void operator delete[](void* data, size_t) noexcept { Give(data); }
void operator delete(void* data, std::align_val_t) noexcept { Give(data); }
void operator delete[](void* data, std::align_val_t) noexcept { Give(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { Give(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept { Give(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { Give(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { Give(data); }
void operator delete(void* data, std::align_val_t, const std::nothrow_t&) noexcept { Give(data); }
void operator delete[](void* data, std::align_val_t, const std::nothrow_t&) noexcept { Give(data); }
