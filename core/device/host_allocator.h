#pragma once

// Host memory with a limit. Large blocks are kept for reuse, because fresh pages cost more than the
// kernels that fill them.

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/device/buffer.h"

namespace formwork {

class HostAllocator final : public Allocator {
 public:
  /// `limit_bytes`: the most that may be in use at once; 0: no limit. `cache_bytes`: the most that
  /// is kept for reuse.
  explicit HostAllocator(size_t limit_bytes = 0, size_t cache_bytes = size_t{512} << 20);
  ~HostAllocator() override;

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes) override;
  void Free(BufferBlock* block) override;

  size_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  size_t limit_bytes() const { return limit_; }

 private:
  static constexpr int kClasses = 64;

  const size_t limit_;
  const size_t cache_limit_;
  std::atomic<size_t> in_use_{0};
  absl::Mutex mutex_;
  size_t cached_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<std::vector<void*>, kClasses> free_ ABSL_GUARDED_BY(mutex_);
};

/// An allocator without limit for values that belong to no engine (constants in tests, decoding in
/// clients). Lives as long as the process.
HostAllocator& ProcessAllocator();

}  // namespace formwork
