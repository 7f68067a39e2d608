#pragma once

// Numbers of distributions whose parameters are tensors: gamma, Poisson, binomial, truncated
// normal. Errors are kInvalidArgument in TensorFlow's words.

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Outputs as [samples, parameters]: each parameter has its column.
struct DistributionGeometry {
  Shape output;
  int64_t samples = 0;  ///< Of each parameter.
  int64_t parameters = 0;
};

/// Ops with seeds in attrs: `shape` lists the dimensions before those of the parameters.
absl::StatusOr<DistributionGeometry> PrepareDistribution(const Tensor& shape,
                                                         const Shape& parameters);

/// Stateless ops: `shape` lists all dimensions, and those of the parameters are the last ones.
absl::StatusOr<DistributionGeometry> PrepareStatelessDistribution(const Tensor& shape,
                                                                  const Shape& parameters);

struct BroadcastGeometry {
  DistributionGeometry numbers;
  Dims parameters;  ///< What the parameters broadcast to.
};

/// As for other stateless ops, with the parameters broadcast.
absl::StatusOr<BroadcastGeometry> PrepareBinomial(const Tensor& shape,
                                                  absl::Span<const int64_t> counts,
                                                  absl::Span<const int64_t> probs);

/// StatelessParameterizedTruncatedNormal: the same of means, deviations, least and largest values.
absl::StatusOr<BroadcastGeometry> PrepareTruncatedNormal(
    const Tensor& shape, const std::array<absl::Span<const int64_t>, 4>& parameters);

/// ParameterizedTruncatedNormal: each parameter has a row, the first dimension that `shape` lists,
/// or is one for all. Also an error: there are parameters alone, of which none has room.
absl::StatusOr<DistributionGeometry> PrepareTruncatedRows(
    const Tensor& shape, const std::array<absl::Span<const int64_t>, 4>& parameters);

/// StatefulRandomBinomial knows one algorithm alone.
absl::Status CheckBinomialAlgorithm(const Tensor& algorithm);

}  // namespace formwork
