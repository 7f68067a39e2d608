#include "gpu/moves.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/fill.h"
#include "core/ops/host_values.h"
#include "core/ops/join.h"
#include "core/ops/pad.h"
#include "core/ops/permute.h"
#include "core/ops/split.h"
#include "core/ops/strided_slice.h"

namespace formwork {
namespace {

using PlannerFactory = absl::StatusOr<MovePlanner> (*)(KernelInit&);

// A plan of one output and one copy to it.
absl::StatusOr<MovePlan> OneMove(Dims output, int input, int64_t from, int64_t to, CopyDims dims) {
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(output));
  MovePlan plan;
  if (shape.num_elements() > 0) plan.moves.push_back({input, 0, from, to, std::move(dims)});
  plan.outputs.push_back(std::move(shape));
  return plan;
}

absl::StatusOr<MovePlanner> Transpose(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const TransposeGeometry geometry,
                              PrepareTranspose(x.dims(), ctx.input(1)));
    const Dims from = RowMajorStrides(x);
    const Dims to = RowMajorStrides(Shape::Trusted(geometry.output));
    CopyDims dims;
    for (size_t d = 0; d < geometry.axes.size(); ++d) {
      dims.push_back({geometry.output[d], from[geometry.axes[d]], to[d]});
    }
    return OneMove(geometry.output, 0, 0, 0, std::move(dims));
  });
}

absl::StatusOr<MovePlanner> ReverseV2(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const ReversedMask reversed, PrepareReverse(x.dims(), ctx.input(1)));
    const Dims strides = RowMajorStrides(x);
    CopyDims dims;
    int64_t first = 0;
    for (int d = 0; d < x.rank(); ++d) {
      dims.push_back({x.dim(d), reversed[d] ? -strides[d] : strides[d], strides[d]});
      if (reversed[d]) first += (x.dim(d) - 1) * strides[d];
    }
    return OneMove(Dims(x.dims().begin(), x.dims().end()), 0, first, 0, std::move(dims));
  });
}

absl::StatusOr<MovePlanner> Tile(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const TileGeometry geometry, PrepareTile(x.dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    const Dims from = RowMajorStrides(x), to = RowMajorStrides(shape);
    CopyDims dims;
    for (int d = 0; d < x.rank(); ++d) {
      dims.push_back({geometry.times[d], 0, x.dim(d) * to[d]});
      dims.push_back({x.dim(d), from[d], to[d]});
    }
    return OneMove(geometry.output, 0, 0, 0, std::move(dims));
  });
}

absl::StatusOr<MovePlanner> BroadcastTo(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareBroadcastTo(x.dims(), ctx.input(1)));
    const int added = shape.rank() - x.rank();
    const Dims from = RowMajorStrides(x), to = RowMajorStrides(shape);
    CopyDims dims;
    for (int d = 0; d < shape.rank(); ++d) {
      const bool repeated = d < added || x.dim(d - added) == 1;
      dims.push_back({shape.dim(d), repeated ? 0 : from[d - added], to[d]});
    }
    return OneMove(Dims(shape.dims().begin(), shape.dims().end()), 0, 0, 0, std::move(dims));
  });
}

// The elements of `x` in a slice: where the first one is, and from that on where each is, and goes
// in a value of their own.
CopyDims SliceDims(const Shape& x, const SliceBounds& bounds, int64_t& first) {
  const Dims strides = RowMajorStrides(x);
  CopyDims dims(bounds.dims.size());
  first = 0;
  int64_t to = 1;
  for (size_t d = bounds.dims.size(); d-- > 0;) {
    const SliceDim& dim = bounds.dims[d];
    first += dim.begin * strides[d];
    // A stride beyond the value is never taken; its product may overflow.
    dims[d] = {dim.size, dim.size > 1 ? strides[d] * dim.stride : 0, to};
    to *= dim.size;
  }
  return dims;
}

absl::StatusOr<MovePlan> PlanSlice(const Shape& x, const SliceBounds& bounds) {
  int64_t first = 0;
  CopyDims dims = SliceDims(x, bounds, first);
  return OneMove(bounds.output, 0, first, 0, std::move(dims));
}

absl::StatusOr<MovePlanner> Slice(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const SliceBounds bounds,
                              PrepareSlice(x.dims(), ctx.input(1), ctx.input(2)));
    return PlanSlice(x, bounds);
  });
}

absl::StatusOr<MovePlanner> StridedSlice(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(init.attrs()));
  return MovePlanner([masks](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(
        const SliceBounds bounds,
        PrepareStridedSlice(masks, x.dims(), ctx.input(1), ctx.input(2), ctx.input(3)));
    return PlanSlice(x, bounds);
  });
}

absl::StatusOr<MovePlanner> StridedSliceGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(init.attrs()));
  return MovePlanner([masks](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& dy = ctx.input(4).shape();
    FORMWORK_ASSIGN_OR_RETURN(const StridedSliceGradGeometry geometry,
                              PrepareStridedSliceGrad(masks, ctx.input(0), ctx.input(1),
                                                      ctx.input(2), ctx.input(3), dy.dims()));
    MovePlan plan;
    plan.outputs.push_back(geometry.output);
    if (!geometry.bounds.whole) plan.fill = MovePlan::Fill::kZeros;
    if (dy.num_elements() == 0) return plan;
    int64_t first = 0;
    CopyDims dims = SliceDims(geometry.output, geometry.bounds, first);
    for (CopyDim& dim : dims) std::swap(dim.src, dim.dst);
    plan.moves.push_back({4, 0, 0, first, std::move(dims)});
    return plan;
  });
}

// Entries of an axis of the whole, which is [rows, axis, inner], as a value of their own.
struct Part {
  int64_t begin;
  int64_t size;
};

CopyDims PartDims(const Shape& whole, int axis, const Part& part, bool to_whole) {
  const absl::Span<const int64_t> dims = whole.dims();
  const int64_t inner = ProductOf(dims.subspan(static_cast<size_t>(axis) + 1));
  const int64_t rows = ProductOf(dims.first(static_cast<size_t>(axis)));
  const int64_t of_whole = whole.dim(axis) * inner, of_part = part.size * inner;
  return {{rows, to_whole ? of_part : of_whole, to_whole ? of_whole : of_part}, {of_part, 1, 1}};
}

int64_t FirstOf(const Shape& whole, int axis, const Part& part) {
  return part.begin * ProductOf(whole.dims().subspan(static_cast<size_t>(axis) + 1));
}

absl::StatusOr<MovePlanner> ConcatV2(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const int n = ctx.num_inputs() - 1;
    const auto dims_of = [&](int i) { return ctx.input(i).shape().dims(); };
    FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry, PrepareConcat(n, dims_of, ctx.input(n)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    MovePlan plan;
    plan.outputs.push_back(shape);
    int64_t begin = 0;
    for (int i = 0; i < n; ++i) {
      const Part part{begin, ctx.input(i).dim(geometry.axis)};
      begin += part.size;
      if (ctx.input(i).num_elements() == 0) continue;
      plan.moves.push_back({i, 0, 0, FirstOf(shape, geometry.axis, part),
                            PartDims(shape, geometry.axis, part, /*to_whole=*/true)});
    }
    return plan;
  });
}

absl::StatusOr<MovePlanner> Pack(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PackAttrs attrs, PackAttrs::FromAttrs(init.attrs()));
  return MovePlanner([attrs](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const int n = ctx.num_inputs();
    const auto dims_of = [&](int i) { return ctx.input(i).shape().dims(); };
    FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry, PreparePack(attrs, n, dims_of));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    MovePlan plan;
    plan.outputs.push_back(shape);
    for (int i = 0; i < n && shape.num_elements() > 0; ++i) {
      const Part part{i, 1};
      plan.moves.push_back({i, 0, 0, FirstOf(shape, geometry.axis, part),
                            PartDims(shape, geometry.axis, part, /*to_whole=*/true)});
    }
    return plan;
  });
}

void AddPart(MovePlan& plan, int input, const Shape& whole, int axis, const Part& part,
             Shape shape) {
  if (shape.num_elements() > 0) {
    plan.moves.push_back({input, static_cast<int>(plan.outputs.size()), FirstOf(whole, axis, part),
                          0, PartDims(whole, axis, part, /*to_whole=*/false)});
  }
  plan.outputs.push_back(std::move(shape));
}

absl::StatusOr<MovePlanner> Unpack(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const UnpackAttrs attrs, UnpackAttrs::FromAttrs(init.attrs()));
  return MovePlanner([attrs](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& whole = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const UnpackGeometry geometry,
                              PrepareUnpack(attrs, whole.dims(), ctx.num_outputs()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    MovePlan plan;
    for (int i = 0; i < ctx.num_outputs(); ++i) {
      AddPart(plan, 0, whole, geometry.axis, {i, 1}, shape);
    }
    return plan;
  });
}

// The parts of input `input`, along an axis, of these sizes.
MovePlan PlanParts(int input, const Shape& whole, int axis, const Dims& sizes) {
  MovePlan plan;
  Dims dims(whole.dims().begin(), whole.dims().end());
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    dims[axis] = size;
    AddPart(plan, input, whole, axis, {begin, size}, Shape::Trusted(dims));
    begin += size;
  }
  return plan;
}

absl::StatusOr<MovePlanner> Split(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& whole = ctx.input(1).shape();
    const int n = ctx.num_outputs();
    FORMWORK_ASSIGN_OR_RETURN(const EqualParts parts, PrepareSplit(whole.dims(), ctx.input(0), n));
    return PlanParts(1, whole, parts.axis, Dims(static_cast<size_t>(n), parts.size));
  });
}

absl::StatusOr<MovePlanner> SplitV(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& whole = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(
        const SizedParts parts,
        PrepareSplitV(whole.dims(), &ctx.input(1), ctx.input(2), ctx.num_outputs()));
    return PlanParts(0, whole, parts.axis, parts.sizes);
  });
}

template <bool kWithValue>
absl::StatusOr<MovePlanner> Pad(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const PadGeometry geometry, PreparePad(x.dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    if (kWithValue && !ctx.input(2).shape().is_scalar()) {
      return InvalidArgument("constant_values must be a scalar. Found: ",
                             ctx.input(2).shape().ToString());
    }
    const Dims from = RowMajorStrides(x), to = RowMajorStrides(shape);
    CopyDims dims;
    int64_t first = 0;
    for (int d = 0; d < x.rank(); ++d) {
      dims.push_back({x.dim(d), from[d], to[d]});
      first += geometry.before[d] * to[d];
    }
    MovePlan plan;
    plan.outputs.push_back(shape);
    if (shape != x) {
      plan.fill = kWithValue ? MovePlan::Fill::kValue : MovePlan::Fill::kZeros;
      if (kWithValue) std::memcpy(&plan.fill_value, ctx.input(2).raw(), ctx.input(2).bytes());
    }
    if (x.num_elements() > 0) plan.moves.push_back({0, 0, 0, first, std::move(dims)});
    return plan;
  });
}

// A plan of one output, of which all elements are alike.
MovePlan Filled(Shape shape, MovePlan::Fill fill) {
  MovePlan plan;
  plan.outputs.push_back(std::move(shape));
  plan.fill = fill;
  return plan;
}

absl::StatusOr<MovePlanner> Fill(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(0), "dims"));
    const Shape& value = ctx.input(1).shape();
    if (value.num_elements() != 1) {
      return InvalidArgument("value must represent a scalar, got shape ", value.ToString());
    }
    MovePlan plan = Filled(std::move(shape), MovePlan::Fill::kInput);
    plan.fill_input = 1;
    return plan;
  });
}

absl::StatusOr<MovePlanner> Empty(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(0), "shape"));
    return Filled(std::move(shape), MovePlan::Fill::kZeros);  // Of other calls nothing is seen.
  });
}

absl::StatusOr<MovePlanner> ZerosLike(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    return Filled(ctx.input(0).shape(), MovePlan::Fill::kZeros);
  });
}

absl::StatusOr<MovePlanner> OnesLike(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  formwork_element::Bytes16 one{};
  const auto set = [&](auto value) { std::memcpy(&one, &value, sizeof(value)); };
  if (dtype == DType::kFloat || dtype == DType::kComplex64) {
    set(1.0f);
  } else if (dtype == DType::kDouble || dtype == DType::kComplex128) {
    set(1.0);
  } else if (dtype == DType::kHalf) {
    set(half(1.0f));
  } else if (dtype == DType::kBfloat16) {
    set(bfloat16(1.0f));
  } else if (IsInteger(dtype) || dtype == DType::kBool) {
    set(uint64_t{1});
  } else {
    return Unimplemented("OnesLike of ", DTypeName(dtype), " on a GPU");
  }
  return MovePlanner([one](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    MovePlan plan = Filled(ctx.input(0).shape(), MovePlan::Fill::kValue);
    plan.fill_value = one;
    return plan;
  });
}

const absl::flat_hash_map<absl::string_view, PlannerFactory>& Planners() {
  static const auto* const planners = new absl::flat_hash_map<absl::string_view, PlannerFactory>{
      {"BroadcastTo", &BroadcastTo},
      {"ConcatV2", &ConcatV2},
      {"DepthToSpace", &PlanDepthToSpace},
      {"Diag", &PlanDiag},
      {"DiagPart", &PlanDiagPart},
      {"Empty", &Empty},
      {"Fill", &Fill},
      {"OnesLike", &OnesLike},
      {"Pack", &Pack},
      {"Pad", &Pad<false>},
      {"PadV2", &Pad<true>},
      {"ReverseV2", &ReverseV2},
      {"Slice", &Slice},
      {"SpaceToDepth", &PlanSpaceToDepth},
      {"Split", &Split},
      {"SplitV", &SplitV},
      {"StridedSlice", &StridedSlice},
      {"StridedSliceGrad", &StridedSliceGrad},
      {"Tile", &Tile},
      {"Transpose", &Transpose},
      {"Unpack", &Unpack},
      {"ZerosLike", &ZerosLike},
  };
  return *planners;
}

}  // namespace

std::vector<absl::string_view> MovingOps() {
  std::vector<absl::string_view> ops;
  for (const auto& [op, factory] : Planners()) ops.push_back(op);
  std::sort(ops.begin(), ops.end());
  return ops;
}

absl::StatusOr<MovePlanner> MakeMovePlanner(KernelInit& init) {
  for (const DType dtype : init.output_dtypes()) {
    if (!IsPlainData(dtype)) {
      return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
    }
  }
  return Planners().at(init.op().name)(init);
}

}  // namespace formwork
