#pragma once

// Products of stacks of matrices, shared by MatMul, BatchMatMul and Einsum.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/buffer.h"
#include "core/ops/matmul.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// How an operand is read: its last two dimensions swapped, its elements conjugated.
struct MatrixSide {
  bool transpose = false;
  bool conjugate = false;  ///< Complex dtypes alone.
};

/// True where Multiply knows the dtype: floating, complex and plain integer ones.
bool CanMultiply(DType dtype);

/// The number of the matrix that each of `batches` batches of dimensions `out` takes of an operand
/// with batch dimensions `dims`, which broadcast to them; empty where they are the same.
std::vector<int64_t> BatchIndex(absl::Span<const int64_t> dims, absl::Span<const int64_t> out,
                                int64_t batches);

/// The products of the matrices in the last two dimensions of `x` and `y`, which are of one dtype
/// and fit as `geometry` says. half and bfloat16 compute in float, integers wrap around.
/// Errors: kInvalidArgument if the result is too large; kUnimplemented for other dtypes.
absl::StatusOr<Tensor> Multiply(Allocator& allocator, const ProductGeometry& geometry,
                                const Tensor& x, MatrixSide x_side, const Tensor& y,
                                MatrixSide y_side);

}  // namespace formwork
