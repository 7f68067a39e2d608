#pragma once

// Host memory within a budget. Large blocks are kept for reuse, because fresh pages cost more than
// the kernels that fill them.

#include <array>
#include <atomic>
#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/memory_budget.h"
#include "core/device/buffer.h"

namespace formwork {

class HostAllocator final : public Allocator {
 public:
  /// `budget`: what large blocks, those kept for reuse among them, are reserved of, and taken off
  /// the thread's MemoryShare, if it has one; it outlives the allocator, whose cache it may
  /// reclaim. Small ones are of the heap. Null: no limit. `cache_bytes`: the most that is kept for
  /// reuse.
  explicit HostAllocator(MemoryBudget* budget = nullptr, size_t cache_bytes = size_t{512} << 20);
  ~HostAllocator() override;

  /// `stream` may be null, or any.
  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

  /// Gives back to the system what is kept for reuse.
  void ReleaseCache();

  /// Of living blocks.
  size_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  size_t bytes_cached() const;

 private:
  static constexpr int kClasses = 76;
  // A block that is kept, at its own beginning: keeping one takes no memory.
  struct Kept {
    Kept* next;
  };

  // Null where there is none.
  void* TakeKept(int size_class, size_t capacity);
  void* TakeFresh(size_t capacity);
  void GiveBack(void* data, size_t bytes, size_t capacity);

  MemoryBudget* const budget_;
  const size_t cache_limit_;
  std::atomic<size_t> in_use_{0};
  mutable absl::Mutex mutex_;
  size_t cached_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<Kept*, kClasses> kept_ ABSL_GUARDED_BY(mutex_) = {};
};

/// An allocator without limit for values that belong to no engine (constants in tests, decoding in
/// clients). Lives as long as the process.
HostAllocator& ProcessAllocator();

}  // namespace formwork
