#include "core/ops/array_shapes.h"

#include <algorithm>
#include <limits>

#include "core/base/status.h"
#include "core/ops/split.h"

namespace formwork::array_shapes {
namespace {

// What a tensor of sizes says of a shape; nothing where it says something impossible.
PartialShape ShapeFrom(const InferenceContext& c, int i) {
  if (c.constant(i) == nullptr) return OfLength(c.input(i));
  std::optional<Dims> dims = ConstantIntegers(c, i);
  if (!dims) return PartialShape::Unknown();
  absl::StatusOr<PartialShape> shape = PartialShape::Make(*dims);
  return shape.ok() ? *std::move(shape) : PartialShape::Unknown();
}

Dims DimsOf(const PartialShape& shape) { return Dims(shape.dims().begin(), shape.dims().end()); }

// The number of elements, or -1 where it is not known.
int64_t CountElements(const PartialShape& shape) {
  if (!shape.known_rank()) return -1;
  int64_t product = 1;
  for (int64_t dim : shape.dims()) {
    if (dim == 0) return 0;
    product = MultiplyDims(product, dim);
  }
  return product;
}

}  // namespace

PartialShape OfLength(const PartialShape& vector) {
  if (vector.rank() != 1 || vector.dim(0) < 0 || vector.dim(0) > kMaxRank) {
    return PartialShape::Unknown();
  }
  return PartialShape::OfRank(static_cast<int>(vector.dim(0)));
}

int FrontAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return -1;
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::Status SetOutput(InferenceContext& c, int i, const Dims& dims) {
  if (dims.size() <= kMaxRank) c.set_output(i, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

std::optional<Dims> ConstantIntegers(const InferenceContext& c, int i) {
  const Tensor* constant = c.constant(i);
  if (constant == nullptr || constant->num_elements() > 2 * kMaxRank) return std::nullopt;
  absl::StatusOr<Dims> dims = IntegersOf(*constant, "shape");
  if (!dims.ok()) return std::nullopt;
  return *std::move(dims);
}

std::optional<int64_t> ConstantInteger(const InferenceContext& c, int i) {
  std::optional<Dims> values = ConstantIntegers(c, i);
  if (!values || values->size() != 1) return std::nullopt;
  return values->front();
}

int64_t MultiplyDims(int64_t a, int64_t b) {
  int64_t product;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return -1;
  return product;
}

int64_t AddDims(int64_t a, int64_t b) {
  int64_t sum;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return -1;
  return sum;
}

absl::Status ShapeOf(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs() && i < c.num_inputs(); ++i) {
    const int rank = c.input(i).rank();
    c.set_output(i, PartialShape::Trusted({rank >= 0 ? rank : int64_t{-1}}));
  }
  return absl::OkStatus();
}

absl::Status Reshape(InferenceContext& c) {
  std::optional<Dims> dims = ConstantIntegers(c, 1);
  if (!dims) {
    c.set_output(0, OfLength(c.input(1)));
    return absl::OkStatus();
  }
  int unknown = -1;
  int64_t product = 1;
  for (size_t i = 0; i < dims->size(); ++i) {
    if ((*dims)[i] < -1) return absl::OkStatus();
    if ((*dims)[i] == -1) {
      if (unknown >= 0) return absl::OkStatus();
      unknown = static_cast<int>(i);
    } else {
      product = MultiplyDims(product, (*dims)[i]);
    }
  }
  if (unknown >= 0 && product > 0) {
    const int64_t elements = CountElements(c.input(0));
    if (elements >= 0 && elements % product == 0) (*dims)[unknown] = elements / product;
  }
  return SetOutput(c, 0, *dims);
}

absl::Status Squeeze(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  const auto axes = c.attrs().GetOr<std::vector<int64_t>>("squeeze_dims", {});
  const int rank = input.rank();
  absl::InlinedVector<bool, 8> squeezed(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    const int at = FrontAxis(axis, rank);
    if (at < 0) return absl::OkStatus();
    squeezed[at] = true;
  }
  Dims dims;
  for (int d = 0; d < rank; ++d) {
    // Without axes an unknown dimension may be dropped or not.
    if (axes.empty() && input.dim(d) < 0) return absl::OkStatus();
    if (axes.empty() ? input.dim(d) != 1 : !squeezed[d]) dims.push_back(input.dim(d));
  }
  return SetOutput(c, 0, dims);
}

absl::Status ExpandDims(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  std::optional<int64_t> axis = ConstantInteger(c, 1);
  if (!axis) {
    if (input.rank() < kMaxRank) c.set_output(0, PartialShape::OfRank(input.rank() + 1));
    return absl::OkStatus();
  }
  const int at = FrontAxis(*axis, input.rank() + 1);
  if (at < 0) return absl::OkStatus();
  Dims dims = DimsOf(input);
  dims.insert(dims.begin() + at, 1);
  return SetOutput(c, 0, dims);
}

absl::Status Bitcast(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  const auto from = static_cast<int64_t>(DTypeSize(c.input_dtype(0)));
  const auto to = static_cast<int64_t>(DTypeSize(c.attrs().GetOr("type", DType::kInvalid)));
  if (!input.known_rank() || from == 0 || to == 0) return absl::OkStatus();
  Dims dims = DimsOf(input);
  if (from > to) {
    dims.push_back(from / to);
  } else if (from < to) {
    if (dims.empty()) return absl::OkStatus();
    dims.pop_back();
  }
  return SetOutput(c, 0, dims);
}

absl::Status Pack(InferenceContext& c) {
  PartialShape merged = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    std::optional<PartialShape> both = merged.Merge(c.input(i));
    if (!both) return absl::OkStatus();
    merged = *std::move(both);
  }
  if (!merged.known_rank()) return absl::OkStatus();
  const int axis = FrontAxis(c.attrs().GetOr<int64_t>("axis", 0), merged.rank() + 1);
  if (axis < 0) return absl::OkStatus();
  Dims dims = DimsOf(merged);
  dims.insert(dims.begin() + axis, c.num_inputs());
  return SetOutput(c, 0, dims);
}

absl::Status Unpack(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const UnpackAttrs attrs, UnpackAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(UnpackGeometry geometry,
                            PrepareUnpack(attrs, input.dims(), c.num_outputs()));
  for (int i = 0; i < c.num_outputs(); ++i) {
    c.set_output(i, PartialShape::Trusted(geometry.output));
  }
  return absl::OkStatus();
}

absl::Status ConcatV2(InferenceContext& c) {
  const int n = c.num_inputs() - 1;
  std::optional<int64_t> axis = ConstantInteger(c, n);
  int rank = -1;
  for (int i = 0; i < n; ++i) {
    if (c.input(i).known_rank()) rank = c.input(i).rank();
  }
  if (rank < 1) return absl::OkStatus();
  if (!axis) {
    c.set_output(0, PartialShape::OfRank(rank));
    return absl::OkStatus();
  }
  const int at = FrontAxis(*axis, rank);
  if (at < 0) return absl::OkStatus();
  PartialShape merged = PartialShape::OfRank(rank);
  int64_t total = 0;
  for (int i = 0; i < n; ++i) {
    PartialShape input = c.input(i).known_rank() ? c.input(i) : PartialShape::OfRank(rank);
    if (input.rank() != rank) return absl::OkStatus();
    total = AddDims(total, input.dim(at));
    input.set_dim(at, -1);
    std::optional<PartialShape> both = merged.Merge(input);
    if (!both) return absl::OkStatus();
    merged = *std::move(both);
  }
  merged.set_dim(at, total);
  c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

absl::Status Split(InferenceContext& c) {
  const PartialShape& value = c.input(1);
  if (!value.known_rank()) return absl::OkStatus();
  PartialShape part = PartialShape::OfRank(value.rank());
  if (const Tensor* axis = c.constant(0); axis != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(EqualParts parts, PrepareSplit(value.dims(), *axis, c.num_outputs()));
    part = value;
    part.set_dim(parts.axis, parts.size);
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, part);
  return absl::OkStatus();
}

absl::Status SplitV(InferenceContext& c) {
  const PartialShape& value = c.input(0);
  if (!value.known_rank()) return absl::OkStatus();
  const Tensor* const axis = c.constant(2);
  if (axis == nullptr) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(value.rank()));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(SizedParts parts,
                            PrepareSplitV(value.dims(), c.constant(1), *axis, c.num_outputs()));
  PartialShape part = value;
  for (int i = 0; i < c.num_outputs(); ++i) {
    part.set_dim(parts.axis, parts.sizes[i]);
    c.set_output(i, part);
  }
  return absl::OkStatus();
}

absl::Status ConcatOffset(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs() && i + 1 < c.num_inputs(); ++i) {
    c.set_output(i, c.input(i + 1));
  }
  return absl::OkStatus();
}

absl::Status Fill(InferenceContext& c) {
  c.set_output(0, ShapeFrom(c, 0));
  return absl::OkStatus();
}

absl::Status Range(InferenceContext& c) {
  PartialShape shape = PartialShape::OfRank(1);
  std::optional<int64_t> start = ConstantInteger(c, 0), limit = ConstantInteger(c, 1),
                         delta = ConstantInteger(c, 2);
  int64_t distance;
  if (start && limit && delta && *delta != 0 &&
      !__builtin_sub_overflow(*limit, *start, &distance) &&
      (distance == 0 || (distance > 0) == (*delta > 0)) &&
      !(*delta == -1 && distance == std::numeric_limits<int64_t>::min())) {
    shape.set_dim(0, distance / *delta + (distance % *delta != 0 ? 1 : 0));
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status Tile(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  std::optional<Dims> times = ConstantIntegers(c, 1);
  if (!input.known_rank()) {
    c.set_output(0, OfLength(c.input(1)));
    return absl::OkStatus();
  }
  Dims dims(static_cast<size_t>(input.rank()), -1);
  for (size_t d = 0; times && times->size() == dims.size() && d < dims.size(); ++d) {
    dims[d] = MultiplyDims(input.dim(static_cast<int>(d)), (*times)[d]);
  }
  return SetOutput(c, 0, dims);
}

absl::Status BroadcastTo(InferenceContext& c) {
  c.set_output(0, ShapeFrom(c, 1));
  return absl::OkStatus();
}

absl::Status ReduceAxes(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status BroadcastArgs(InferenceContext& c) {
  int64_t length = -1;
  if (c.input(0).rank() == 1 && c.input(1).rank() == 1 && c.input(0).dim(0) >= 0 &&
      c.input(1).dim(0) >= 0) {
    length = std::max(c.input(0).dim(0), c.input(1).dim(0));
  }
  return SetOutput(c, 0, {length});
}

}  // namespace formwork::array_shapes
