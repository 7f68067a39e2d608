#pragma once

// Diagonals and bands of matrices: attrs, and geometry from shapes and the numbers of diagonals.
// Shape functions use it, for which dimensions may be unknown (-1), and kernels.

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Attr align: on which side of their row diagonals lie that are shorter than the longest.
struct DiagonalAttrs {
  bool left_super = false;
  bool left_sub = true;

  static absl::StatusOr<DiagonalAttrs> FromAttrs(const AttrMap& attrs);
};

/// The diagonals from `lower` to `upper` of matrices. Those below the main one are negative.
struct Band : DiagonalAttrs {
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t rows = 0;  ///< Of a matrix; -1 where it is not known.
  int64_t cols = 0;
  int64_t longest = 0;  ///< The places that each diagonal has.
  Dims output;

  int64_t count() const { return upper - lower + 1; }
  int64_t Length(int64_t d) const {
    return std::min(rows + std::min<int64_t>(d, 0), cols - std::max<int64_t>(d, 0));
  }
  /// Where diagonal d begins among its places.
  int64_t Offset(int64_t d, int64_t length) const {
    const bool left = (d >= 0 && left_super) || (d <= 0 && left_sub);
    return left ? 0 : longest - length;
  }
};

/// `k`: one diagonal, or the lowest and the highest. Errors: kInvalidArgument in TensorFlow's words
/// if the diagonals do not fit the matrices or another input is no scalar.
absl::StatusOr<Band> PrepareMatrixDiagPart(const DiagonalAttrs& attrs,
                                           absl::Span<const int64_t> input, const Tensor& k,
                                           absl::Span<const int64_t> padding_value);
/// `num_rows` and `num_cols` are null where their values are not known.
absl::StatusOr<Band> PrepareMatrixDiag(const DiagonalAttrs& attrs,
                                       absl::Span<const int64_t> diagonal, const Tensor& k,
                                       const Tensor* num_rows, const Tensor* num_cols,
                                       absl::Span<const int64_t> padding_value);
/// The output has the input's dimensions, and is left empty.
absl::StatusOr<Band> PrepareMatrixSetDiag(const DiagonalAttrs& attrs,
                                          absl::Span<const int64_t> input,
                                          absl::Span<const int64_t> diagonal, const Tensor& k);

struct BandPart {
  int64_t lower;  ///< Diagonals that are kept below the main one; negative: all.
  int64_t upper;
};
/// MatrixBandPart. Errors: as above.
absl::StatusOr<BandPart> PrepareMatrixBandPart(absl::Span<const int64_t> input,
                                               const Tensor& num_lower, const Tensor& num_upper);

/// Diag and DiagPart, between [d...] and [d..., d...]: the output's dimensions. Errors: as above.
absl::StatusOr<Dims> PrepareDiag(absl::Span<const int64_t> diagonal);
absl::StatusOr<Dims> PrepareDiagPart(absl::Span<const int64_t> input);

}  // namespace formwork
