#pragma once

#include "absl/types/span.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// That each row of `indices`, a matrix of int64, is within a tensor of `dims`. Errors:
/// kInvalidArgument names the row, in TensorFlow's words.
absl::Status CheckIndexTuples(const Tensor& indices, absl::Span<const int64_t> dims);

// Parts of the family sparse.
void AddSparseArithmeticCpuKernels(KernelRegistry& registry);
void AddSparseSerialCpuKernels(KernelRegistry& registry);
void AddSparseCwiseCpuKernels(KernelRegistry& registry);
void AddSparseReductionCpuKernels(KernelRegistry& registry);
void AddSparsePartsCpuKernels(KernelRegistry& registry);
void AddCrossCpuKernels(KernelRegistry& registry);
void AddEditDistanceCpuKernel(KernelRegistry& registry);
void AddSetCpuKernels(KernelRegistry& registry);
/// Part of the family sparse_matrix: sums, products and softmax.
void AddCsrArithmeticCpuKernels(KernelRegistry& registry);

}  // namespace formwork
