#pragma once

// What elementwise ops are on every device beyond their functions: attrs, and which shapes go
// together. Shape functions use it, for which dimensions may be unknown (-1), and kernels.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/join.h"
#include "core/tensor/shape.h"

namespace formwork {

/// Whether shapes that do not broadcast are refused: what Equal and NotEqual say by an attr and all
/// others do.
bool RefusesShapes(const AttrMap& attrs);

struct CastAttrs {
  bool truncate = false;  ///< Digits that the result has no room for are cut off, not rounded.

  static absl::StatusOr<CastAttrs> FromAttrs(const AttrMap& attrs);
};

// Errors of all of these are kInvalidArgument in TensorFlow's words.

/// AddN: `n` values of one shape, which is the result's.
absl::StatusOr<Dims> PrepareAddN(int n, DimsOfValue dims);

/// SelectV2: the result's dimensions, to which all three broadcast.
absl::StatusOr<Dims> PrepareSelectV2(absl::Span<const int64_t> condition,
                                     absl::Span<const int64_t> then,
                                     absl::Span<const int64_t> otherwise);

/// Select: the result's dimensions, which both values have. The condition has them too, or is a
/// scalar, or a vector that chooses rows.
absl::StatusOr<Dims> PrepareSelect(absl::Span<const int64_t> condition,
                                   absl::Span<const int64_t> then,
                                   absl::Span<const int64_t> otherwise);

/// Betainc: of operands that are scalars or have one shape. Errors: kInvalidArgument in
/// TensorFlow's words where they have two.
absl::StatusOr<Dims> PrepareBetainc(absl::Span<const int64_t> a, absl::Span<const int64_t> b,
                                    absl::Span<const int64_t> x);

/// ClipByValue: the limits are scalars or have the shape of what they limit.
absl::Status CheckClip(absl::Span<const int64_t> t, absl::Span<const int64_t> low,
                       absl::Span<const int64_t> high);

/// Errors: kInvalidArgument in TensorFlow's words if the shapes differ.
absl::Status CheckApproximateEqual(absl::Span<const int64_t> x, absl::Span<const int64_t> y);

/// A gradient takes one shape on both sides, or, where it is that of a mathematical function
/// (TanhGrad), as many elements.
absl::Status CheckGradient(absl::string_view op, absl::Span<const int64_t> a,
                           absl::Span<const int64_t> b);

}  // namespace formwork
