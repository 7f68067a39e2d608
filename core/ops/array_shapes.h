#pragma once

// Shape functions of the array family, and what those of other families share with them.

#include "core/ops/shape_inference.h"

namespace formwork::array_shapes {

absl::Status ShapeOf(InferenceContext& c);  ///< Shape and ShapeN: vectors as long as the ranks.
absl::Status Reshape(InferenceContext& c);
absl::Status Squeeze(InferenceContext& c);
absl::Status ExpandDims(InferenceContext& c);
absl::Status Bitcast(InferenceContext& c);
absl::Status Pack(InferenceContext& c);
absl::Status Unpack(InferenceContext& c);
absl::Status ConcatV2(InferenceContext& c);
absl::Status ParallelConcat(InferenceContext& c);
absl::Status Split(InferenceContext& c);
absl::Status SplitV(InferenceContext& c);
absl::Status ConcatOffset(InferenceContext& c);
absl::Status Fill(InferenceContext& c);
absl::Status Range(InferenceContext& c);
absl::Status LinSpace(InferenceContext& c);
absl::Status Tile(InferenceContext& c);
absl::Status BroadcastTo(InferenceContext& c);
absl::Status BroadcastGradientArgs(InferenceContext& c);
absl::Status BroadcastArgs(InferenceContext& c);
absl::Status Transpose(InferenceContext& c);
absl::Status Pad(InferenceContext& c);
absl::Status MirrorPad(InferenceContext& c);
absl::Status MirrorPadGrad(InferenceContext& c);
absl::Status ReverseV2(InferenceContext& c);
absl::Status ReverseSequence(InferenceContext& c);
absl::Status Slice(InferenceContext& c);
absl::Status DynamicSlice(InferenceContext& c);
absl::Status StridedSlice(InferenceContext& c);
/// SpaceToBatchND, and SpaceToBatch, whose blocks are an attr.
absl::Status SpaceToBatchNd(InferenceContext& c);
absl::Status BatchToSpaceNd(InferenceContext& c);
absl::Status SpaceToDepth(InferenceContext& c);
absl::Status DepthToSpace(InferenceContext& c);
absl::Status MatrixDiagPart(InferenceContext& c);
absl::Status MatrixDiag(InferenceContext& c);
absl::Status MatrixSetDiag(InferenceContext& c);
absl::Status Diag(InferenceContext& c);
absl::Status DiagPart(InferenceContext& c);

/// The integers of input i where it is constant and of at most kMaxRank elements, else nothing.
std::optional<Dims> ConstantIntegers(const InferenceContext& c, int i);
/// The rank that a vector of sizes stands for, where its length is known.
PartialShape OfLength(const PartialShape& vector);
/// Output i, unless there are too many dimensions.
absl::Status SetOutput(InferenceContext& c, int i, const Dims& dims);
}  // namespace formwork::array_shapes
