#pragma once

// Kernels that do one item after the other (item_functions.h), and their launch. Private to gpu/.

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernels/enqueued_work.h"
#include "core/tensor/tensor.h"
#include "gpu/item_source.h"
#include "gpu/moves.h"

namespace formwork {

/// Where input i of a step is, and an output, for items of any element type: they are pointers and
/// numbers alone.
inline const char* InputBytes(KernelContext& ctx, int i) {
  return static_cast<const char*>(ctx.input(i).raw());
}
inline char* OutputBytes(Tensor& out) { return static_cast<char*>(out.mutable_raw()); }

/// One kind of item. Compiled by Prepare, or when it is first used. Thread-safe.
class ItemKernel {
 public:
  /// As ItemSource's; `more` is not copied.
  explicit ItemKernel(absl::string_view item, absl::string_view more = "")
      : text_(item), more_(more) {}
  struct OfText {};
  ItemKernel(std::string text, OfText) : text_(std::move(text)), is_whole_(true) {}

  absl::Status Prepare() { return Kernel().status(); }
  /// `item` is of the type that was named. Errors: the compiler's; CUDA's.
  template <typename Item>
  absl::Status Enqueue(const Item& item, uint64_t n, FailurePlace place, cudaStream_t stream) {
    return EnqueueItem(&item, n, place, stream);
  }

 private:
  absl::StatusOr<cudaKernel_t> Kernel();
  absl::Status EnqueueItem(const void* item, uint64_t n, FailurePlace place, cudaStream_t stream);

  const std::string text_;  // The item's, unless it is the kernel's.
  const absl::string_view more_;
  const bool is_whole_ = false;
  std::atomic<cudaKernel_t> kernel_ = nullptr;
};

/// One kind of item for each unit of elements that are moved together.
class UnitKernels {
 public:
  /// Such as "GatherItem<" and ", int64_t>"; `more`: as ItemSource's.
  UnitKernels(absl::string_view before, absl::string_view after, absl::string_view more = "");
  /// `bytes`: 1, 2, 4, 8 or 16.
  ItemKernel& Of(size_t bytes);

 private:
  std::array<ItemKernel, 5> kernels_;
};

/// Enqueues that `out` becomes zeros.
absl::Status EnqueueZeros(Tensor& out, cudaStream_t stream);

/// Enqueues a copy of memory of the GPU. `place`: as an ItemKernel's.
absl::Status EnqueueUnitCopy(const UnitCopy& copy, const void* from, void* to, FailurePlace place,
                             cudaStream_t stream);

}  // namespace formwork
