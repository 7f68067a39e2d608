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
#include "core/tensor/dtype.h"
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

/// What a device is asked whether it has a kernel for (KernelRegistry::TakesAttention), as far as
/// it is known before a call. Sizes are -1 where they are not.
struct AttentionKind {
  DType dtype = DType::kFloat;
  bool masked = false;
  bool broadcasts = false;  ///< Batch dimensions are known to differ.
  int batch_rank = 0;
  int64_t depth = -1;
  int64_t width = -1;
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

/// How far apart elements of an operand lie: by batch dimension (0 where it has one for all), and
/// along what its rows and columns are.
struct AttentionStrides {
  Dims batch;
  int64_t row = 0;
  int64_t column = 0;

  /// Where the matrix at `index` begins, an index for each batch dimension.
  int64_t Offset(absl::Span<const int64_t> index) const {
    int64_t offset = 0;
    for (size_t b = 0; b < index.size(); ++b) offset += index[b] * batch[b];
    return offset;
  }
};

/// `dims`: of the operand, the last ones of those that `places` speaks of; `row` and `column`: two
/// of these places.
AttentionStrides StridesOf(absl::Span<const int64_t> dims, const AttentionDims& places, int64_t row,
                           int64_t column);

}  // namespace formwork
