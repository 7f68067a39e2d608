#pragma once

// The convolutions of checked sizes, for every element type: float by oneDNN (half and bfloat16
// through it), the others by matrix products. Large work is split over the compute threads.

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/ops/conv.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The first error of tasks that run side by side. Thread-safe.
class FirstError {
 public:
  void Note(const absl::Status& status) {
    if (status.ok()) return;
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status Take() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// The tensors have the shapes that `shape` says and one dtype: float, half, bfloat16, double or
// int32. The last argument is allocated and overwritten. Errors: kResourceExhausted if there is no
// memory for scratch.

/// `memo` belongs to the node, and `keep` is what its Settled said. An epilogue is of floats with
/// channels last; its residual may have the memory of `output`.
absl::Status RunConvForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                            const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                            Allocator& allocator, Tensor* output);
absl::Status RunConvInputGradient(const ConvShape& shape, const Tensor& filter,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* in_backprop);
absl::Status RunConvFilterGradient(const ConvShape& shape, const Tensor& input,
                                   const Tensor& out_backprop, Allocator& allocator,
                                   Tensor* filter_backprop);

/// [batch, a, b] to [batch, b, a] of plain elements of `element_bytes` (1, 2, 4 or 8).
void SwapInnerAxes(int64_t batch, int64_t a, int64_t b, size_t element_bytes, const void* from,
                   void* to);

/// A rank-4 tensor between channels first and channels last.
absl::StatusOr<Tensor> ToChannelsLast(const Tensor& image, Allocator& allocator);
void ToChannelsFirst(const Tensor& channels_last, void* to);

}  // namespace formwork
