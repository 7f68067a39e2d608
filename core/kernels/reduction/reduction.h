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

/// A reduction of rows (of inner extent 1) in two halves, for elements that are made piece by
/// piece: blocks of a row become partial results, in any order and on any thread, and those of a
/// row, in their order, its result: bit for bit that of the ReduceFn.
struct RowReduction {
  static constexpr int64_t kBlock = 2048;  ///< Elements of a row for each partial.
  static int64_t BlocksOf(int64_t n) { return (n + kBlock - 1) / kBlock; }

  /// The partials of `rows` rows of `n` elements, one after the other: whole rows, or one piece of
  /// a row that begins with a block.
  using BlocksFn = void (*)(const void* x, int64_t rows, int64_t n, void* partials);
  /// The results of extent.outer rows. Rows of fewer than 2 * 65536 elements may be finished a few
  /// at a time.
  using FinishFn = void (*)(const ReduceExtent& extent, const void* partials, void* out);

  BlocksFn blocks;
  FinishFn finish;
  size_t partial_bytes;
};

struct ReductionLoops {
  ReduceFn whole;
  RowReduction rows;
};

/// Null where the dtype is not one that the reduction takes. Lives for ever.
const ReductionLoops* FindReductionLoops(Reduction reduction, DType dtype);
ReduceFn FindReduction(Reduction reduction, DType dtype);
// Its parts, one file each.
const ReductionLoops* FindFloatReduction(Reduction reduction, DType dtype);
const ReductionLoops* FindIntegerReduction(Reduction reduction, DType dtype);
const ReductionLoops* FindComplexReduction(Reduction reduction, DType dtype);
/// The same for an op of input, reduction_indices and keep_dims whose result is its input where
/// nothing is reduced: Sum and its like, but not EuclideanNorm, which loses a sign.
const ReductionLoops* FindReductionLoops(absl::string_view op, DType dtype);

/// `x` reduced as the geometry made for its shape says. Where all that is reduced is 1 already the
/// result is `x` itself under its new shape.
absl::StatusOr<Tensor> Reduce(Allocator& allocator, ReduceFn reduce, const Tensor& x,
                              const ReductionGeometry& geometry);

// The parts of the family beside Sum and its like.
void RegisterArgReductionKernels(KernelRegistry& registry);  ///< ArgMax, ArgMin
void RegisterScanKernels(KernelRegistry& registry);          ///< Cumsum, Cumprod
void RegisterBincountKernels(KernelRegistry& registry);      ///< DenseBincount
void RegisterCountKernels(KernelRegistry& registry);         ///< DenseCountSparseOutput

}  // namespace formwork
