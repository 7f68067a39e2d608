#pragma once

// What an Einsum does with operands of given shapes, on every device: which elements it reads, in
// which order, the product that it takes, and where what that makes goes.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/einsum.h"
#include "core/ops/matmul.h"
#include "core/ops/reduction.h"
#include "core/tensor/shape.h"

namespace formwork {

/// Elements of a dense value, by dimensions that each have a label of their own, and entries so
/// many elements apart.
struct EinsumView {
  std::vector<int> labels;
  Dims dims;
  Dims strides;

  /// Whether these are all elements, in the order in which they lie.
  bool IsDense() const;
};

/// Elements that are copied: by dimension how many, and how far apart on both sides.
struct EinsumCopy {
  Dims sizes, from, to;
};
/// To where they lie together.
EinsumCopy Gathered(const EinsumView& view);

struct EinsumOperand {
  int input = 0;
  EinsumView read;          ///< Of the input: a diagonal where a label is repeated.
  ReducedMask summed;       ///< Of `read`: what nobody else has a label of; it is summed first.
  EinsumView matrices;      ///< Of two operands: what is multiplied, of `read` or of those sums.
  bool transposed = false;  ///< The matrices are.
  Dims dims;                ///< Of `matrices`: [batch..., rows, columns].

  bool Sums() const;
};

struct EinsumPlan {
  std::vector<EinsumOperand> operands;  ///< One, or two, the left one first.
  ProductGeometry product;              ///< Of two.
  /// What is there before the last copy: of two operands their product, dense; of one `read` or its
  /// sums.
  EinsumView made;
  EinsumCopy arrange;    ///< From `made` to the output.
  bool spreads = false;  ///< To a diagonal of it: all else is 0.
  bool is_made = false;  ///< The output is `made` as it lies.
  Dims output;

  ProductAttrs product_attrs() const {
    return {.transpose_x = operands[0].transposed, .transpose_y = operands[1].transposed};
  }
};

/// Errors: kInvalidArgument in TensorFlow's words if the shapes do not fit.
absl::StatusOr<EinsumPlan> PlanEinsum(EinsumEquation equation,
                                      absl::Span<const absl::Span<const int64_t>> inputs);
/// Whether a label is one input's alone and not the output's.
bool HasSums(const EinsumEquation& equation);

}  // namespace formwork
