#pragma once

// Remembers a filter in oneDNN's packed form from call to call, because packing costs as much as a
// small convolution.

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/kernels/onednn_conv.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The packed filter of one node. It holds on to the filter's elements together with their packed
/// copy, so that the elements cannot change or go away behind it; a variable's writer then copies
/// instead of writing in place. It therefore does so only for a filter that came in several calls
/// in a row, and waits twice as long each time that it was wrong (training). Thread-safe.
class PackedFilterMemo {
 public:
  /// The packed form of `filter` for `conv`.
  absl::StatusOr<Tensor> Get(const Tensor& filter, const std::shared_ptr<const OnednnConv>& conv,
                             Allocator& allocator);

 private:
  absl::Mutex mutex_;
  const void* last_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Only compared, never read.
  int64_t calls_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t calls_wanted_ ABSL_GUARDED_BY(mutex_) = 3;
  Tensor filter_ ABSL_GUARDED_BY(mutex_);
  Tensor packed_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const OnednnConv> form_ ABSL_GUARDED_BY(mutex_);
};

/// Packs without remembering.
absl::StatusOr<Tensor> PackFilter(const float* filter, const OnednnConv& conv,
                                  Allocator& allocator);

}  // namespace formwork
