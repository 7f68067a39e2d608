#include "core/ops/gather.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"

namespace formwork {

// --- Gathers ------------------------------------------------------------------------------------

absl::StatusOr<GatherAttrs> GatherAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<GatherAttrs>(attrs, "batch_dims", &GatherAttrs::batch_dims);
}

absl::StatusOr<GatherGeometry> PrepareGather(const GatherAttrs& attrs,
                                             absl::Span<const int64_t> params,
                                             absl::Span<const int64_t> indices, int64_t axis) {
  const int rank = static_cast<int>(params.size());
  const int indices_rank = static_cast<int>(indices.size());
  if (rank < 1) return InvalidArgument("params must be at least 1 dimensional");
  if (axis < -rank || axis >= rank) {
    return InvalidArgument("Shape must be at least rank ",
                           axis < 0 ? -static_cast<uint64_t>(axis) : axis + uint64_t{1},
                           " but is rank ", rank);
  }
  if (axis < 0) axis += rank;
  int64_t batch_dims = attrs.batch_dims;
  if (batch_dims != 0) {
    if (batch_dims < -indices_rank || batch_dims > indices_rank) {
      return InvalidArgument("Expected batch_dims in the range [", -indices_rank, ", ",
                             indices_rank, "], but got ", batch_dims);
    }
    if (batch_dims < 0) batch_dims += indices_rank;
    if (batch_dims >= rank) {
      return InvalidArgument("batch_dims (", batch_dims, ") must be less than rank(params) (", rank,
                             ").");
    }
    if (axis < batch_dims) {
      return InvalidArgument("batch_dims (", batch_dims, ") must be less than or equal to axis (",
                             axis, ").");
    }
    for (int64_t d = 0; d < batch_dims; ++d) {
      if (MayBeEqual(params[d], indices[d])) continue;
      return InvalidArgument("params.shape[", d, "]: ", params[d],
                             " should be equal to indices.shape[", d, "]: ", indices[d]);
    }
  }
  const size_t batch = static_cast<size_t>(batch_dims), at = static_cast<size_t>(axis);
  const absl::Span<const int64_t> picked = indices.subspan(batch);
  GatherGeometry geometry = {.batch = CountElements(params.first(batch)),
                             .outer = CountElements(params.subspan(batch, at - batch)),
                             .dim = params[at],
                             .inner = CountElements(params.subspan(at + 1)),
                             .count = CountElements(picked),
                             .output = Dims(params.begin(), params.begin() + axis)};
  geometry.output.insert(geometry.output.end(), picked.begin(), picked.end());
  geometry.output.insert(geometry.output.end(), params.begin() + axis + 1, params.end());
  return geometry;
}

absl::StatusOr<GatherGeometry> PrepareGather(const GatherAttrs& attrs,
                                             absl::Span<const int64_t> params,
                                             absl::Span<const int64_t> indices,
                                             const Tensor& axis) {
  if (!axis.shape().is_scalar()) return InvalidArgument("axis must be scalar");
  FORMWORK_ASSIGN_OR_RETURN(const int64_t at, IntegerFromTensor(axis, "axis"));
  return PrepareGather(attrs, params, indices, at);
}

absl::StatusOr<GatherGeometry> PrepareGatherRows(const GatherAttrs& attrs,
                                                 absl::Span<const int64_t> params,
                                                 absl::Span<const int64_t> indices) {
  const int64_t batch_dims = attrs.batch_dims;
  return PrepareGather(
      attrs, params, indices,
      batch_dims < 0 ? batch_dims + static_cast<int64_t>(indices.size()) : batch_dims);
}

absl::StatusOr<GatherNdGeometry> PrepareGatherNd(absl::Span<const int64_t> params,
                                                 absl::Span<const int64_t> indices) {
  if (params.empty()) return InvalidArgument("params must be at least a vector");
  if (indices.empty()) return InvalidArgument("indices must be at least a vector");
  const int64_t depth = indices.back();
  if (depth > static_cast<int64_t>(params.size())) {
    return InvalidArgument("index innermost dimension length must be <= params rank; saw: ", depth,
                           " vs. ", params.size());
  }
  const absl::Span<const int64_t> outer = indices.first(indices.size() - 1);
  const absl::Span<const int64_t> slice = params.subspan(static_cast<size_t>(depth));
  GatherNdGeometry geometry = {.depth = depth,
                               .rows = CountElements(outer),
                               .inner = CountElements(slice),
                               .output = Dims(outer.begin(), outer.end())};
  geometry.output.insert(geometry.output.end(), slice.begin(), slice.end());
  if (geometry.rows > 0 && CountElements(params) == 0) {
    return InvalidArgument("Requested more than 0 entries, but params is empty.  Params shape: ",
                           DimsText(params));
  }
  return geometry;
}

// --- Others -------------------------------------------------------------------------------------

absl::StatusOr<OneHotAttrs> OneHotAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<OneHotAttrs>(attrs, "axis", &OneHotAttrs::axis);
}

absl::StatusOr<OneHotGeometry> PrepareOneHot(const OneHotAttrs& attrs,
                                             absl::Span<const int64_t> indices, const Tensor* depth,
                                             absl::Span<const int64_t> on,
                                             absl::Span<const int64_t> off) {
  const int rank = static_cast<int>(indices.size()) + 1;
  if (attrs.axis < -1 || attrs.axis >= rank) {
    return InvalidArgument("Expected axis to be -1 or between [0, ", rank,
                           ").  But received: ", attrs.axis);
  }
  const std::pair<absl::string_view, absl::Span<const int64_t>> scalars[] = {
      {"depth", depth == nullptr ? absl::Span<const int64_t>() : depth->shape().dims()},
      {"on_value", on},
      {"off_value", off}};
  for (const auto& [name, dims] : scalars) {
    if (!dims.empty()) return InvalidArgument(name, " must be a scalar, but got: ", DimsText(dims));
  }
  int64_t size = -1;
  if (depth != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(size, IntegerFromTensor(*depth, "depth"));
    if (size < 0) return InvalidArgument("depth must be non-negative, got: ", size);
  }
  const size_t at = static_cast<size_t>(attrs.axis < 0 ? rank - 1 : attrs.axis);
  OneHotGeometry geometry = {.depth = size,
                             .suffix = CountElements(indices.subspan(at)),
                             .output = Dims(indices.begin(), indices.end())};
  geometry.output.insert(geometry.output.begin() + static_cast<int64_t>(at), size);
  return geometry;
}

absl::Status CheckStitched(int i, absl::Span<const int64_t> first_indices,
                           absl::Span<const int64_t> first_data, absl::Span<const int64_t> indices,
                           absl::Span<const int64_t> data) {
  if (data.size() < indices.size() || !MayBeEqual(data.first(indices.size()), indices)) {
    return InvalidArgument("data[", i, "].shape = ", DimsText(data),
                           " does not start with indices[", i, "].shape = ", DimsText(indices));
  }
  if (!MayBeEqual(data.subspan(indices.size()), first_data.subspan(first_indices.size()))) {
    return InvalidArgument("Need data[0].shape[", first_indices.size(), ":] = data[", i, "].shape[",
                           indices.size(), ":], got data[0].shape = ", DimsText(first_data),
                           ", data[", i, "].shape = ", DimsText(data),
                           ", indices[0].shape = ", DimsText(first_indices), ", indices[", i,
                           "].shape = ", DimsText(indices));
  }
  return absl::OkStatus();
}

absl::StatusOr<Dims> PrepareDynamicPartition(absl::Span<const int64_t> data,
                                             absl::Span<const int64_t> partitions) {
  if (data.size() < partitions.size() || !MayBeEqual(data.first(partitions.size()), partitions)) {
    return InvalidArgument("data.shape must start with partitions.shape, got data.shape = ",
                           DimsText(data), ", partitions.shape = ", DimsText(partitions));
  }
  Dims output = {-1};
  output.insert(output.end(), data.begin() + static_cast<int64_t>(partitions.size()), data.end());
  return output;
}

absl::StatusOr<Dims> PrepareWhere(absl::Span<const int64_t> input) {
  if (input.empty()) return InvalidArgument("WhereOp : Unhandled input dimensions: 0");
  return Dims{-1, static_cast<int64_t>(input.size())};
}

absl::StatusOr<int> PrepareUniqueAxis(absl::Span<const int64_t> input, const Tensor& axis) {
  if (axis.rank() != 1) return InvalidArgument("axis expects a 1D vector.");
  if (axis.num_elements() > 1) {
    return InvalidArgument("axis does not support input tensors larger than 1 elements");
  }
  if (axis.num_elements() == 0) {
    if (input.size() != 1) return InvalidArgument("unique expects a 1D vector.");
    return 0;
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims given, IntegersOf(axis, "axis"));
  const int front = FrontAxis(given[0], static_cast<int>(input.size()));
  if (front < 0) {
    return InvalidArgument("axis has to be between [0, ", input.size(), ")");
  }
  return front;
}

absl::Status CheckUnique(absl::Span<const int64_t> x) {
  return x.size() == 1 ? absl::OkStatus() : InvalidArgument("unique expects a 1D vector.");
}

absl::Status CheckListDiff(absl::Span<const int64_t> x, absl::Span<const int64_t> y) {
  if (x.size() != 1) return InvalidArgument("x should be a 1D vector.");
  return y.size() == 1 ? absl::OkStatus() : InvalidArgument("y should be a 1D vector.");
}

absl::StatusOr<BucketizeAttrs> BucketizeAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      BucketizeAttrs read,
      ReadAttrs<BucketizeAttrs>(attrs, "boundaries", &BucketizeAttrs::boundaries));
  if (!std::is_sorted(read.boundaries.begin(), read.boundaries.end())) {
    return InvalidArgument("Expected sorted boundaries");
  }
  return read;
}

absl::Status CheckBound(absl::Span<const int64_t> sorted, absl::Span<const int64_t> values) {
  if (sorted.size() != 2) {
    return InvalidArgument("Shape must be rank 2 but is rank ", sorted.size(),
                           " for `sorted_inputs` argument");
  }
  if (values.size() != 2) {
    return InvalidArgument("Shape must be rank 2 but is rank ", values.size(),
                           " for `values` argument");
  }
  if (!MayBeEqual(sorted[0], values[0])) {
    return InvalidArgument("Leading dim_size of both tensors must match");
  }
  return absl::OkStatus();
}

absl::StatusOr<Dims> PrepareUnravelIndex(absl::Span<const int64_t> indices,
                                         absl::Span<const int64_t> dims) {
  if (indices.size() > 1) {
    return InvalidArgument("The indices can only be scalar or vector, got \"", DimsText(indices),
                           "\"");
  }
  if (dims.size() != 1) {
    return InvalidArgument("The indices can only be 1-D, got \"", DimsText(dims), "\"");
  }
  Dims output = {dims[0]};
  output.insert(output.end(), indices.begin(), indices.end());
  return output;
}

namespace {

using array_shapes::SetOutput;

absl::Status GatherShape(InferenceContext& c) {
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  if (!params.known_rank() || !indices.known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const GatherAttrs attrs, GatherAttrs::FromAttrs(c.attrs()));
  if (c.constant(2) == nullptr) {
    const int64_t batch = attrs.batch_dims + (attrs.batch_dims < 0 ? indices.rank() : 0);
    const int64_t rank = params.rank() - 1 + indices.rank() - batch;
    if (batch < 0 || rank < 0) return absl::OkStatus();
    return SetOutput(c, 0, Dims(static_cast<size_t>(rank), -1));
  }
  FORMWORK_ASSIGN_OR_RETURN(const GatherGeometry geometry,
                            PrepareGather(attrs, params.dims(), indices.dims(), *c.constant(2)));
  return SetOutput(c, 0, geometry.output);
}

absl::Status GatherV1Shape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const GatherGeometry geometry,
                            PrepareGatherRows({}, c.input(0).dims(), c.input(1).dims()));
  return SetOutput(c, 0, geometry.output);
}

absl::Status GatherNdShape(InferenceContext& c) {
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  if (!params.known_rank() || !indices.known_rank()) return absl::OkStatus();
  if (indices.rank() > 0 && indices.dims().back() < 0) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const GatherNdGeometry geometry,
                            PrepareGatherNd(params.dims(), indices.dims()));
  return SetOutput(c, 0, geometry.output);
}

absl::Status DynamicStitchShape(InferenceContext& c) {
  const int n = c.num_inputs() / 2;
  // The number of rows is the largest index plus one: known where all indices are.
  int64_t rows = 0;
  int known = -1;
  for (int i = 0; i < n; ++i) {
    std::optional<Dims> values = array_shapes::ConstantIntegers(c, i);
    if (!values) {
      rows = -1;
    } else if (rows >= 0) {
      for (int64_t value : *values) rows = std::max(rows, value + 1);
    }
    const PartialShape& indices = c.input(i);
    const PartialShape& data = c.input(n + i);
    if (!indices.known_rank() || !data.known_rank()) continue;
    if (known < 0) known = i;
    FORMWORK_RETURN_IF_ERROR(CheckStitched(i, c.input(known).dims(), c.input(n + known).dims(),
                                           indices.dims(), data.dims()));
  }
  if (known < 0) return absl::OkStatus();
  const absl::Span<const int64_t> data = c.input(n + known).dims();
  Dims dims = {rows};
  dims.insert(dims.end(), data.begin() + c.input(known).rank(), data.end());
  return SetOutput(c, 0, dims);
}

absl::Status DynamicPartitionShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareDynamicPartition(c.input(0).dims(), c.input(1).dims()));
  for (int i = 0; i < c.num_outputs(); ++i) {
    FORMWORK_RETURN_IF_ERROR(SetOutput(c, i, dims));
  }
  return absl::OkStatus();
}

absl::Status WhereShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return SetOutput(c, 0, {-1, -1});
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareWhere(c.input(0).dims()));
  return SetOutput(c, 0, dims);
}

absl::Status OneHotShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const OneHotAttrs attrs, OneHotAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(
      const OneHotGeometry geometry,
      PrepareOneHot(attrs, c.input(0).dims(), c.constant(1), c.input(2).dims(), c.input(3).dims()));
  return SetOutput(c, 0, geometry.output);
}

absl::Status UniqueV2Shape(InferenceContext& c) {
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
  if (!c.input(0).known_rank()) return absl::OkStatus();
  PartialShape output = PartialShape::OfRank(c.input(0).rank());
  if (c.constant(1) != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(const int axis, PrepareUniqueAxis(c.input(0).dims(), *c.constant(1)));
    output = c.input(0);
    c.set_output(1, PartialShape::Trusted({output.dim(axis)}));
    output.set_dim(axis, -1);
  }
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

absl::Status UniqueShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(CheckUnique(shapes::OrOfRank(c.input(0), 1).dims()));
  FORMWORK_RETURN_IF_ERROR(SetOutput(c, 0, {-1}));
  c.set_output(1, c.input(0));
  return c.num_outputs() > 2 ? SetOutput(c, 2, {-1}) : absl::OkStatus();
}

absl::Status ListDiffShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(CheckListDiff(shapes::OrOfRank(c.input(0), 1).dims(),
                                         shapes::OrOfRank(c.input(1), 1).dims()));
  FORMWORK_RETURN_IF_ERROR(SetOutput(c, 0, {-1}));
  return SetOutput(c, 1, {-1});
}

absl::Status BoundShape(InferenceContext& c) {
  if (c.input(0).known_rank() && c.input(1).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(CheckBound(c.input(0).dims(), c.input(1).dims()));
  }
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status UnravelIndexShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareUnravelIndex(c.input(0).dims(), c.input(1).dims()));
  return SetOutput(c, 0, dims);
}

}  // namespace

void RegisterGatherOps(OpRegistry& registry) {
  registry.Add(
      "GatherV2(params: Tparams, indices: Tindices, axis: host Taxis) -> (output: Tparams); "
      "batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: indextype",
      {.shape_fn = GatherShape});
  registry.Add(
      "DynamicStitch(indices: host N*int32, data: N*T) -> (merged: T); N: int >= 1; T: type",
      {.shape_fn = DynamicStitchShape, .sized_by_value = true});
  registry.Add("Where(input: T) -> (index: int64); T: {numbertype, bool} = bool",
               {.shape_fn = WhereShape});
  registry.Add(
      "GatherNd(params: Tparams, indices: Tindices) -> (output: Tparams); Tparams: type; Tindices: "
      "{int16, int32, int64}; bad_indices_policy: string = \"\"",
      {.shape_fn = GatherNdShape});
  registry.Add(
      "OneHot(indices: TI, depth: host int32, on_value: T, off_value: T) -> (output: T); axis: int "
      "= -1; T: type; TI: {uint8, int8, int32, int64} = int64",
      {.shape_fn = OneHotShape, .sized_by_value = true});
  registry.Add(
      "Gather(params: Tparams, indices: Tindices) -> (output: Tparams); validate_indices: bool = "
      "true; Tparams: type; Tindices: indextype",
      {.shape_fn = GatherV1Shape});
  registry.Add(
      "ParallelDynamicStitch(indices: N*int32, data: N*T) -> (merged: T); N: int >= 1; T: type",
      {.shape_fn = DynamicStitchShape, .sized_by_value = true});
  registry.Add(
      "DynamicPartition(data: T, partitions: int32) -> (outputs: num_partitions*T); "
      "num_partitions: int >= 1; T: type",
      {.shape_fn = DynamicPartitionShape});
  registry.Add("Unique(x: T) -> (y: T, idx: out_idx); T: type; out_idx: indextype = int32",
               {.shape_fn = UniqueShape});
  registry.Add(
      "UniqueWithCounts(x: T) -> (y: T, idx: out_idx, count: out_idx); T: type; out_idx: indextype "
      "= int32",
      {.shape_fn = UniqueShape});
  registry.Add(
      "ListDiff(x: T, y: T) -> (out: T, idx: out_idx); T: type; out_idx: indextype = int32",
      {.shape_fn = ListDiffShape});
  registry.Add(
      "Bucketize(input: T) -> (output: int32); T: {int32, int64, float, double}; boundaries: "
      "list(float)",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "LowerBound(sorted_inputs: T, values: T) -> (output: out_type); T: type; out_type: indextype "
      "= int32",
      {.shape_fn = BoundShape});
  registry.Add(
      "UpperBound(sorted_inputs: T, values: T) -> (output: out_type); T: type; out_type: indextype "
      "= int32",
      {.shape_fn = BoundShape});
  registry.Add("UnravelIndex(indices: Tidx, dims: Tidx) -> (output: Tidx); Tidx: indextype = int32",
               {.shape_fn = UnravelIndexShape});
  registry.Add(
      "UniqueV2(x: T, axis: Taxis) -> (y: T, idx: out_idx); T: type; Taxis: indextype = int64; "
      "out_idx: indextype = int32",
      {.shape_fn = UniqueV2Shape});
  registry.Add(
      "UniqueWithCountsV2(x: T, axis: Taxis) -> (y: T, idx: out_idx, count: out_idx); T: type; "
      "Taxis: indextype = int64; out_idx: indextype = int32",
      {.shape_fn = UniqueV2Shape});
}

}  // namespace formwork
