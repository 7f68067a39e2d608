#pragma once

// Attention through cuDNN. Private to gpu/.

#include <memory>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "gpu/attention_items.h"
#include "gpu/cudnn.h"

namespace formwork {

/// Errors: CudnnPlan::Of's. `device`: as there.
absl::StatusOr<std::shared_ptr<const CudnnPlan>> PlanAttention(
    DType dtype, const AttentionDescription& description, const CudnnDescriptor* device);

/// Of one node. Thread-safe.
class CudnnAttention {
 public:
  explicit CudnnAttention(DType dtype) : dtype_(dtype) {}

  /// Enqueues it, if cuDNN is there and has an engine for it: whether it has. The operands are on
  /// the GPU. Errors: the allocator's; CUDA's.
  absl::StatusOr<bool> TryEnqueue(KernelContext& ctx, const AttentionDescription& description,
                                  float scale, const void* q, const void* k, const void* v,
                                  void* output) const;

 private:
  const DType dtype_;
  const CudnnPlans<AttentionDescription> plans_;
};

}  // namespace formwork
