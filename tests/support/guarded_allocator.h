#pragma once

// An allocator for tests: every block lies between guard zones, and is poisoned when given out and
// when taken back, so that kernels that write past an end or read what nobody wrote are found.

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/device/buffer.h"

namespace formwork::testing {

/// Thread-safe, as kernels allocate from the threads that help them, too.
class GuardedAllocator final : public Allocator {
 public:
  ~GuardedAllocator() override;

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override;
  void Free(BufferBlock* block) override;

  /// True while no guard zone of any block, living or freed, was found to be overwritten.
  bool GuardsHold() const;
  size_t live_blocks() const {
    absl::MutexLock lock(&mutex_);
    return live_.size();
  }

 private:
  static bool Holds(const BufferBlock& block);

  mutable absl::Mutex mutex_;
  std::vector<BufferBlock*> live_ ABSL_GUARDED_BY(mutex_);
  bool overwritten_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace formwork::testing
