#pragma once

// Reductions along axes, shared by the reduction family and Einsum.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/kernels/kernel.h"
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

/// A dense value as [outer, reduced, inner], of which the middle goes.
struct ReduceExtent {
  int64_t outer;
  int64_t reduced;
  int64_t inner;
};

/// Reduces elements of one dtype. The result does not depend on the number of threads.
using ReduceFn = void (*)(const ReduceExtent& extent, const void* x, void* out);

/// Null where the dtype is not one that the reduction takes.
ReduceFn FindReduction(Reduction reduction, DType dtype);
// Its parts, one file each.
ReduceFn FindFloatReduction(Reduction reduction, DType dtype);
ReduceFn FindIntegerReduction(Reduction reduction, DType dtype);
ReduceFn FindComplexReduction(Reduction reduction, DType dtype);

/// `x` reduced along the dimensions d for which reduced[d] is true. Without keep_dims these go,
/// with it they are 1. Where all of these are 1 already the result is `x` itself under its new
/// shape.
absl::StatusOr<Tensor> Reduce(Allocator& allocator, ReduceFn reduce, const Tensor& x,
                              absl::Span<const bool> reduced, bool keep_dims);

// The parts of the family beside Sum and its like.
void RegisterArgReductionKernels(KernelRegistry& registry);  ///< ArgMax, ArgMin
void RegisterScanKernels(KernelRegistry& registry);          ///< Cumsum, Cumprod
void RegisterBincountKernels(KernelRegistry& registry);      ///< DenseBincount

}  // namespace formwork
