#pragma once

// Blocks of space that become batch or depth, and back: attrs, and geometry from shapes and sizes.
// Shape functions use it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

// --- SpaceToBatchND, BatchToSpaceND, SpaceToBatch, BatchToSpace ----------------------------------

/// For each spatial dimension its block and what is added, or cropped, on both sides.
struct BlocksGeometry {
  Dims size;
  Dims before;
  Dims after;
  int64_t product = 1;  ///< Of the blocks' sizes.
  Dims output;
};

/// Errors: kInvalidArgument in TensorFlow's words if blocks and paddings do not fit the shape.
absl::StatusOr<BlocksGeometry> PrepareSpaceToBatch(absl::Span<const int64_t> input,
                                                   const Tensor& block_shape,
                                                   const Tensor& paddings);
absl::StatusOr<BlocksGeometry> PrepareBatchToSpace(absl::Span<const int64_t> input,
                                                   const Tensor& block_shape, const Tensor& crops);

/// Of SpaceToBatch and BatchToSpace: attr block_size as a block_shape.
absl::StatusOr<Tensor> SquareBlock(const AttrMap& attrs);

/// Errors: kInvalidArgument in TensorFlow's words if the rank is not 4.
absl::Status CheckImages(absl::Span<const int64_t> input);

// --- SpaceToDepth, DepthToSpace -----------------------------------------------------------------

struct DepthAttrs {
  int64_t block = 0;
  bool channels_first = false;

  int channels() const { return channels_first ? 1 : 3; }
  int rows() const { return channels_first ? 2 : 1; }
  int cols() const { return rows() + 1; }
  /// Errors: kInvalidArgument in TensorFlow's words; kUnimplemented for other formats.
  static absl::StatusOr<DepthAttrs> FromAttrs(const AttrMap& attrs);
};

/// The output's dimensions. Errors: kInvalidArgument in TensorFlow's words if the input is not of
/// rank 4 or its dimensions are no multiples of the block.
absl::StatusOr<Dims> PrepareSpaceToDepth(const DepthAttrs& attrs, absl::Span<const int64_t> input);
absl::StatusOr<Dims> PrepareDepthToSpace(const DepthAttrs& attrs, absl::Span<const int64_t> input);

}  // namespace formwork
