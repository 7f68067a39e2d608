#pragma once

// Elementwise programs on a GPU. Private to gpu/.

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/enqueued_work.h"
#include "core/tensor/tensor.h"
#include "gpu/cuda_kernel.h"
#include "gpu/element_source.h"

namespace formwork {

/// Thread-safe once it is prepared.
class ElementKernel {
 public:
  explicit ElementKernel(ElementProgram program) : program_(std::move(program)) {}

  /// Compiles it. Once, before it is enqueued.
  absl::Status Prepare();
  /// Whether elements can make it fail, which is then told by `place`.
  bool may_fail() const { return program_.MayFail(); }
  /// Enqueues that `outputs` are made of `inputs`, which broadcast to their shapes; all are on the
  /// GPU. An output may be an input of the same shape, if all outputs have that. `befores`: what
  /// outputs are to be where an earlier step has failed by `place.word`, of those that keep a
  /// value; without value: what they are already. Errors: ElementLaunch's; CUDA's.
  absl::Status Enqueue(absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs,
                       absl::Span<const Tensor> befores, FailurePlace place,
                       cudaStream_t stream) const;
  /// The same of one output, which keeps nothing.
  absl::Status Enqueue(absl::Span<const Tensor* const> inputs, Tensor& output, cudaStream_t stream,
                       FailurePlace place = {}) const {
    return Enqueue(inputs, absl::MakeSpan(&output, 1), {}, place, stream);
  }

 private:
  const ElementProgram program_;
  std::shared_ptr<const CudaLibrary> library_;
  cudaKernel_t wide_ = nullptr, one_ = nullptr;
};

/// Of a group that ends in a reduction (element_reductions.h). Errors: the compiler's.
absl::StatusOr<KernelFn> MakeElementReduction(const ElementGroup& group);

}  // namespace formwork
