#pragma once

// Sparse tensors (indices, values, dense shape) on every device: what their shapes must be. Shape
// functions use it, for which dimensions may be unknown (-1), and kernels, whose own checks are
// those of the indices' values. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/op_def.h"
#include "core/ops/reduction.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Shapes of a sparse tensor's parts.
struct SparseShapes {
  absl::Span<const int64_t> indices;
  absl::Span<const int64_t> values;
  absl::Span<const int64_t> shape;
};

/// A matrix of indices, a vector of as many values, a vector of as many sizes as the matrix is
/// wide.
absl::Status CheckSparse(const SparseShapes& sparse);

/// SparseToDense: the output's dimensions. `shape` is null where it is not known.
absl::StatusOr<Dims> PrepareSparseToDense(const SparseShapes& sparse, const Tensor* shape,
                                          absl::Span<const int64_t> default_value);

/// SparseReshape: the new shape, of which one dimension may have been given as -1.
absl::StatusOr<Dims> PrepareSparseReshape(absl::Span<const int64_t> from, const Tensor& to);

/// SparseFillEmptyRows.
absl::Status CheckSparseFillEmptyRows(const SparseShapes& sparse,
                                      absl::Span<const int64_t> default_value);

/// RaggedFillEmptyRows, the same of rows alone.
absl::Status CheckRaggedFillEmptyRows(absl::Span<const int64_t> value_rowids,
                                      absl::Span<const int64_t> values,
                                      absl::Span<const int64_t> nrows,
                                      absl::Span<const int64_t> default_value);

/// SparseTensorDenseMatMul: a, of `rows` by `inner` as its shape says, by b.
struct SparseMatMulGeometry {
  int64_t rows;
  int64_t inner;
  int64_t cols;
};
/// `shape` is null where it is not known.
absl::StatusOr<SparseMatMulGeometry> PrepareSparseMatMul(const SparseShapes& a, const Tensor* shape,
                                                         absl::Span<const int64_t> b,
                                                         bool adjoint_a, bool adjoint_b);

/// DeserializeSparse: how many sparse tensors there are; -1 where it is not known.
absl::StatusOr<int64_t> CountSerialized(absl::Span<const int64_t> serialized);

/// EditDistance, of two dense shapes: the output's dimensions.
absl::StatusOr<Dims> PrepareEditDistance(const Tensor& hypothesis, const Tensor& truth);

/// The dense shape that a vector of sizes gives.
absl::StatusOr<Shape> DenseShapeOf(const Tensor& sizes);

/// SparseDenseCwiseMul and its like: the sparse side's dense shape, which the dense side's
/// broadcasts to.
absl::StatusOr<Shape> PrepareSparseDenseCwise(const SparseShapes& sparse, const Tensor& sizes,
                                              absl::Span<const int64_t> dense);

/// SparseReduceSum and its like: which dimensions go, and the shape that is left. An axis may be
/// named twice; where none is named nothing is reduced but entries of the same index.
absl::StatusOr<ReductionGeometry> PrepareSparseReduction(const Tensor& sizes, const Tensor& axes,
                                                         bool keep_dims);

/// Part of RegisterSparseOps: what computes with entries.
void AddSparseMathOps(OpRegistry& registry);

/// "[2, 3]", as TensorFlow writes indices.
std::string IndexText(absl::Span<const int64_t> index);

}  // namespace formwork
