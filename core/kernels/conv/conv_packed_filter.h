#pragma once

// Remembers a filter in its packed form, oneDNN's or panels of our own (gemm/panel_product.h), from
// call to call, because packing costs as much as a small convolution.

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/kernels/conv/conv_winograd.h"
#include "core/kernels/conv/onednn_conv.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// How a filter is packed: for a problem of oneDNN's; or, where that is null, in panels, as it is
/// or transformed (conv_winograd.h).
struct FilterForm {
  std::shared_ptr<const OnednnConv> conv;
  WinogradTiles winograd = WinogradTiles::kNone;

  bool SameAs(const FilterForm& other) const;
};

/// The packed filter of one node. It holds on to the filter's elements together with their packed
/// copy, so that the elements cannot change or go away behind it; a variable's writer then copies
/// instead of writing in place. It therefore does so only for a filter that came in several calls
/// in a row, and waits twice as long each time that it was wrong (training). Thread-safe.
class PackedFilterMemo {
 public:
  /// `calls_wanted`: how many calls in a row are several, at first.
  explicit PackedFilterMemo(int64_t calls_wanted) : calls_wanted_(calls_wanted) {}

  /// Counts a call with `filter`. True where it has come so often that its packed form is kept.
  /// To be asked once in each call.
  bool Settled(const Tensor& filter);
  /// After a packed form found no memory: as if the filter had changed.
  void Discourage();
  /// `filter`, times `scale`, a vector of its last dimension, where that is not null, in `form`.
  /// `keep`: what Settled said.
  absl::StatusOr<Tensor> Get(const Tensor& filter, const Tensor* scale, bool keep,
                             const FilterForm& form, Allocator& allocator);

 private:
  struct Kept {
    Tensor filter;
    Tensor scale;  // Compared by value: it may be computed in each call. Empty where there is none.
    Tensor packed;
    FilterForm form;
  };
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  const void* last_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Only compared, never read.
  int64_t calls_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t calls_wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

/// `filter` times `scale`, a vector of its last dimension.
absl::StatusOr<Tensor> ScaledFilter(const Tensor& filter, const Tensor& scale,
                                    Allocator& allocator);

/// Packs without remembering. `scale`: as above.
absl::StatusOr<Tensor> PackFilter(const Tensor& filter, const Tensor* scale, const FilterForm& form,
                                  Allocator& allocator);

}  // namespace formwork
