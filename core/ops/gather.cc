#include <algorithm>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

using array_shapes::ConstantInteger;
using array_shapes::FrontAxis;
using array_shapes::OfLength;
using array_shapes::SetOutput;

// The dimensions of `a` from `begin` on, after those in `dims`.
void Append(const PartialShape& a, int begin, Dims& dims) {
  for (int d = begin; d < a.rank(); ++d) dims.push_back(a.dim(d));
}

absl::Status GatherShape(InferenceContext& c) {
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  if (!params.known_rank() || !indices.known_rank() || params.rank() < 1) return absl::OkStatus();
  int64_t batch = c.attrs().GetOr<int64_t>("batch_dims", 0);
  if (batch < 0) batch += indices.rank();
  if (batch < 0 || batch > indices.rank()) return absl::OkStatus();
  std::optional<int64_t> axis = c.num_inputs() > 2 ? ConstantInteger(c, 2) : 0;
  const int64_t rank = params.rank() - 1 + indices.rank() - batch;
  if (!axis) return SetOutput(c, 0, Dims(static_cast<size_t>(rank), -1));
  const int at = FrontAxis(*axis, params.rank());
  if (at < batch) return absl::OkStatus();
  Dims dims(params.dims().begin(), params.dims().begin() + at);
  Append(indices, static_cast<int>(batch), dims);
  Append(params, at + 1, dims);
  return SetOutput(c, 0, dims);
}

absl::Status GatherNdShape(InferenceContext& c) {
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  if (!params.known_rank() || indices.rank() < 1) return absl::OkStatus();
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth < 0 || depth > params.rank()) return absl::OkStatus();
  Dims dims(indices.dims().begin(), indices.dims().end() - 1);
  Append(params, static_cast<int>(depth), dims);
  return SetOutput(c, 0, dims);
}

absl::Status ScatterNdShape(InferenceContext& c) {
  PartialShape shape = OfLength(c.input(2));
  if (c.constant(2) != nullptr) {
    std::optional<Dims> dims = array_shapes::ConstantIntegers(c, 2);
    if (!dims) return absl::OkStatus();
    absl::StatusOr<PartialShape> known = PartialShape::Make(*dims);
    if (known.ok()) shape = *std::move(known);
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status DynamicStitchShape(InferenceContext& c) {
  const int n = c.num_inputs() / 2;
  for (int i = 0; i < n; ++i) {
    const PartialShape& indices = c.input(i);
    const PartialShape& data = c.input(n + i);
    if (!indices.known_rank() || !data.known_rank() || data.rank() < indices.rank()) continue;
    // The number of rows is the largest index plus one: known where all indices are.
    int64_t rows = 0;
    for (int j = 0; j < n; ++j) {
      std::optional<Dims> values = array_shapes::ConstantIntegers(c, j);
      if (!values) {
        rows = -1;
        break;
      }
      for (int64_t value : *values) rows = std::max(rows, value + 1);
    }
    Dims dims = {rows};
    Append(data, indices.rank(), dims);
    return SetOutput(c, 0, dims);
  }
  return absl::OkStatus();
}

absl::Status DynamicPartitionShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  Dims dims = {-1};
  Append(c.input(0), c.input(1).rank(), dims);
  for (int i = 0; i < c.num_outputs(); ++i) {
    FORMWORK_RETURN_IF_ERROR(SetOutput(c, i, dims));
  }
  return absl::OkStatus();
}

absl::Status WhereShape(InferenceContext& c) {
  return SetOutput(c, 0, {-1, c.input(0).known_rank() ? c.input(0).rank() : int64_t{-1}});
}

absl::Status OneHotShape(InferenceContext& c) {
  const PartialShape& indices = c.input(0);
  if (!indices.known_rank()) return absl::OkStatus();
  const int at = FrontAxis(c.attrs().GetOr<int64_t>("axis", -1), indices.rank() + 1);
  if (at < 0) return absl::OkStatus();
  Dims dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.begin() + at, std::max<int64_t>(ConstantInteger(c, 1).value_or(-1), -1));
  return SetOutput(c, 0, dims);
}

absl::Status UniqueShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(SetOutput(c, 0, {-1}));
  c.set_output(1, c.input(0));
  return c.num_outputs() > 2 ? SetOutput(c, 2, {-1}) : absl::OkStatus();
}

absl::Status ListDiffShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(SetOutput(c, 0, {-1}));
  return SetOutput(c, 1, {-1});
}

absl::Status BoundShape(InferenceContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status UnravelIndexShape(InferenceContext& c) {
  const PartialShape& indices = c.input(0);
  const int64_t rank = c.input(1).rank() == 1 ? c.input(1).dim(0) : -1;
  if (indices.rank() == 0) return SetOutput(c, 0, {rank});
  if (indices.rank() == 1) return SetOutput(c, 0, {rank, indices.dim(0)});
  return absl::OkStatus();
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
      "TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: {int16, int32, int64, uint16}; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "ScatterNd(indices: Tindices, updates: T, shape: host Tindices) -> (output: T); T: type; "
      "Tindices: {int16, int32, int64}; bad_indices_policy: string = \"\"",
      {.shape_fn = ScatterNdShape, .sized_by_value = true});
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
      {.shape_fn = GatherShape});
  registry.Add(
      "TensorScatterAdd(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterSub(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterMax(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterMin(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
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
}

}  // namespace formwork
