#pragma once

// SobolSample: points that fill the unit cube evenly, on every device.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Direction numbers are there for so many dimensions. (TensorFlow has those of kMostSobolDims.)
inline constexpr int64_t kSobolDims = 1111;
inline constexpr int64_t kMostSobolDims = 21200;

struct SobolGeometry {
  int64_t points;
  int64_t dims;
  int64_t skip;  ///< Points of the sequence before the first one; points + skip is below 2^31.
};

/// The output is [points, dims]. Errors: kInvalidArgument in TensorFlow's words for what is no
/// scalar or out of range; kUnimplemented for more than kSobolDims.
absl::StatusOr<SobolGeometry> PrepareSobol(const Tensor& dim, const Tensor& num_results,
                                           const Tensor& skip);

}  // namespace formwork
