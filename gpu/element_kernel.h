#pragma once

// Elementwise ops on a GPU. Private to gpu/.

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/enqueued_work.h"
#include "core/tensor/tensor.h"
#include "gpu/element_source.h"

namespace formwork {

/// One op at one dtype. Each form is compiled when a call first needs it; the plainest by Prepare.
/// Thread-safe.
class ElementKernel {
 public:
  ElementKernel(const ElementOp& op, DType dtype) : op_(op), dtype_(dtype) {}

  /// Compiles the form whose operands all have the result's shape.
  absl::Status Prepare();
  /// Whether elements can make it fail, which is then told by `place`.
  bool may_fail() const { return op_.MayFail(dtype_); }
  /// Enqueues `out` = op of `inputs`, which broadcast to its shape; all are on the GPU. `out` may
  /// be one of them where it has the same shape. Errors: kUnimplemented if more than
  /// ElementStrides::kMostDims dimensions are left of those that differ; CUDA's.
  absl::Status Enqueue(absl::Span<const Tensor* const> inputs, Tensor& out, cudaStream_t stream,
                       FailurePlace place = {});

 private:
  static constexpr unsigned kStridedForm = 8;  // Before it: flat ones, by which are scalars.
  absl::StatusOr<cudaKernel_t> Form(unsigned form);
  absl::StatusOr<ElementStrides> StridesOf(absl::Span<const Tensor* const> inputs,
                                           const Shape& out) const;

  const ElementOp& op_;
  const DType dtype_;
  std::array<std::atomic<cudaKernel_t>, kStridedForm + 1> forms_{};
};

}  // namespace formwork
