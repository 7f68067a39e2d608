#pragma once

// Memory of captured work, which finds its values at the same places whenever it is enqueued.

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/memory_budget.h"
#include "core/device/buffer.h"

namespace formwork {

/// Gives no memory twice, and none back before it goes itself, which is once nobody but it holds
/// any: the one to whom Make has given it, or the last block. Thread-safe.
class CapturedMemory final : public Allocator, public std::enable_shared_from_this<CapturedMemory> {
 public:
  /// Of `memory`, a device's, at most so much; beyond that, and where `budget`, of all that is
  /// captured, has no more, blocks are `memory`'s own, and it is not complete. Both outlive it.
  static std::shared_ptr<CapturedMemory> Make(Allocator& memory, MemoryBudget& budget,
                                              size_t most_bytes);
  ~CapturedMemory() override;

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

  /// Whether all that it was asked for is its own.
  bool complete() const { return complete_.load(std::memory_order_relaxed); }

 private:
  CapturedMemory(Allocator& memory, MemoryBudget& budget, size_t most_bytes)
      : memory_(memory), budget_(budget), most_bytes_(most_bytes) {}

  Allocator& memory_;
  MemoryBudget& budget_;
  const size_t most_bytes_;
  std::atomic<bool> complete_{true};
  absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<BufferBlock*> blocks_ ABSL_GUARDED_BY(mutex_);      // Of its own.
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;                       // Of those, by somebody.
  std::shared_ptr<CapturedMemory> self_ ABSL_GUARDED_BY(mutex_);  // While there are such.
};

}  // namespace formwork
