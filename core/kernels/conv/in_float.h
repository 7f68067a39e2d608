#pragma once

// Convolutions of half and bfloat16 through float, rounded once at the end, but for what bfloat16
// has instructions for.

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/kernels/widen.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Runs `run(first, second, result)`, which may say kUnimplemented of bfloat16: in float then, and
/// where the tensors are half.
template <typename Run>
absl::Status InFloat(const Tensor& first, const Tensor& second, Allocator& allocator,
                     Tensor* result, Run run) {
  const DType dtype = result->dtype();
  if (dtype != DType::kHalf) {
    const absl::Status status = run(first, second, result);
    if (dtype != DType::kBfloat16 || !absl::IsUnimplemented(status)) return status;
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor a, Widened(allocator, first));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor b, Widened(allocator, second));
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DType::kFloat, result->shape()));
  FORMWORK_RETURN_IF_ERROR(run(a, b, &wide));
  NarrowTo(dtype, wide.data<float>(), wide.num_elements(), result->mutable_raw());
  return absl::OkStatus();
}

}  // namespace formwork
