#pragma once

// Products of rows and one matrix, with an epilogue.

#include "absl/status/statusor.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/kernels/kernel.h"
#include "core/ops/matmul.h"

namespace formwork {

/// Of one node: float[..., m, k] times float[k, n], and an epilogue. Where the matrix is a layer's
/// weights and stays the same from call to call, the product runs as a convolution of 1x1 with a
/// packed filter, which is faster than sgemm (README.md), and does the epilogue on the way.
/// Thread-safe.
class ProductByWeights {
 public:
  /// `weights`: whether the matrix is expected to stay the same.
  ProductByWeights(const Epilogue& epilogue, bool weights)
      : epilogue_(epilogue), weights_(weights), memo_(/*calls_wanted=*/1) {}

  /// Inputs 0 and 1 are the operands, of rank 2 or more and of rank 2, which fit as `geometry`
  /// says; those after them are the epilogue's.
  absl::Status Run(KernelContext& ctx, const ProductGeometry& geometry);

 private:
  struct Sizes {
    int64_t m, k, n;
  };

  absl::Status RunPlain(KernelContext& ctx, const Sizes& sizes, const Shape& shape);
  absl::Status RunPacked(KernelContext& ctx, const Sizes& sizes, const Shape& shape);

  const Epilogue epilogue_;
  const bool weights_;
  PackedFilterMemo memo_;
};

}  // namespace formwork
