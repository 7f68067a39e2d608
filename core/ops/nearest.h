#pragma once

// NearestNeighbors: which centers are nearest to points, on every device. The shape function uses
// it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct NearestGeometry {
  int64_t points;
  int64_t centers;
  int64_t dims;
  int64_t found;  ///< Of each point: k, or all.
};

/// `points` [points, dims], `centers` [centers, dims]; `k`: null where it is not known. Errors:
/// kInvalidArgument in TensorFlow's words if they are no matrices of such shapes or there are no
/// points; if k is no scalar, or negative, at which TensorFlow ends its process.
absl::StatusOr<NearestGeometry> PrepareNearest(absl::Span<const int64_t> points,
                                               absl::Span<const int64_t> centers, const Tensor* k);

}  // namespace formwork
