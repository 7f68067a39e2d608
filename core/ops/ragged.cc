#include "core/ops/ragged.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<int64_t> PrepareRaggedRange(absl::Span<const int64_t> starts,
                                           absl::Span<const int64_t> limits,
                                           absl::Span<const int64_t> deltas) {
  if (starts.size() > 1) return InvalidArgument("starts must be a scalar or vector");
  if (limits.size() > 1) return InvalidArgument("limits must be a scalar or vector");
  if (deltas.size() > 1) return InvalidArgument("deltas must be a scalar or vector");
  int64_t rows = 1;
  bool vector = false;
  for (const absl::Span<const int64_t>& input : {starts, limits, deltas}) {
    if (input.empty()) continue;
    if (vector && !MayBeEqual(rows, input[0])) {
      return InvalidArgument("starts, limits, and deltas must have the same shape");
    }
    if (!vector || rows < 0) rows = input[0];
    vector = true;
  }
  return rows;
}

absl::StatusOr<RaggedToTensorAttrs> RaggedToTensorAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            attrs.Get<std::vector<std::string>>("row_partition_types"));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t tensors, attrs.Get<int64_t>("num_row_partition_tensors"));
  RaggedToTensorAttrs read;
  for (const std::string& name : names) {
    if (name == "FIRST_DIM_SIZE") {
      if (!read.partitions.empty()) {
        return InvalidArgument("Unsupported partition type:FIRST_DIM_SIZE");
      }
      read.partitions.push_back(RowPartition::kFirstDimSize);
    } else if (name == "VALUE_ROWIDS") {
      if (read.partitions.empty()) {
        return InvalidArgument("Cannot handle VALUE_ROWIDS in first dimension.");
      }
      read.partitions.push_back(RowPartition::kValueRowIds);
    } else if (name == "ROW_SPLITS") {
      read.partitions.push_back(RowPartition::kRowSplits);
    } else {
      return InvalidArgument("Unknown string for partition info type: ", name);
    }
  }
  if (read.partitions.empty()) return InvalidArgument("No row_partition_types given.");
  if (static_cast<int64_t>(read.partitions.size()) != tensors) {
    return InvalidArgument("RaggedTensorToTensor: there are ", tensors,
                           " row partitions and the types of ", read.partitions.size());
  }
  return read;
}

absl::StatusOr<Dims> PrepareRaggedToTensor(int ragged_rank, const PartialShape& shape,
                                           absl::Span<const int64_t> values,
                                           absl::Span<const int64_t> default_value) {
  if (values.empty()) return InvalidArgument("rt_input.flat_values must have rank 1 or more");
  if (default_value.size() >= values.size()) {
    return InvalidArgument("default_value.shape=", DimsText(default_value),
                           " and rt_input.flat_values.shape=", DimsText(values),
                           " are incompatible: default_value.rank = ", default_value.size(),
                           "  must be less than rt_input.flat_values.rank = ", values.size());
  }
  const absl::Span<const int64_t> inner = values.last(default_value.size());
  for (size_t d = 0; d < default_value.size(); ++d) {
    if (default_value[d] == 1 || MayBeEqual(default_value[d], inner[d])) continue;
    return InvalidArgument("default_value.shape=", DimsText(default_value),
                           " and rt_input.flat_values.shape=", DimsText(values),
                           " are incompatible: default_value.shape[", d, "] = ", default_value[d],
                           " but rt_input.flat_values.shape[", values.size() - inner.size() + d,
                           "] = ", inner[d]);
  }
  const size_t rank = static_cast<size_t>(ragged_rank) + values.size();
  Dims output(rank, -1);
  if (shape.known_rank()) {
    if (static_cast<size_t>(shape.rank()) != rank) {
      return InvalidArgument("rt_input.shape and shape=", shape.ToString(),
                             " are incompatible: rt_input.rank = ", rank,
                             " but shape.rank = ", shape.rank());
    }
    output.assign(shape.dims().begin(), shape.dims().end());
  }
  for (size_t d = 1; d < values.size(); ++d) {
    int64_t& dim = output[static_cast<size_t>(ragged_rank) + d];
    if (!MayBeEqual(dim, values[d])) {
      return InvalidArgument("rt_input.shape and shape=", shape.ToString(),
                             " are incompatible: rt_input.shape[",
                             static_cast<size_t>(ragged_rank) + d, "] = ", values[d], " but shape[",
                             static_cast<size_t>(ragged_rank) + d, "] = ", dim);
    }
    if (dim < 0) dim = values[d];
  }
  return output;
}

absl::StatusOr<PartialShape> RaggedShapeFrom(const Tensor& shape) {
  if (shape.rank() > 1) {
    return InvalidArgument("shape must be a vector or -1, but has shape ",
                           shape.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, IntegersOf(shape, "RaggedTensorToTensor: shape"));
  if (shape.rank() == 1) return PartialShape::Make(dims);
  if (dims[0] == -1) return PartialShape::Unknown();
  return InvalidArgument(
      "The only valid scalar shape tensor is the fully unknown shape specified as -1.");
}

absl::StatusOr<FromVariantAttrs> FromVariantAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<FromVariantAttrs>(attrs, "input_ragged_rank",
                                     &FromVariantAttrs::input_ragged_rank, "output_ragged_rank",
                                     &FromVariantAttrs::output_ragged_rank);
}

absl::StatusOr<int> PrepareFromVariant(const FromVariantAttrs& attrs, int encoded_rank) {
  int64_t rank = attrs.input_ragged_rank;
  if (rank == -1) {
    rank = attrs.output_ragged_rank - encoded_rank;
    if (rank < 0) {
      return InvalidArgument(
          "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, "
          "found output_ragged_rank: ",
          attrs.output_ragged_rank, ", encoded_variant.dims(): ", encoded_rank,
          ", inferred input_ragged_rank: ", rank);
    }
  }
  if (attrs.output_ragged_rank != encoded_rank + rank) {
    return InvalidArgument(
        "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
        "output_ragged_rank: ",
        attrs.output_ragged_rank, ", input_ragged_rank: ", rank,
        ", encoded_variant.dims(): ", encoded_rank, ".");
  }
  return static_cast<int>(rank);
}

absl::StatusOr<Dims> PrepareToVariant(bool batched, absl::Span<const int64_t> splits) {
  if (!batched) return Dims{};
  if (splits.size() != 1) return InvalidArgument("nested_splits must be vectors");
  if (splits[0] == 0) {
    return InvalidArgument("rt_nested_splits[0] must have at least one element");
  }
  return Dims{splits[0] < 0 ? -1 : splits[0] - 1};
}

namespace {

absl::Status RaggedRangeShape(InferenceContext& c) {
  c.set_output(0, PartialShape::OfRank(1));
  c.set_output(1, PartialShape::OfRank(1));
  for (int i = 0; i < 3; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const int64_t rows,
      PrepareRaggedRange(c.input(0).dims(), c.input(1).dims(), c.input(2).dims()));
  return array_shapes::SetOutput(c, 0, {rows < 0 ? -1 : rows + 1});
}

absl::Status RaggedToTensorShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const RaggedToTensorAttrs attrs,
                            RaggedToTensorAttrs::FromAttrs(c.attrs()));
  PartialShape shape;
  if (c.constant(0) != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(shape, RaggedShapeFrom(*c.constant(0)));
  } else if (c.input(0).rank() == 1) {
    shape = array_shapes::OfLength(c.input(0));
  }
  if (!c.input(1).known_rank() || !c.input(2).known_rank()) {
    c.set_output(0, std::move(shape));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims,
      PrepareRaggedToTensor(attrs.ragged_rank(), shape, c.input(1).dims(), c.input(2).dims()));
  return array_shapes::SetOutput(c, 0, dims);
}

absl::Status FromVariantShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const FromVariantAttrs attrs, FromVariantAttrs::FromAttrs(c.attrs()));
  if (c.input(0).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(PrepareFromVariant(attrs, c.input(0).rank()).status());
  }
  for (int i = 0; i + 1 < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status ToVariantShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const bool batched, c.attrs().Get<bool>("batched_input"));
  const PartialShape splits = shapes::OrOfRank(c.input(0), 1);
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareToVariant(batched, splits.dims()));
  return array_shapes::SetOutput(c, 0, dims);
}

absl::Status ToVariantGradientShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::ShapeFromInput(c, 2));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status ToSparseShape(InferenceContext& c) {
  const int values = c.num_inputs() - 1;
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(0, PartialShape::OfRank(2));
  c.set_output(2, PartialShape::OfRank(1));
  if (!c.input(values).known_rank()) return absl::OkStatus();
  const int64_t rank = values + c.input(values).rank();
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 0, {-1, rank}));
  return array_shapes::SetOutput(c, 2, {rank});
}

absl::Status RaggedGatherShape(InferenceContext& c) {
  const int splits = c.num_inputs() - 2;
  const PartialShape& values = c.input(splits);
  for (int i = 0; i + 1 < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
  if (!values.known_rank() || values.rank() == 0) return absl::OkStatus();
  PartialShape output = values;
  output.set_dim(0, -1);
  c.set_output(c.num_outputs() - 1, std::move(output));
  return absl::OkStatus();
}

}  // namespace

void RegisterRaggedOps(OpRegistry& registry) {
  registry.Add(
      "RaggedRange(starts: T, limits: T, deltas: T) -> (rt_nested_splits: Tsplits, "
      "rt_dense_values: T); T: {bfloat16, float, double, int32, int64} = int32; Tsplits: indextype "
      "= int64",
      {.shape_fn = RaggedRangeShape, .sized_by_value = true});
  registry.Add(
      "RaggedTensorToTensor(shape: Tshape, values: T, default_value: T, row_partition_tensors: "
      "num_row_partition_tensors*Tindex) -> (result: T); T: type; Tindex: indextype; Tshape: "
      "indextype; num_row_partition_tensors: int >= 1; row_partition_types: list(string)",
      {.shape_fn = RaggedToTensorShape, .sized_by_value = true});
  registry.Add(
      "RaggedTensorToVariant(rt_nested_splits: RAGGED_RANK*Tsplits, rt_dense_values: Tvalues) -> "
      "(encoded_ragged: variant); RAGGED_RANK: int >= 0; Tvalues: type; Tsplits: indextype = "
      "int64; batched_input: bool",
      {.shape_fn = ToVariantShape});
  registry.Add(
      "RaggedTensorFromVariant(encoded_ragged: variant) -> (output_nested_splits: host "
      "output_ragged_rank*Tsplits, output_dense_values: host Tvalues); input_ragged_rank: int >= "
      "-1; output_ragged_rank: int >= 0; Tvalues: type; Tsplits: indextype = int64",
      {.shape_fn = FromVariantShape});
  registry.Add(
      "RaggedTensorToVariantGradient(encoded_ragged_grad: variant, row_splits: Tsplits, "
      "dense_values_shape: int32) -> (dense_values_grad: Tvalues); Tvalues: type; Tsplits: "
      "indextype = int64",
      {.shape_fn = ToVariantGradientShape, .sized_by_value = true});
  registry.Add(
      "RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK*Tsplits, rt_dense_values: T) -> "
      "(sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64); RAGGED_RANK: int >= "
      "1; T: type; Tsplits: indextype = int64",
      {.shape_fn = ToSparseShape, .sized_by_value = true});
  registry.Add(
      "RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK*Tsplits, params_dense_values: "
      "Tvalues, indices: Tindices) -> (output_nested_splits: OUTPUT_RAGGED_RANK*Tsplits, "
      "output_dense_values: Tvalues); Tvalues: type; Tindices: indextype; Tsplits: indextype = "
      "int64; PARAMS_RAGGED_RANK: int >= 1; OUTPUT_RAGGED_RANK: int >= 0",
      {.shape_fn = RaggedGatherShape, .sized_by_value = true});
}

}  // namespace formwork
