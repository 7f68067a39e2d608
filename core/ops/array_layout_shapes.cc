// Shape functions of the ops that move, pad, cut and fold.

#include <optional>

#include "absl/functional/function_ref.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/blocks.h"
#include "core/ops/diagonal.h"
#include "core/ops/pad.h"
#include "core/ops/permute.h"
#include "core/ops/strided_slice.h"

namespace formwork::array_shapes {
namespace {

using PreparePadding = absl::FunctionRef<absl::StatusOr<PadGeometry>(
    absl::Span<const int64_t> input, const Tensor& paddings)>;

absl::Status PaddedShape(InferenceContext& c, PreparePadding prepare) {
  const PartialShape& input = c.input(0);
  const PartialShape& paddings = c.input(1);
  if (c.constant(1) != nullptr && input.known_rank()) {
    FORMWORK_ASSIGN_OR_RETURN(const PadGeometry geometry, prepare(input.dims(), *c.constant(1)));
    return SetOutput(c, 0, geometry.output);
  }
  int64_t rank = input.rank();
  if (rank < 0 && paddings.rank() == 2) rank = paddings.dim(0);
  return rank < 0 || rank > kMaxRank ? absl::OkStatus()
                                     : SetOutput(c, 0, Dims(static_cast<size_t>(rank), -1));
}

// `input` has a known rank, the blocks and margins need not be known.
template <typename Prepare>
absl::Status BlockShape(InferenceContext& c, Prepare prepare) {
  const bool square = c.num_inputs() == 2;
  const PartialShape input = square ? shapes::OrOfRank(c.input(0), 4) : c.input(0);
  const Tensor* const margins = c.constant(c.num_inputs() - 1);
  Tensor block;
  if (square) {
    FORMWORK_RETURN_IF_ERROR(CheckImages(input.dims()));
    FORMWORK_ASSIGN_OR_RETURN(block, SquareBlock(c.attrs()));
  } else if (c.constant(1) != nullptr) {
    block = *c.constant(1);
  }
  if (!input.known_rank()) return absl::OkStatus();
  if ((!square && c.constant(1) == nullptr) || margins == nullptr) {
    return SetOutput(c, 0, Dims(static_cast<size_t>(input.rank()), -1));
  }
  FORMWORK_ASSIGN_OR_RETURN(const BlocksGeometry blocks, prepare(input.dims(), block, *margins));
  return SetOutput(c, 0, blocks.output);
}

template <typename Prepare>
absl::Status DepthShape(InferenceContext& c, Prepare prepare) {
  FORMWORK_ASSIGN_OR_RETURN(const DepthAttrs attrs, DepthAttrs::FromAttrs(c.attrs()));
  const PartialShape input = c.input(0).known_rank() ? c.input(0) : PartialShape::OfRank(4);
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, prepare(attrs, input.dims()));
  return SetOutput(c, 0, dims);
}

}  // namespace

absl::Status Transpose(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) {
    c.set_output(0, OfLength(c.input(1)));
    return absl::OkStatus();
  }
  if (c.constant(1) == nullptr) {
    c.set_output(0, PartialShape::OfRank(input.rank()));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const TransposeGeometry geometry,
                            PrepareTranspose(input.dims(), *c.constant(1)));
  return SetOutput(c, 0, geometry.output);
}

absl::Status Pad(InferenceContext& c) { return PaddedShape(c, PreparePad); }

absl::Status MirrorPad(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(c.attrs()));
  return PaddedShape(c, [&](absl::Span<const int64_t> input, const Tensor& paddings) {
    return PrepareMirrorPad(attrs, input, paddings);
  });
}

absl::Status MirrorPadGrad(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const MirrorAttrs attrs, MirrorAttrs::FromAttrs(c.attrs()));
  return PaddedShape(c, [&](absl::Span<const int64_t> input, const Tensor& paddings) {
    return PrepareMirrorPadGrad(attrs, input, paddings);
  });
}

absl::Status Slice(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  std::optional<Dims> begin = ConstantIntegers(c, 1), size = ConstantIntegers(c, 2);
  int rank = input.rank();
  if (rank < 0) {
    const PartialShape from_begin = OfLength(c.input(1)), from_size = OfLength(c.input(2));
    rank = from_begin.known_rank() ? from_begin.rank() : from_size.rank();
  }
  if (rank < 0) return absl::OkStatus();
  const auto fits = [rank](const std::optional<Dims>& values) {
    return values && static_cast<int>(values->size()) == rank;
  };
  const PartialShape dims = input.known_rank() ? input : PartialShape::OfRank(rank);
  SliceBounds bounds;
  FORMWORK_RETURN_IF_ERROR(ResolveSlice(fits(begin) ? &*begin : nullptr,
                                        fits(size) ? &*size : nullptr, dims.dims(), bounds));
  if (const Dims* sizes = c.elements(2);
      sizes != nullptr && static_cast<int>(sizes->size()) == rank) {
    for (int d = 0; d < rank; ++d) {
      if ((*sizes)[d] >= 0) bounds.output[d] = (*sizes)[d];
    }
  }
  return SetOutput(c, 0, bounds.output);
}

absl::Status DynamicSlice(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (const Dims* sizes = c.elements(2)) return SetOutput(c, 0, *sizes);
  if (!input.known_rank()) return absl::OkStatus();
  return SetOutput(c, 0, Dims(input.rank(), -1));
}

absl::Status StridedSlice(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  std::optional<Dims> strides = ConstantIntegers(c, 3);
  if (!input.known_rank() || !strides) return absl::OkStatus();
  std::optional<Dims> begin = ConstantIntegers(c, 1), end = ConstantIntegers(c, 2);
  SliceBounds bounds;
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(c.attrs()));
  FORMWORK_RETURN_IF_ERROR(ResolveStridedSlice(
      masks, begin ? &*begin : nullptr, end ? &*end : nullptr, *strides, input.dims(), bounds));
  return SetOutput(c, 0, bounds.output);
}

absl::Status SpaceToBatchNd(InferenceContext& c) { return BlockShape(c, PrepareSpaceToBatch); }
absl::Status BatchToSpaceNd(InferenceContext& c) { return BlockShape(c, PrepareBatchToSpace); }

absl::Status SpaceToDepth(InferenceContext& c) { return DepthShape(c, PrepareSpaceToDepth); }
absl::Status DepthToSpace(InferenceContext& c) { return DepthShape(c, PrepareDepthToSpace); }

absl::Status ReverseV2(InferenceContext& c) {
  if (c.input(0).known_rank() && c.constant(1) != nullptr) {
    FORMWORK_RETURN_IF_ERROR(PrepareReverse(c.input(0).dims(), *c.constant(1)).status());
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status ReverseSequence(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ReverseSequenceAttrs attrs,
                            ReverseSequenceAttrs::FromAttrs(c.attrs()));
  if (c.input(0).known_rank() && c.input(1).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(CheckReverseSequence(attrs, c.input(0).dims(), c.input(1).dims()));
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status MatrixDiagPart(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(c.attrs()));
  if (c.num_inputs() == 1) {
    const Tensor main = Tensor::Scalar<int32_t>(0);
    FORMWORK_ASSIGN_OR_RETURN(const Band band,
                              PrepareMatrixDiagPart(attrs, c.input(0).dims(), main, {}));
    return SetOutput(c, 0, band.output);
  }
  if (c.constant(1) == nullptr) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(
      const Band band,
      PrepareMatrixDiagPart(attrs, c.input(0).dims(), *c.constant(1), c.input(2).dims()));
  return SetOutput(c, 0, band.output);
}

absl::Status MatrixDiag(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(c.attrs()));
  if (c.num_inputs() == 1) {
    const Tensor main = Tensor::Scalar<int32_t>(0);
    const Tensor any = Tensor::Scalar<int32_t>(-1);
    FORMWORK_ASSIGN_OR_RETURN(const Band band,
                              PrepareMatrixDiag(attrs, c.input(0).dims(), main, &any, &any, {}));
    return SetOutput(c, 0, band.output);
  }
  if (c.constant(1) == nullptr) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(
      const Band band, PrepareMatrixDiag(attrs, c.input(0).dims(), *c.constant(1), c.constant(2),
                                         c.constant(3), c.input(4).dims()));
  return SetOutput(c, 0, band.output);
}

absl::Status MatrixSetDiag(InferenceContext& c) {
  const Tensor main = Tensor::Scalar<int32_t>(0);
  const Tensor* k = c.num_inputs() == 2 ? &main : c.constant(2);
  if (c.input(0).known_rank() && c.input(1).known_rank() && k != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(c.attrs()));
    FORMWORK_RETURN_IF_ERROR(
        PrepareMatrixSetDiag(attrs, c.input(0).dims(), c.input(1).dims(), *k).status());
  }
  return shapes::SameAsFirstInput(c);
}

absl::Status Diag(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDiag(c.input(0).dims()));
  return SetOutput(c, 0, dims);
}

absl::Status DiagPart(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDiagPart(c.input(0).dims()));
  return SetOutput(c, 0, dims);
}

}  // namespace formwork::array_shapes
