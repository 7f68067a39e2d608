#pragma once

// What the CTC decoders have in common.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/ctc.h"

namespace formwork {

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
