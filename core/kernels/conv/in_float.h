#pragma once

// Convolutions of half and bfloat16 through float, rounded once at the end.

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/kernels/widen.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Runs `run(first, second, result)` in float where the tensors are half or bfloat16.
template <typename Run>
absl::Status InFloat(const Tensor& first, const Tensor& second, Allocator& allocator,
                     Tensor* result, Run run) {
  const DType dtype = result->dtype();
  if (dtype != DType::kHalf && dtype != DType::kBfloat16) return run(first, second, result);
  FORMWORK_ASSIGN_OR_RETURN(const Tensor a, Widened(allocator, first));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor b, Widened(allocator, second));
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DType::kFloat, result->shape()));
  FORMWORK_RETURN_IF_ERROR(run(a, b, &wide));
  NarrowTo(dtype, wide.data<float>(), wide.num_elements(), result->mutable_raw());
  return absl::OkStatus();
}

}  // namespace formwork
