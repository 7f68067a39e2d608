#pragma once

// _Attention, which FuseAttention makes: softmax(scale q k' + mask) v for each of a batch's heads,
// wherever these dimensions are in the operands. A mask of bools hides: where it is false a score
// is `hidden`. Shape functions use it, for which dimensions may
// be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// What the dimensions of attention are, by their places in an operand. -1: it has none such.
struct AttentionDims {
  Dims batch;  ///< Where the batch dimensions are: those that all have, in one order.
  int64_t queries = -1;
  int64_t keys = -1;
  int64_t depth = -1;  ///< What q and k are multiplied over.
  int64_t width = -1;  ///< Of v and of the output.
};

/// A letter for each dimension: "q,k,v,scores->output" as "abcd,aecd,aecf,acbe->abcf". The scores
/// are what the mask is added to.
struct AttentionAttrs {
  AttentionDims q, k, v, scores, output;
  float scale = 1;
  float hidden = 0;
  bool broadcast =
      false;  ///< Batch dimensions of 1 are as long as the others', as BatchMatMulV2's.

  static absl::StatusOr<AttentionAttrs> FromAttrs(const AttrMap& attrs);
  /// Errors: kInvalidArgument where the letters are none of attention, or of a layout that kernels
  /// do not read: last are depth in q, depth or keys in k, keys in the scores, and width in v and
  /// the output.
  static absl::StatusOr<AttentionAttrs> Parse(absl::string_view equation);
};

struct AttentionGeometry {
  Dims batch;
  int64_t queries, keys, depth, width;
  Dims output;
};

/// `inputs`: q, k, v and, where there is one, the mask, which broadcasts to the scores. Errors:
/// kInvalidArgument if they do not fit.
absl::StatusOr<AttentionGeometry> PrepareAttention(
    const AttentionAttrs& attrs, absl::Span<const absl::Span<const int64_t>> inputs);

}  // namespace formwork
