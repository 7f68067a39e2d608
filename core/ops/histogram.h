#pragma once

// HistogramFixedWidth on every device.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/ops/op_def.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The number of bins. Errors: kInvalidArgument in TensorFlow's words unless it is a scalar above
/// 0.
absl::StatusOr<int64_t> PrepareHistogram(const Tensor& nbins);

/// Part of the family image.
void RegisterHistogramOps(OpRegistry& registry);

}  // namespace formwork
