#pragma once

// Sparse matrices, and batches of them, as elements of dtype variant (CSR), on every device: what
// the shapes of their products are. Shape functions use it, for which dimensions may be unknown
// (-1), and kernels. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// SparseMatrixMatMul and, without what is said of the output, SparseMatrixSparseMatMul.
struct MatrixProductAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  bool adjoint_a = false;
  bool adjoint_b = false;
  bool transpose_output = false;
  bool conjugate_output = false;

  bool flips_a() const { return transpose_a || adjoint_a; }
  bool flips_b() const { return transpose_b || adjoint_b; }

  /// Errors: a matrix is to be transposed twice.
  static absl::StatusOr<MatrixProductAttrs> FromAttrs(const AttrMap& attrs);
};

/// `rows` by `inner` times `inner` by `cols`, `batch` times.
struct MatrixProductGeometry {
  int64_t batch = 1;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t cols = 0;
  Dims output;
};
/// Of the shapes of a sparse matrix and another, or a dense one.
absl::StatusOr<MatrixProductGeometry> PrepareMatrixProduct(const MatrixProductAttrs& attrs,
                                                           absl::Span<const int64_t> a,
                                                           absl::Span<const int64_t> b);

/// That a sparse matrix can have that shape: of rank 2 or 3, with sizes that int32 can count.
absl::Status CheckMatrixShape(absl::Span<const int64_t> shape);

/// SparseMatrixMul: that b is one number, or one for each matrix of the batch a.
absl::Status CheckMatrixFactor(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

}  // namespace formwork
