#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Memory for as many elements, aligned. Errors: kResourceExhausted.
inline absl::StatusOr<Tensor> Scratch(Allocator& allocator, DType dtype, int64_t elements) {
  // At least as much as lies outside of the Tensor itself.
  return Tensor::Allocate(allocator, dtype, Shape({std::max<int64_t>(elements, 64)}));
}

}  // namespace formwork
