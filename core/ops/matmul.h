#pragma once

// Products of matrices on every device: attrs, and geometry from shapes. Shape functions use it,
// for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// Which operands have their last two dimensions swapped; BatchMatMul conjugates these too.
struct ProductAttrs {
  bool transpose_x = false;
  bool transpose_y = false;

  static absl::StatusOr<ProductAttrs> OfMatMul(const AttrMap& attrs);
  static absl::StatusOr<ProductAttrs> OfBatchMatMul(const AttrMap& attrs);
};

/// [..., m, k] times [..., k, n].
struct ProductGeometry {
  int64_t m, n, k;
  Dims output;  ///< The dimensions before the matrices', broadcast, m and n.

  absl::Span<const int64_t> batch() const {
    return absl::MakeConstSpan(output).first(output.size() - 2);
  }
};

/// Of operands of rank 2 or more. Errors: kInvalidArgument in TensorFlow's words if they do not
/// fit.
absl::StatusOr<ProductGeometry> PrepareProduct(const ProductAttrs& attrs,
                                               absl::Span<const int64_t> x,
                                               absl::Span<const int64_t> y);
/// MatMul: of rank 2. Errors: as above.
absl::StatusOr<ProductGeometry> PrepareMatMul(const ProductAttrs& attrs,
                                              absl::Span<const int64_t> a,
                                              absl::Span<const int64_t> b);
/// BatchMatMul, which takes equal batch dimensions alone, and its later versions, where `broadcast`
/// is true. Errors: as above.
absl::StatusOr<ProductGeometry> PrepareBatchMatMul(const ProductAttrs& attrs, bool broadcast,
                                                   absl::Span<const int64_t> x,
                                                   absl::Span<const int64_t> y);

// --- _GateMatMul, which FuseGates makes ----------------------------------------------------------

/// One product of a matrix by weights, or the sum of two, and a bias: cut along the last dimension
/// into parts of equal size, as the gates of a recurrent cell are. A product of one row is added to
/// each row of the other, as AddV2 does.
struct GateGeometry {
  int64_t m, n;
  int64_t part;  ///< Columns of each.
  Dims depths;   ///< Of each product.
};

/// `inputs`: the matrices a, as many weights b, the bias. Errors: kInvalidArgument if they do not
/// fit, or the columns cannot be cut into `num_parts`.
absl::StatusOr<GateGeometry> PrepareGateMatMul(absl::Span<const absl::Span<const int64_t>> inputs,
                                               int num_parts);

}  // namespace formwork
