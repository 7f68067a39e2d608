#pragma once

// Ragged tensors on every device: what their attrs say, and shapes. Shape functions use it, for
// which dimensions may be unknown (-1), and kernels. Errors are kInvalidArgument in TensorFlow's
// words.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// RaggedRange: the number of rows; -1 where it is not known.
absl::StatusOr<int64_t> PrepareRaggedRange(absl::Span<const int64_t> starts,
                                           absl::Span<const int64_t> limits,
                                           absl::Span<const int64_t> deltas);

/// How a tensor says which values are in which row.
enum class RowPartition : uint8_t { kFirstDimSize, kValueRowIds, kRowSplits };

/// RaggedTensorToTensor.
struct RaggedToTensorAttrs {
  /// Of each dimension but the values' own, from outside in; kFirstDimSize can only be the first,
  /// and then is of no dimension of its own.
  std::vector<RowPartition> partitions;

  int ragged_rank() const {
    const int count = static_cast<int>(partitions.size());
    return partitions[0] == RowPartition::kFirstDimSize ? count - 1 : count;
  }
  static absl::StatusOr<RaggedToTensorAttrs> FromAttrs(const AttrMap& attrs);
};

/// The output's dimensions, -1 where the value of `shape` leaves them to the rows.
absl::StatusOr<Dims> PrepareRaggedToTensor(int ragged_rank, const PartialShape& shape,
                                           absl::Span<const int64_t> values,
                                           absl::Span<const int64_t> default_value);

/// What input `shape` asks for: -1 where it leaves a dimension open, and -1 alone for all of it.
absl::StatusOr<PartialShape> RaggedShapeFrom(const Tensor& shape);

/// RaggedTensorFromVariant: how many dimensions of the components are ragged, of `encoded_rank`
/// dimensions of variants.
struct FromVariantAttrs {
  int64_t input_ragged_rank = -1;
  int64_t output_ragged_rank = 0;

  static absl::StatusOr<FromVariantAttrs> FromAttrs(const AttrMap& attrs);
};
absl::StatusOr<int> PrepareFromVariant(const FromVariantAttrs& attrs, int encoded_rank);

/// RaggedTensorToVariant: the output's dimensions. `splits`: of the outermost dimension; not looked
/// at where the input is not a batch.
absl::StatusOr<Dims> PrepareToVariant(bool batched, absl::Span<const int64_t> splits);

}  // namespace formwork
