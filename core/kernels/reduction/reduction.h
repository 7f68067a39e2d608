#pragma once

// Reductions along axes, shared by the reduction family and Einsum.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/kernels/kernel.h"
#include "core/ops/reduction.h"
#include "core/tensor/tensor.h"

namespace formwork {

enum class Reduction : uint8_t {
  kSum,
  kProd,
  kMean,
  kMax,
  kMin,
  kEuclideanNorm,
  kL2Loss,
  kAll,
  kAny
};

/// Reduces elements of one dtype. The result does not depend on the number of threads.
using ReduceFn = void (*)(const ReduceExtent& extent, const void* x, void* out);

/// Null where the dtype is not one that the reduction takes.
ReduceFn FindReduction(Reduction reduction, DType dtype);
// Its parts, one file each.
ReduceFn FindFloatReduction(Reduction reduction, DType dtype);
ReduceFn FindIntegerReduction(Reduction reduction, DType dtype);
ReduceFn FindComplexReduction(Reduction reduction, DType dtype);

/// `x` reduced as the geometry made for its shape says. Where all that is reduced is 1 already the
/// result is `x` itself under its new shape.
absl::StatusOr<Tensor> Reduce(Allocator& allocator, ReduceFn reduce, const Tensor& x,
                              const ReductionGeometry& geometry);

// The parts of the family beside Sum and its like.
void RegisterArgReductionKernels(KernelRegistry& registry);  ///< ArgMax, ArgMin
void RegisterScanKernels(KernelRegistry& registry);          ///< Cumsum, Cumprod
void RegisterBincountKernels(KernelRegistry& registry);      ///< DenseBincount

}  // namespace formwork
