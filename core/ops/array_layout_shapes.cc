// Shape functions of the ops that move, pad, cut and fold.

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/strided_slice.h"

namespace formwork::array_shapes {
namespace {

Dims DimsOf(const PartialShape& shape) { return Dims(shape.dims().begin(), shape.dims().end()); }

// The input with `sign` times the paddings added.
absl::Status AddPaddings(InferenceContext& c, int sign) {
  const PartialShape& input = c.input(0);
  std::optional<Dims> paddings = ConstantIntegers(c, 1);
  int rank = input.rank();
  if (rank < 0 && c.input(1).rank() == 2 && c.input(1).dim(0) >= 0 &&
      c.input(1).dim(0) <= kMaxRank) {
    rank = static_cast<int>(c.input(1).dim(0));
  }
  if (rank < 0) return absl::OkStatus();
  PartialShape output = PartialShape::OfRank(rank);
  if (paddings && input.known_rank() && static_cast<int>(paddings->size()) == 2 * rank) {
    for (int d = 0; d < rank; ++d) {
      const int64_t added = AddDims((*paddings)[2 * d], (*paddings)[2 * d + 1]);
      if (input.dim(d) < 0 || added < 0) continue;
      const int64_t dim = sign > 0 ? AddDims(input.dim(d), added) : input.dim(d) - added;
      output.set_dim(d, std::max<int64_t>(dim, -1));
    }
  }
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

// Divides (to_depth) or multiplies height and width by the block, and the reverse for the channels.
absl::Status MoveDepth(InferenceContext& c, bool to_depth) {
  const PartialShape& input = c.input(0);
  const std::string format = c.attrs().GetOr<std::string>("data_format", "NHWC");
  const int64_t block = c.attrs().GetOr<int64_t>("block_size", 0);
  if (format == "NCHW_VECT_C" || block < 1 || block > (1 << 30)) return absl::OkStatus();
  PartialShape output = PartialShape::OfRank(4);
  if (input.rank() == 4) {
    auto divide = [](int64_t dim, int64_t by) { return dim >= 0 && dim % by == 0 ? dim / by : -1; };
    const int channels = format == "NCHW" ? 1 : 3;
    output.set_dim(0, input.dim(0));
    for (int d = 1; d < 4; ++d) {
      const int64_t by = d == channels ? block * block : block;
      output.set_dim(d, (d == channels) == to_depth ? MultiplyDims(input.dim(d), by)
                                                    : divide(input.dim(d), by));
    }
  }
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

}  // namespace

absl::Status Transpose(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  std::optional<Dims> perm = ConstantIntegers(c, 1);
  if (!input.known_rank()) {
    c.set_output(0, OfLength(c.input(1)));
    return absl::OkStatus();
  }
  PartialShape output = PartialShape::OfRank(input.rank());
  if (perm && static_cast<int>(perm->size()) == input.rank()) {
    for (int d = 0; d < input.rank(); ++d) {
      const int at = FrontAxis((*perm)[d], input.rank());
      if (at >= 0) output.set_dim(d, input.dim(at));
    }
  }
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

absl::Status Pad(InferenceContext& c) { return AddPaddings(c, 1); }
absl::Status Unpad(InferenceContext& c) { return AddPaddings(c, -1); }

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
  return SetOutput(c, 0, bounds.output);
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

absl::Status SpaceToBatchNd(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  std::optional<Dims> blocks = ConstantIntegers(c, 1), paddings = ConstantIntegers(c, 2);
  Dims dims(static_cast<size_t>(input.rank()), -1);
  if (blocks && paddings && paddings->size() == 2 * blocks->size() &&
      blocks->size() < dims.size()) {
    dims = DimsOf(input);
    for (size_t d = 0; d < blocks->size(); ++d) {
      const int64_t block = (*blocks)[d];
      dims[0] = block > 0 ? MultiplyDims(dims[0], block) : -1;
      const int64_t padded =
          AddDims(dims[d + 1], AddDims((*paddings)[2 * d], (*paddings)[2 * d + 1]));
      dims[d + 1] = block > 0 && padded >= 0 && padded % block == 0 ? padded / block : -1;
    }
  }
  return SetOutput(c, 0, dims);
}

absl::Status BatchToSpaceNd(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  std::optional<Dims> blocks = ConstantIntegers(c, 1), crops = ConstantIntegers(c, 2);
  Dims dims(static_cast<size_t>(input.rank()), -1);
  if (blocks && crops && crops->size() == 2 * blocks->size() && blocks->size() < dims.size()) {
    dims = DimsOf(input);
    for (size_t d = 0; d < blocks->size(); ++d) {
      const int64_t block = (*blocks)[d];
      dims[0] = block > 0 && dims[0] >= 0 && dims[0] % block == 0 ? dims[0] / block : -1;
      const int64_t whole = MultiplyDims(dims[d + 1], block);
      const int64_t cropped = AddDims((*crops)[2 * d], (*crops)[2 * d + 1]);
      dims[d + 1] = whole >= 0 && cropped >= 0 ? std::max<int64_t>(whole - cropped, -1) : -1;
    }
  }
  return SetOutput(c, 0, dims);
}

absl::Status SpaceToDepth(InferenceContext& c) { return MoveDepth(c, true); }
absl::Status DepthToSpace(InferenceContext& c) { return MoveDepth(c, false); }

absl::Status MatrixDiagPart(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  std::optional<Dims> k = ConstantIntegers(c, 1);
  if (input.rank() < 2 || !k || k->empty() || k->size() > 2) return absl::OkStatus();
  const int64_t lower = k->front(), upper = k->back();
  if (lower > upper) return absl::OkStatus();
  const int64_t rows = input.dim(input.rank() - 2), cols = input.dim(input.rank() - 1);
  Dims dims(input.dims().begin(), input.dims().end() - 2);
  if (lower < upper) dims.push_back(upper - lower + 1);
  int64_t longest = -1;
  if (rows >= 0 && cols >= 0) {
    longest = std::min(rows + std::min<int64_t>(upper, 0), cols - std::max<int64_t>(lower, 0));
  }
  dims.push_back(std::max<int64_t>(longest, -1));
  return SetOutput(c, 0, dims);
}

absl::Status MatrixDiag(InferenceContext& c) {
  const PartialShape& diagonal = c.input(0);
  std::optional<Dims> k = ConstantIntegers(c, 1);
  if (diagonal.rank() < 1 || !k || k->empty() || k->size() > 2) return absl::OkStatus();
  const int extra = k->front() < k->back() ? 2 : 1;
  if (diagonal.rank() < extra) return absl::OkStatus();
  Dims dims(diagonal.dims().begin(), diagonal.dims().end() - extra);
  dims.push_back(-1);
  dims.push_back(-1);
  return SetOutput(c, 0, dims);
}

absl::Status Diag(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  Dims dims = DimsOf(c.input(0));
  dims.insert(dims.end(), c.input(0).dims().begin(), c.input(0).dims().end());
  return SetOutput(c, 0, dims);
}

absl::Status DiagPart(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank() || input.rank() % 2 != 0) return absl::OkStatus();
  return SetOutput(c, 0, Dims(input.dims().begin(), input.dims().begin() + input.rank() / 2));
}

}  // namespace formwork::array_shapes
