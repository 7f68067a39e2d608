#pragma once

// What core/heap's operator new and delete count. Each thread counts for itself and adds to the
// process's sum when it has some 16 KiB, so that an allocation costs no shared memory.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace formwork {

class MemoryBudget;
class MemoryShare;

struct ThreadHeap {
  int64_t unsettled = 0;           ///< Taken less given back, not yet in heap_bytes.
  MemoryBudget* budget = nullptr;  ///< HeapScope's.
  MemoryShare* share = nullptr;    ///< HeapScope's.
};
extern constinit thread_local ThreadHeap thread_heap;

/// The most that a thread keeps to itself.
constexpr int64_t kUnsettledBytes = 16 << 10;

/// Bytes of the process that operator new has given out and not had back; 0 where core/heap is not
/// linked. Negative for moments, where a thread gives back what another has not added yet.
extern constinit std::atomic<int64_t> heap_bytes;

/// Adds (or takes off) memory that a library takes by other means, such as oneDNN's.
inline void CountHeap(int64_t bytes) { heap_bytes.fetch_add(bytes, std::memory_order_relaxed); }

/// Adds what the thread has counted to the sum.
void SettleThreadHeap();

}  // namespace formwork
