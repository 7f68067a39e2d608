#pragma once

// Outputs that hold shapes, axes and sizes.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Output i: the integers as a vector of dtype int32 or int64.
absl::Status OutputIntegers(KernelContext& ctx, int i, DType dtype,
                            absl::Span<const int64_t> values);

}  // namespace formwork
