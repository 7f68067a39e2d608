#pragma once

// What CTC's loss and its decoders have in common.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/ctc.h"

namespace formwork {

/// Of what cannot be, the logarithm of how likely it is.
template <typename T>
inline constexpr T kNever = -std::numeric_limits<T>::infinity();

/// log(exp(a) + exp(b)).
template <typename T>
T LogOfSum(T a, T b) {
  if (a == kNever<T>) return b;
  if (b == kNever<T>) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

using CtcSequences = std::vector<std::vector<int64_t>>;  ///< For each of the batch.

/// The decoders' inputs 0 and 1. Errors: those of PrepareCtc; kInvalidArgument if inputs are empty;
/// kFailedPrecondition for more steps than there are.
absl::StatusOr<CtcGeometry> CheckCtcDecoder(const KernelContext& ctx);

/// The sequences as a sparse matrix: outputs `indices`, `values` and `shape`.
absl::Status WriteCtcSequences(KernelContext& ctx, const CtcSequences& decoded, int indices,
                               int values, int shape);

// Parts of RegisterCtcKernels.
void AddCtcBeamSearchKernel(KernelRegistry& registry);

}  // namespace formwork
