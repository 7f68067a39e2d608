#pragma once

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/kernels/random/philox.h"

namespace formwork {

/// The generator that stateless ops start from, of a seed of two integers. Errors:
/// kInvalidArgument for another shape.
absl::StatusOr<Philox> PhiloxOfSeed(const Tensor& seed);

/// A part of the family random.
void AddMultinomialCpuKernels(KernelRegistry& registry);

}  // namespace formwork
