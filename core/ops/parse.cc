#include "core/ops/parse.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

// Those that `context` or `feature_list` begins the names of.
absl::StatusOr<ParseSequenceAttrs::Parts> ReadParts(const AttrMap& attrs, absl::string_view prefix,
                                                    absl::string_view dense_types) {
  ParseSequenceAttrs::Parts parts;
  const auto name = [prefix](absl::string_view rest) { return absl::StrCat(prefix, "_", rest); };
  using DTypes = std::vector<DType>;
  FORMWORK_ASSIGN_OR_RETURN(parts.sparse, attrs.Get<DTypes>(name("sparse_types")));
  FORMWORK_ASSIGN_OR_RETURN(parts.ragged, attrs.Get<DTypes>(name("ragged_value_types")));
  FORMWORK_ASSIGN_OR_RETURN(parts.splits, attrs.Get<DTypes>(name("ragged_split_types")));
  FORMWORK_ASSIGN_OR_RETURN(const DTypes dense, attrs.Get<DTypes>(dense_types));
  FORMWORK_ASSIGN_OR_RETURN(const auto shapes,
                            attrs.Get<std::vector<PartialShape>>(name("dense_shapes")));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t sparse,
                            attrs.Get<int64_t>(absl::StrCat("N", prefix, "_sparse")));
  if (sparse != static_cast<int64_t>(parts.sparse.size())) {
    return InvalidArgument("len(", prefix, "_sparse_keys) != len(", prefix, "_sparse_types)");
  }
  if (dense.size() != shapes.size()) {
    return InvalidArgument("len(", prefix, "_dense_keys) != len(", prefix, "_dense_shapes)");
  }
  if (parts.ragged.size() != parts.splits.size()) {
    return InvalidArgument("len(", prefix, "_ragged_value_types) != len(", prefix,
                           "_ragged_split_types)");
  }
  for (size_t i = 0; i < dense.size(); ++i) {
    DenseFeature feature;
    feature.dtype = dense[i];
    bool known = shapes[i].known_rank();
    for (int d = 0; known && d < shapes[i].rank(); ++d) {
      known =
          shapes[i].dim(d) >= 0 &&
          !__builtin_mul_overflow(feature.row_elements, shapes[i].dim(d), &feature.row_elements);
      feature.row.push_back(shapes[i].dim(d));
    }
    if (!known) return InvalidArgument("Shape ", shapes[i].ToString(), " is not fully defined");
    parts.dense.push_back(std::move(feature));
  }
  return parts;
}

}  // namespace

absl::StatusOr<ParseSequenceAttrs> ParseSequenceAttrs::FromAttrs(const AttrMap& attrs) {
  ParseSequenceAttrs read;
  FORMWORK_ASSIGN_OR_RETURN(read.context, ReadParts(attrs, "context", "Tcontext_dense"));
  FORMWORK_ASSIGN_OR_RETURN(read.lists,
                            ReadParts(attrs, "feature_list", "feature_list_dense_types"));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t dense, attrs.Get<int64_t>("Nfeature_list_dense"));
  if (dense != static_cast<int64_t>(read.lists.dense.size())) {
    return InvalidArgument("len(feature_list_dense_keys) != len(feature_list_dense_types)");
  }
  return read;
}

absl::Status CheckParseSequence(const ParseSequenceAttrs& attrs,
                                absl::Span<const Tensor* const> inputs) {
  const Shape& serialized = inputs[0]->shape();
  if (serialized.rank() > 1) {
    return InvalidArgument("Expected serialized to be a scalar or vector, got shape: ",
                           serialized.ToString());
  }
  const int64_t names = inputs[1]->num_elements();
  if (names > 0 && names != serialized.num_elements()) {
    return InvalidArgument("example_names must be empty or have the correct number of elements");
  }
  const std::pair<absl::string_view, size_t> wanted[] = {
      {"context_sparse_keys", attrs.context.sparse.size()},
      {"context_dense_keys", attrs.context.dense.size()},
      {"context_ragged_keys", attrs.context.ragged.size()},
      {"feature_list_sparse_keys", attrs.lists.sparse.size()},
      {"feature_list_dense_keys", attrs.lists.dense.size()},
      {"feature_list_ragged_keys", attrs.lists.ragged.size()},
      {"feature_list_dense_missing_assumed_empty", attrs.lists.dense.size()}};
  for (size_t i = 0; i < std::size(wanted); ++i) {
    const int64_t keys = inputs[2 + i]->num_elements();
    if (keys == static_cast<int64_t>(wanted[i].second)) continue;
    return InvalidArgument("Expected len(", wanted[i].first, ") to be ", wanted[i].second, ", got ",
                           keys);
  }
  for (size_t i = 0; i < attrs.context.dense.size(); ++i) {
    const Shape& value = inputs[9 + i]->shape();
    const Dims& row = attrs.context.dense[i].row;
    if (value.num_elements() == 0 || value.dims() == absl::MakeConstSpan(row)) continue;
    return InvalidArgument("default_value[", i, "].shape() == ", value.ToString(),
                           " != context_dense_shapes[", i, "] == ", DimsText(row));
  }
  return absl::OkStatus();
}

namespace {

absl::Status ParseSequenceShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ParseSequenceAttrs attrs,
                            ParseSequenceAttrs::FromAttrs(c.attrs()));
  const PartialShape& serialized = c.input(0);
  if (!serialized.known_rank() || serialized.rank() > 1) return absl::OkStatus();
  const bool batched = serialized.rank() == 1;
  int output = 0;
  const auto sparse = [&](size_t n, int64_t rank) {
    for (size_t i = 0; i < n; ++i) c.set_output(output++, PartialShape::Trusted({-1, rank}));
    for (size_t i = 0; i < n; ++i) c.set_output(output++, PartialShape::OfRank(1));
    for (size_t i = 0; i < n; ++i) c.set_output(output++, PartialShape::Trusted({rank}));
  };
  // With a dimension for the examples, and one for the features of a list.
  const auto dense = [&](const DenseFeature& feature, bool in_lists) {
    Dims dims = feature.row;
    if (in_lists) dims.insert(dims.begin(), -1);
    if (batched) dims.insert(dims.begin(), serialized.dim(0));
    c.set_output(output++, PartialShape::Trusted(dims));
  };
  const auto vectors = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) c.set_output(output++, PartialShape::OfRank(1));
  };
  // Where each example's begin, and the end.
  const auto splits = [&](size_t n) {
    const int64_t size =
        serialized.rank() == 0 || serialized.dim(0) < 0 ? -1 : serialized.dim(0) + 1;
    for (size_t i = 0; i < n; ++i) {
      c.set_output(output++, batched ? PartialShape::Trusted({size}) : PartialShape(Shape()));
    }
  };
  sparse(attrs.context.sparse.size(), batched ? 2 : 1);
  for (const DenseFeature& feature : attrs.context.dense) dense(feature, false);
  vectors(attrs.context.ragged.size());
  splits(attrs.context.ragged.size());
  sparse(attrs.lists.sparse.size(), batched ? 3 : 2);
  for (const DenseFeature& feature : attrs.lists.dense) dense(feature, true);
  for (size_t i = 0; i < attrs.lists.dense.size(); ++i) c.set_output(output++, serialized);
  vectors(attrs.lists.ragged.size());
  splits(attrs.lists.ragged.size());
  vectors(attrs.lists.ragged.size());
  return absl::OkStatus();
}

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
  registry.Add("DecodeJSONExample(json_examples: string) -> (binary_examples: string)",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, "
      "ragged_keys: string, dense_defaults: Tdense) -> (sparse_indices: num_sparse*int64, "
      "sparse_values: sparse_types, sparse_shapes: num_sparse*int64, dense_values: Tdense, "
      "ragged_values: ragged_value_types, ragged_row_splits: ragged_split_types); Tdense: "
      "list({float, int64, string}) >= 0; num_sparse: int >= 0; sparse_types: list({float, int64, "
      "string}) >= 0; ragged_value_types: list({float, int64, string}) >= 0; ragged_split_types: "
      "list(indextype) >= 0; dense_shapes: list(shape) >= 0",
      {.shape_fn = ParseExampleShape});
  registry.Add(
      "ParseSequenceExampleV2(serialized: string, debug_name: string, context_sparse_keys: string, "
      "context_dense_keys: string, context_ragged_keys: string, feature_list_sparse_keys: string, "
      "feature_list_dense_keys: string, feature_list_ragged_keys: string, "
      "feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: Tcontext_dense) -> "
      "(context_sparse_indices: Ncontext_sparse*int64, context_sparse_values: "
      "context_sparse_types, context_sparse_shapes: Ncontext_sparse*int64, context_dense_values: "
      "Tcontext_dense, context_ragged_values: context_ragged_value_types, "
      "context_ragged_row_splits: context_ragged_split_types, feature_list_sparse_indices: "
      "Nfeature_list_sparse*int64, feature_list_sparse_values: feature_list_sparse_types, "
      "feature_list_sparse_shapes: Nfeature_list_sparse*int64, feature_list_dense_values: "
      "feature_list_dense_types, feature_list_dense_lengths: Nfeature_list_dense*int64, "
      "feature_list_ragged_values: feature_list_ragged_value_types, "
      "feature_list_ragged_outer_splits: feature_list_ragged_split_types, "
      "feature_list_ragged_inner_splits: feature_list_ragged_split_types); Ncontext_sparse: int >= "
      "0 = 0; Tcontext_dense: list({float, int64, string}) >= 0 = []; context_sparse_types: "
      "list({float, int64, string}) >= 0 = []; context_ragged_value_types: list({float, int64, "
      "string}) >= 0 = []; context_ragged_split_types: list(indextype) >= 0 = []; "
      "context_dense_shapes: list(shape) >= 0 = []; Nfeature_list_sparse: int >= 0 = 0; "
      "Nfeature_list_dense: int >= 0 = 0; feature_list_dense_types: list({float, int64, string}) "
      ">= 0 = []; feature_list_sparse_types: list({float, int64, string}) >= 0 = []; "
      "feature_list_ragged_value_types: list({float, int64, string}) >= 0 = []; "
      "feature_list_ragged_split_types: list(indextype) >= 0 = []; feature_list_dense_shapes: "
      "list(shape) >= 0 = []",
      {.shape_fn = ParseSequenceShape});
}

}  // namespace formwork
