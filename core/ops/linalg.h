#pragma once

// What linear algebra is on every device: attrs, and geometry from shapes. Shape functions use it,
// for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// The matrices in the last two dimensions of an input.
struct MatrixStack {
  Dims batch;
  int64_t rows;
  int64_t cols;

  /// [batch..., trailing...].
  Dims With(std::initializer_list<int64_t> trailing) const;
  int64_t count() const;    ///< Of matrices; -1 where it is not known.
  int64_t smaller() const;  ///< Of rows and cols; -1 where it is not known.
};

/// Errors: kInvalidArgument in TensorFlow's words if the rank is below 2.
absl::StatusOr<MatrixStack> PrepareMatrices(absl::Span<const int64_t> input);
/// Errors: as above, and if they are not square.
absl::StatusOr<MatrixStack> PrepareSquareMatrices(absl::Span<const int64_t> input);
/// Lu, whose words are its own.
absl::StatusOr<MatrixStack> PrepareLu(absl::Span<const int64_t> input);

struct SvdAttrs {
  bool compute_uv = true;
  bool full_matrices = false;

  static absl::StatusOr<SvdAttrs> FromAttrs(const AttrMap& attrs);
};

/// Matrices and the right-hand sides that go with them, of the same batch.
struct SolveGeometry {
  MatrixStack matrix;
  int64_t rhs_cols;
  Dims output;  ///< [batch..., matrix.cols, rhs_cols]
};

/// MatrixSolve. Errors: kInvalidArgument in TensorFlow's words if ranks or batches differ, the
/// matrices are not square or the right-hand sides have other rows.
absl::StatusOr<SolveGeometry> PrepareMatrixSolve(absl::Span<const int64_t> matrix,
                                                 absl::Span<const int64_t> rhs);

struct TriangularAttrs {
  bool lower = true;
  bool adjoint = false;

  static absl::StatusOr<TriangularAttrs> FromAttrs(const AttrMap& attrs);
};

/// Matrices and right-hand sides whose batches broadcast.
struct TriangularGeometry {
  int64_t rows;  ///< Of a matrix; of a banded one the number of its bands.
  int64_t size;  ///< Of what is solved for.
  int64_t rhs_cols;
  Dims output;  ///< [batch..., size, rhs_cols]

  absl::Span<const int64_t> batch() const {
    return absl::MakeConstSpan(output).first(output.size() - 2);
  }
};

/// MatrixSolveLs, whose matrices need not be square. Errors: as above.
absl::StatusOr<SolveGeometry> PrepareMatrixSolveLs(absl::Span<const int64_t> matrix,
                                                   absl::Span<const int64_t> rhs);
/// TridiagonalSolve, whose matrices are three rows: the diagonals above the main one, the main one
/// and that below. Errors: kInvalidArgument in TensorFlow's words if ranks or batches differ, or
/// there are not three rows, or not as many columns as the right-hand sides have rows.
absl::StatusOr<SolveGeometry> PrepareTridiagonalSolve(absl::Span<const int64_t> diagonals,
                                                      absl::Span<const int64_t> rhs);

/// TridiagonalMatMul, whose diagonals are rows of their own; gives the stack of right-hand sides.
/// Errors: kInvalidArgument in TensorFlow's words if ranks, batches or lengths differ.
absl::StatusOr<MatrixStack> PrepareTridiagonalMatMul(absl::Span<const int64_t> above,
                                                     absl::Span<const int64_t> main,
                                                     absl::Span<const int64_t> below,
                                                     absl::Span<const int64_t> rhs);

/// CholeskyGrad. Errors: kInvalidArgument in TensorFlow's words if they are not square matrices of
/// one shape.
absl::StatusOr<MatrixStack> PrepareCholeskyGrad(absl::Span<const int64_t> l,
                                                absl::Span<const int64_t> grad);

/// Cross. Errors in TensorFlow's words: kInvalidArgument if the shapes differ or are scalars',
/// kFailedPrecondition if the last dimension is not 3.
absl::Status CheckCross(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

/// MatrixTriangularSolve. Errors: kInvalidArgument in TensorFlow's words if the ranks are below 2,
/// the matrices are not square, or the two do not fit.
absl::StatusOr<TriangularGeometry> PrepareTriangularSolve(const TriangularAttrs& attrs,
                                                          absl::Span<const int64_t> matrix,
                                                          absl::Span<const int64_t> rhs);
/// BandedTriangularSolve, whose matrices are [bands, size]. Errors: as above, and if there are no
/// elements.
absl::StatusOr<TriangularGeometry> PrepareBandedSolve(const TriangularAttrs& attrs,
                                                      absl::Span<const int64_t> matrix,
                                                      absl::Span<const int64_t> rhs);

}  // namespace formwork
