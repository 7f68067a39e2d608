#include "core/ops/array_shapes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/fill.h"
#include "core/ops/join.h"
#include "core/ops/reshape.h"
#include "core/ops/shape_arithmetic.h"
#include "core/ops/split.h"

namespace formwork::array_shapes {
namespace {

// What a tensor of sizes says of a shape; nothing where it says something impossible.
PartialShape ShapeFrom(const InferenceContext& c, int i) {
  std::optional<Dims> dims = ConstantIntegers(c, i);
  if (c.constant(i) == nullptr) {
    if (c.elements(i) == nullptr) return OfLength(c.input(i));
    dims = *c.elements(i);
  }
  if (!dims) return PartialShape::Unknown();
  absl::StatusOr<PartialShape> shape = PartialShape::Make(*dims);
  return shape.ok() ? *std::move(shape) : PartialShape::Unknown();
}

// The one size that is not known of a value of so many elements. Beside a 0 it may be anything.
void FillOpenSize(int64_t elements, PartialShape& shape) {
  int open = -1;
  int64_t product = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) >= 0) {
      product = MultiplyDims(product, shape.dim(d)).value_or(0);
    } else if (open >= 0) {
      return;
    } else {
      open = d;
    }
  }
  if (open < 0 || elements <= 0 || product <= 0 || elements % product != 0) return;
  shape.set_dim(open, elements / product);
}

}  // namespace

PartialShape OfLength(const PartialShape& vector) {
  if (vector.rank() != 1 || vector.dim(0) < 0 || vector.dim(0) > kMaxRank) {
    return PartialShape::Unknown();
  }
  return PartialShape::OfRank(static_cast<int>(vector.dim(0)));
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

absl::Status ShapeOf(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs() && i < c.num_inputs(); ++i) {
    const int rank = c.input(i).rank();
    c.set_output(i, PartialShape::Trusted({rank >= 0 ? rank : int64_t{-1}}));
  }
  return absl::OkStatus();
}

absl::Status Reshape(InferenceContext& c) {
  if (c.constant(1) == nullptr) {
    PartialShape output = ShapeFrom(c, 1);
    if (c.input(0).known_rank()) FillOpenSize(CountElements(c.input(0).dims()), output);
    c.set_output(0, std::move(output));
    return absl::OkStatus();
  }
  // Of an unknown rank: a vector of so many elements.
  const Dims unknown = {-1};
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims,
      PrepareReshape(c.input(0).known_rank() ? c.input(0).dims() : absl::MakeConstSpan(unknown),
                     *c.constant(1)));
  return SetOutput(c, 0, dims);
}

absl::Status Squeeze(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const SqueezeAttrs attrs, SqueezeAttrs::FromAttrs(c.attrs()));
  // Without axes an unknown dimension may be dropped or not.
  if (attrs.axes.empty() && !input.fully_known()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareSqueeze(attrs, input.dims()));
  return SetOutput(c, 0, dims);
}

absl::Status ExpandDims(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) return absl::OkStatus();
  if (c.constant(1) == nullptr) {
    return SetOutput(c, 0, Dims(static_cast<size_t>(input.rank()) + 1, -1));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareExpandDims(input.dims(), *c.constant(1)));
  return SetOutput(c, 0, dims);
}

absl::Status Bitcast(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const DType to, c.attrs().Get<DType>("type"));
  const DType from = c.input_dtype(0);
  if (!c.input(0).known_rank() || !IsPlainData(from) || !IsPlainData(to)) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareBitcast(c.input(0).dims(), from, to));
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
  FORMWORK_ASSIGN_OR_RETURN(const PackAttrs attrs, PackAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry,
                            PreparePack(attrs, c.num_inputs(), [&](int) { return merged.dims(); }));
  return SetOutput(c, 0, geometry.output);
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
  PartialShape unknown;  // Of the rank that one of the inputs has.
  for (int i = 0; i < n; ++i) {
    if (c.input(i).known_rank()) unknown = PartialShape::OfRank(c.input(i).rank());
  }
  if (!unknown.known_rank()) return absl::OkStatus();
  if (c.constant(n) == nullptr) {
    c.set_output(0, std::move(unknown));
    return absl::OkStatus();
  }
  const auto dims = [&](int i) {
    return c.input(i).known_rank() ? c.input(i).dims() : unknown.dims();
  };
  FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry, PrepareConcat(n, dims, *c.constant(n)));
  return SetOutput(c, 0, geometry.output);
}

absl::Status ParallelConcat(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, c.attrs().Get<PartialShape>("shape"));
  c.set_output(0, std::move(shape));
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
  bool constant = true;
  for (int i = 0; i < c.num_inputs(); ++i) constant = constant && c.constant(i) != nullptr;
  if (constant) {
    FORMWORK_RETURN_IF_ERROR(
        PrepareConcatOffset(*c.constant(0), c.num_inputs() - 1, [&](int i) -> const Tensor& {
          return *c.constant(i + 1);
        }).status());
  }
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
  int64_t n = -1;
  if (c.constant(0) != nullptr && c.constant(1) != nullptr && c.constant(2) != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(n, PrepareRange(*c.constant(0), *c.constant(1), *c.constant(2)));
  }
  return SetOutput(c, 0, {n});
}

absl::Status LinSpace(InferenceContext& c) {
  const auto scalar = [&](int i) { return shapes::OrOfRank(c.input(i), 0); };
  FORMWORK_ASSIGN_OR_RETURN(const int64_t n,
                            PrepareLinSpace(scalar(0).dims(), scalar(1).dims(), c.constant(2)));
  return SetOutput(c, 0, {n});
}

absl::Status Tile(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.known_rank()) {
    c.set_output(0, OfLength(c.input(1)));
    return absl::OkStatus();
  }
  if (c.constant(1) == nullptr) {
    Dims dims(static_cast<size_t>(input.rank()), -1);
    if (const Dims* times = c.elements(1); times != nullptr && times->size() == dims.size()) {
      for (int d = 0; d < input.rank(); ++d) {
        dims[d] = MultiplyDims(input.dim(d), (*times)[d]).value_or(-1);
      }
    }
    return SetOutput(c, 0, dims);
  }
  FORMWORK_ASSIGN_OR_RETURN(const TileGeometry geometry, PrepareTile(input.dims(), *c.constant(1)));
  return SetOutput(c, 0, geometry.output);
}

absl::Status BroadcastTo(InferenceContext& c) {
  if (c.constant(1) == nullptr || !c.input(0).known_rank()) {
    c.set_output(0, ShapeFrom(c, 1));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, PrepareBroadcastTo(c.input(0).dims(), *c.constant(1)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status BroadcastGradientArgs(InferenceContext& c) {
  if (c.constant(0) == nullptr || c.constant(1) == nullptr) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const BroadcastAxes axes,
                            PrepareBroadcastGradientArgs(*c.constant(0), *c.constant(1)));
  FORMWORK_RETURN_IF_ERROR(SetOutput(c, 0, {static_cast<int64_t>(axes.r0.size())}));
  return SetOutput(c, 1, {static_cast<int64_t>(axes.r1.size())});
}

absl::Status BroadcastArgs(InferenceContext& c) {
  if (c.constant(0) != nullptr && c.constant(1) != nullptr) {
    FORMWORK_RETURN_IF_ERROR(PrepareBroadcastArgs(*c.constant(0), *c.constant(1)).status());
  }
  int64_t length = -1;
  if (c.input(0).rank() == 1 && c.input(1).rank() == 1 && c.input(0).dim(0) >= 0 &&
      c.input(1).dim(0) >= 0) {
    length = std::max(c.input(0).dim(0), c.input(1).dim(0));
  }
  return SetOutput(c, 0, {length});
}

}  // namespace formwork::array_shapes
