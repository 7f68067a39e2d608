#pragma once

// half and bfloat16 tensors as float and back, for kernels that compute in float throughout.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/tensor/small_float.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// `tensor` itself where it is float, else (half, bfloat16) a float copy.
/// Errors: kResourceExhausted from the allocator.
absl::StatusOr<Tensor> Widened(Allocator& allocator, const Tensor& tensor);

/// Rounds n floats to `dtype` (half, bfloat16, or float: a copy).
void NarrowTo(DType dtype, const float* from, int64_t n, void* to);

/// n elements, on this thread: for loops over blocks. The machine's instructions, where it has
/// them.
void WidenRun(const half* from, int64_t n, float* to);
void WidenRun(const bfloat16* from, int64_t n, float* to);
void NarrowRun(const float* from, int64_t n, half* to);
void NarrowRun(const float* from, int64_t n, bfloat16* to);

}  // namespace formwork
