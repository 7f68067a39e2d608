#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/random_fill.h"

namespace formwork {

/// The generator that stateless ops start from, of a seed of two integers. Errors:
/// kInvalidArgument for another shape.
absl::StatusOr<Philox> PhiloxOfSeed(const Tensor& seed);

/// The one that inputs 1 to 3 of a stateless op say: key, counter, algorithm.
absl::StatusOr<Philox> StatelessPhilox(const KernelContext& ctx);

/// Calls `update` with the variable that keeps the generator that input 0 is the handle of: counter
/// and key. Errors: those of CheckGeneratorAlgorithm and CheckGeneratorState.
absl::Status UpdateGenerator(KernelContext& ctx, int64_t algorithm,
                             absl::FunctionRef<absl::Status(Tensor& state)> update);

/// Moves the generator that input 0 is the handle of on by what `delta` numbers set aside; the one
/// before. Errors: those of UpdateGenerator.
absl::StatusOr<Philox> SkipGenerator(KernelContext& ctx, int64_t algorithm, uint64_t delta);

/// RandomFillFor the dtype of output 0. Errors: kUnimplemented where there is none.
absl::StatusOr<RandomFillFn> RandomFillOf(const KernelInit& init, Distribution distribution);

// Parts of the family random.
void AddMultinomialCpuKernels(KernelRegistry& registry);
void AddCandidateCpuKernels(KernelRegistry& registry);
void AddDistributionCpuKernels(KernelRegistry& registry);
void AddBinomialCpuKernels(KernelRegistry& registry);
void AddTruncatedCpuKernels(KernelRegistry& registry);
void AddGeneratorCpuKernels(KernelRegistry& registry);
void AddSampledBoxCpuKernels(KernelRegistry& registry);
void AddIndexShuffleCpuKernels(KernelRegistry& registry);
void AddSobolCpuKernels(KernelRegistry& registry);

}  // namespace formwork
