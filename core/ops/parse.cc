#include "core/ops/parse.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<ParseExampleAttrs> ParseExampleAttrs::FromAttrs(const AttrMap& attrs) {
  struct Given {
    std::vector<DType> dense;
    std::vector<PartialShape> shapes;
  };
  using A = ParseExampleAttrs;
  FORMWORK_ASSIGN_OR_RETURN(
      A read, ReadAttrs<A>(attrs, "sparse_types", &A::sparse, "ragged_value_types", &A::ragged,
                           "ragged_split_types", &A::splits));
  FORMWORK_ASSIGN_OR_RETURN(const Given given, ReadAttrs<Given>(attrs, "Tdense", &Given::dense,
                                                                "dense_shapes", &Given::shapes));
  // The op of datasets does not say it.
  const auto num_sparse = static_cast<int64_t>(read.sparse.size());
  if (attrs.GetOr<int64_t>("num_sparse", num_sparse) != num_sparse) {
    return InvalidArgument("len(sparse_keys) != len(sparse_types)");
  }
  if (read.ragged.size() != read.splits.size()) {
    return InvalidArgument("len(ragged_value_types) != len(ragged_split_types)");
  }
  if (given.dense.size() != given.shapes.size()) {
    return InvalidArgument("len(dense_keys) != len(dense_shapes): ", given.dense.size(), " vs. ",
                           given.shapes.size());
  }
  for (size_t i = 0; i < given.dense.size(); ++i) {
    const PartialShape& shape = given.shapes[i];
    DenseFeature feature;
    feature.dtype = given.dense[i];
    bool known = shape.known_rank();
    for (int d = 0; known && d < shape.rank(); ++d) {
      if (d == 0 && shape.dim(0) < 0) {
        feature.variable = true;
        continue;
      }
      known = shape.dim(d) >= 0 &&
              !__builtin_mul_overflow(feature.row_elements, shape.dim(d), &feature.row_elements);
      feature.row.push_back(shape.dim(d));
    }
    if (!known) {
      return InvalidArgument("dense_shapes[", i,
                             "] has unknown rank or unknown inner dimensions: ", shape.ToString());
    }
    if (feature.variable && feature.row_elements == 0) {
      return InvalidArgument("dense_shapes[", i, "] has rows without elements: ", shape.ToString());
    }
    read.dense.push_back(std::move(feature));
  }
  return read;
}

absl::Status CheckParseExample(const ParseExampleAttrs& attrs, const Tensor& serialized,
                               const Tensor& names, int64_t sparse_keys, int64_t dense_keys,
                               int64_t ragged_keys) {
  if (serialized.rank() > 1) {
    return InvalidArgument("Expected serialized to be a scalar or vector, got shape: ",
                           serialized.shape().ToString());
  }
  if (names.num_elements() > 0 && names.shape() != serialized.shape()) {
    return InvalidArgument(
        "Expected names have the same shape as serialized: name.shape=", names.shape().ToString(),
        ", serialized.shape=", serialized.shape().ToString());
  }
  const auto check = [](absl::string_view kind, int64_t keys, size_t types) {
    if (keys == static_cast<int64_t>(types)) return absl::OkStatus();
    return InvalidArgument("Expected len(", kind, "_keys) == len(", kind, "_types) but got: ", keys,
                           " vs. ", types);
  };
  FORMWORK_RETURN_IF_ERROR(check("sparse", sparse_keys, attrs.sparse.size()));
  FORMWORK_RETURN_IF_ERROR(check("dense", dense_keys, attrs.dense.size()));
  return check("ragged", ragged_keys, attrs.ragged.size());
}

absl::Status CheckDenseDefault(const DenseFeature& feature, int i, const Shape& value) {
  if (feature.variable) {
    if (value.num_elements() == 1) return absl::OkStatus();
    Dims shape = feature.row;
    shape.insert(shape.begin(), -1);
    return InvalidArgument("dense_shape[", i, "] is a variable length shape: ", DimsText(shape),
                           ", therefore def_value[", i,
                           "] must contain a single element (the padding element).  But its "
                           "shape is: ",
                           value.ToString());
  }
  if (value.num_elements() == 0 && feature.row_elements != 0) return absl::OkStatus();
  if (value.dims() == absl::MakeConstSpan(feature.row)) return absl::OkStatus();
  return InvalidArgument("def_value[", i, "].shape() == ", value.ToString(),
                         " is not compatible with dense_shapes_[", i,
                         "] == ", DimsText(feature.row));
}

namespace {

absl::Status ParseExampleShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ParseExampleAttrs attrs, ParseExampleAttrs::FromAttrs(c.attrs()));
  const PartialShape& serialized = c.input(0);
  if (!serialized.known_rank() || serialized.rank() > 1) return absl::OkStatus();
  const bool batched = serialized.rank() == 1;
  const int64_t rank = batched ? 2 : 1;
  int output = 0;
  const int sparse = static_cast<int>(attrs.sparse.size());
  for (; output < sparse; ++output) c.set_output(output, PartialShape::Trusted({-1, rank}));
  for (; output < 2 * sparse; ++output) c.set_output(output, PartialShape::OfRank(1));
  for (; output < 3 * sparse; ++output) c.set_output(output, PartialShape::Trusted({rank}));
  for (const DenseFeature& feature : attrs.dense) {
    Dims dims = feature.row;
    if (feature.variable) dims.insert(dims.begin(), -1);
    if (batched) dims.insert(dims.begin(), serialized.dim(0));
    c.set_output(output++, PartialShape::Trusted(dims));
  }
  for (size_t i = 0; i < attrs.ragged.size(); ++i) c.set_output(output++, PartialShape::OfRank(1));
  const int64_t splits = batched ? (serialized.dim(0) < 0 ? -1 : serialized.dim(0) + 1) : 0;
  for (size_t i = 0; i < attrs.ragged.size(); ++i) {
    c.set_output(output++, PartialShape::Trusted({splits}));
  }
  return absl::OkStatus();
}

absl::Status DecodeCsvShape(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
  for (int i = 1; i < c.num_inputs(); ++i) {
    const PartialShape& value = c.input(i);
    if (value.rank() > 1) return InvalidArgument("Shape of a default must be a scalar or a vector");
    if (value.rank() == 1 && value.dim(0) > 1) {
      return InvalidArgument(
          "Shape of a default must be a length-0 or length-1 vector, or a "
          "scalar.");
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterParseOps(OpRegistry& registry) {
  registry.Add(
      "DecodeCSV(records: string, record_defaults: OUT_TYPE) -> (output: OUT_TYPE); OUT_TYPE: "
      "list({float, double, int32, int64, string}) >= 1; field_delim: string = \",\"; "
      "use_quote_delim: bool = true; na_value: string = \"\"; select_cols: list(int) = []",
      {.shape_fn = DecodeCsvShape});
  registry.Add(
      "ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, "
      "ragged_keys: string, dense_defaults: Tdense) -> (sparse_indices: num_sparse*int64, "
      "sparse_values: sparse_types, sparse_shapes: num_sparse*int64, dense_values: Tdense, "
      "ragged_values: ragged_value_types, ragged_row_splits: ragged_split_types); Tdense: "
      "list({float, int64, string}) >= 0; num_sparse: int >= 0; sparse_types: list({float, int64, "
      "string}) >= 0; ragged_value_types: list({float, int64, string}) >= 0; ragged_split_types: "
      "list(indextype) >= 0; dense_shapes: list(shape) >= 0",
      {.shape_fn = ParseExampleShape});
}

}  // namespace formwork
