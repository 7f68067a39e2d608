#pragma once

// Convolutions of two dimensions and their gradients through cuDNN. Private to gpu/.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/conv.h"
#include "gpu/cudnn.h"

namespace formwork {

/// Which of a convolution's three tensors is made of the other two.
enum class ConvPass : uint8_t { kForward, kInputGradient, kFilterGradient };

/// Errors: CudnnPlan::Of's; kUnimplemented where there is no ConvDescription. `device`: as there.
absl::StatusOr<std::shared_ptr<const CudnnPlan>> PlanConv(ConvPass pass, DType dtype,
                                                          const ConvShape& shape,
                                                          const CudnnDescriptor* device);

/// Of one node. Thread-safe.
class CudnnConv {
 public:
  CudnnConv(ConvPass pass, DType dtype) : pass_(pass), dtype_(dtype) {}

  /// Enqueues it, if cuDNN is there and has an engine for the shape: whether it has. On the GPU, as
  /// the op has them: the two that are given, in the order input, filter, output, and the one that
  /// is made. Errors: the allocator's; CUDA's.
  absl::StatusOr<bool> TryEnqueue(KernelContext& ctx, const ConvShape& shape, const void* first,
                                  const void* second, void* made) const;

 private:
  const ConvPass pass_;
  const DType dtype_;
  const CudnnPlans<ConvShape> plans_;
};

}  // namespace formwork
