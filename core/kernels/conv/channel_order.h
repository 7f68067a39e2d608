#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// [batch, a, b] to [batch, b, a] of plain elements of `element_bytes` (1, 2, 4 or 8).
void SwapInnerAxes(int64_t batch, int64_t a, int64_t b, size_t element_bytes, const void* from,
                   void* to);

/// A rank-4 tensor between channels first and channels last.
absl::StatusOr<Tensor> ToChannelsLast(const Tensor& image, Allocator& allocator);
void ToChannelsFirst(const Tensor& channels_last, void* to);

}  // namespace formwork
