#include "core/ops/table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// As the op that gives the handle declares it.
struct Declared {
  DType key = DType::kInvalid;
  DType value = DType::kInvalid;
  PartialShape value_shape = Shape();
};

absl::StatusOr<ResourceType> TypeOfTable(const Declared& table,
                                         const ResourceKind& kind = kTableKind) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeyDType(table.key));
  if (!IsPlainData(table.value) && table.value != DType::kString) {
    return Unimplemented("table: values of dtype ", DTypeName(table.value), " are not supported");
  }
  return ResourceType{&kind, {{table.key, Shape()}, {table.value, table.value_shape}}};
}

absl::StatusOr<ResourceType> TableOfScalars(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Declared table,
      ReadAttrs<Declared>(attrs, "key_dtype", &Declared::key, "value_dtype", &Declared::value));
  return TypeOfTable(table);
}

absl::StatusOr<ResourceType> StaticTable(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Declared table,
      ReadAttrs<Declared>(attrs, "key_dtype", &Declared::key, "value_dtype", &Declared::value));
  return TypeOfTable(table, kStaticTableKind);
}

absl::StatusOr<ResourceType> TableOfTensors(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Declared table,
      ReadAttrs<Declared>(attrs, "key_dtype", &Declared::key, "value_dtype", &Declared::value,
                          "value_shape", &Declared::value_shape));
  if (table.value_shape.rank() != 1 || !table.value_shape.ToShape()) {
    return InvalidArgument("Default value must be a vector, got shape ",
                           table.value_shape.ToString());
  }
  return TypeOfTable(table);
}

absl::StatusOr<ResourceType> DenseTable(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Declared table,
      ReadAttrs<Declared>(attrs, "key_dtype", &Declared::key, "value_dtype", &Declared::value,
                          "value_shape", &Declared::value_shape));
  if (!table.value_shape.ToShape() || table.value_shape.rank() > 1) {
    return InvalidArgument("Empty value must be a scalar or a vector, got shape ",
                           table.value_shape.ToString());
  }
  return TypeOfTable(table, kDenseTableKind);
}

// What is behind a table's handle, as shapes have it: the shape of a key, where it is known.
absl::Status KeyOfDense(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// With a scalar default the values are scalars.
absl::Status FindShape(InferenceContext& c) {
  const bool scalar_keys = c.input(0).rank() == 0 || c.input(1).rank() == 0;
  if (c.input(2).rank() == 0 && scalar_keys) c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status ExportShape(InferenceContext& c) {
  if (c.input(0).rank() == 0) c.set_output(0, PartialShape::OfRank(1));
  return absl::OkStatus();
}

// Of keys that have passed CheckTableKeys.
absl::StatusOr<Shape> ValuesShape(const ResourceType& type, const Shape& keys, const Shape& key) {
  Dims dims(keys.dims().begin(), keys.dims().end() - key.rank());
  const PartialShape& value = type.parts[1].shape;
  dims.insert(dims.end(), value.dims().begin(), value.dims().end());
  return Shape::Make(dims);
}

absl::Status CheckDType(absl::string_view what, DType expected, const Tensor& given) {
  if (given.dtype() == expected) return absl::OkStatus();
  return InvalidArgument(what, " must be type ", DTypeName(expected), " but got ",
                         DTypeName(given.dtype()));
}

absl::Status CheckInitializable(const ResourceType& type) {
  if (type.kind == &kStaticTableKind) return absl::OkStatus();
  return InvalidArgument("Table is not initializable: it is a ", type.ToString());
}

bool IsReadFromText(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kFloat ||
         dtype == DType::kDouble || dtype == DType::kString;
}

// `part`: Key or Value, `index` what of a line it is.
absl::Status CheckTextPart(absl::string_view part, absl::string_view of, int64_t index,
                           DType dtype) {
  if (index == TableTextAttrs::kLineNumber && dtype != DType::kInt64) {
    return InvalidArgument(part, " index for line number requires table ", of,
                           " dtype of int64, got ", GraphDTypeName(dtype));
  }
  if (index == TableTextAttrs::kWholeLine && !IsInteger(dtype) && dtype != DType::kString) {
    return InvalidArgument(part, " index for whole line requires table ", of,
                           " dtype of integer or string, got ", GraphDTypeName(dtype));
  }
  if (!IsReadFromText(dtype)) {
    return InvalidArgument("Data type ", GraphDTypeName(dtype), " not supported.");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TableTextAttrs> TableTextAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      TableTextAttrs read,
      ReadAttrs<TableTextAttrs>(attrs, "key_index", &TableTextAttrs::key_index, "value_index",
                                &TableTextAttrs::value_index, "vocab_size",
                                &TableTextAttrs::vocab_size, "delimiter",
                                &TableTextAttrs::delimiter, "offset", &TableTextAttrs::offset));
  if (read.delimiter.size() != 1) return InvalidArgument("delimiter should be only 1 char");
  return read;
}

absl::Status CheckTableText(const ResourceType& type, const TableTextAttrs& attrs) {
  FORMWORK_RETURN_IF_ERROR(CheckInitializable(type));
  FORMWORK_RETURN_IF_ERROR(CheckTextPart("Key", "key", attrs.key_index, type.parts[0].dtype));
  return CheckTextPart("Value", "value", attrs.value_index, type.parts[1].dtype);
}

absl::Status CheckTableKeyDType(DType key) {
  if (key == DType::kInt32 || key == DType::kInt64 || key == DType::kString) {
    return absl::OkStatus();
  }
  return Unimplemented("table: keys of dtype ", DTypeName(key), " are not supported");
}

absl::Status CheckTableKeys(const ResourceType& type, const Tensor& keys, const Shape& key) {
  FORMWORK_RETURN_IF_ERROR(CheckDType("Key", type.parts[0].dtype, keys));
  const int rank = keys.rank();
  if (key.rank() == 0 || (rank > 0 && keys.dim(rank - 1) == key.dim(0))) return absl::OkStatus();
  return InvalidArgument("Expected keys that are vectors of ", key.dim(0), " elements, got shape ",
                         keys.shape().ToString());
}

absl::Status CheckTableEntries(const ResourceType& type, const Tensor& keys, const Tensor& values,
                               const Shape& key) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeys(type, keys, key));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Value", type.parts[1].dtype, values));
  FORMWORK_ASSIGN_OR_RETURN(const Shape expected, ValuesShape(type, keys.shape(), key));
  if (values.shape() == expected) return absl::OkStatus();
  return InvalidArgument("Expected shape ", expected.ToString(), " for value, got ",
                         values.shape().ToString());
}

absl::Status CheckInitialEntries(const ResourceType& type, const Tensor& keys,
                                 const Tensor& values) {
  FORMWORK_RETURN_IF_ERROR(CheckInitializable(type));
  if (keys.rank() != 1) {
    return InvalidArgument("Keys must be a vector, but received shape", keys.shape().ToString());
  }
  if (keys.num_elements() != values.num_elements()) {
    return InvalidArgument("Keys and values must have the same size ", keys.num_elements(), " vs ",
                           values.num_elements());
  }
  if (keys.num_elements() == 0) {
    return InvalidArgument("keys and values cannot be empty tensors.");
  }
  return CheckTableEntries(type, keys, values);
}

absl::StatusOr<Shape> PrepareTableFind(const ResourceType& type, const Tensor& keys,
                                       const Tensor& default_value, const Shape& key) {
  FORMWORK_RETURN_IF_ERROR(CheckTableKeys(type, keys, key));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Default value", type.parts[1].dtype, default_value));
  FORMWORK_ASSIGN_OR_RETURN(Shape values, ValuesShape(type, keys.shape(), key));
  const PartialShape& one = type.parts[1].shape;
  if (one.Accepts(default_value.shape()) || default_value.shape() == values) return values;
  return InvalidArgument("Expected shape ", one.ToString(), " or ", values.ToString(),
                         " for default value, got ", default_value.shape().ToString());
}

absl::Status CheckNumBuckets(int64_t num_buckets) {
  if (num_buckets >= 4 && (num_buckets & (num_buckets - 1)) == 0) return absl::OkStatus();
  return InvalidArgument("Number of buckets must be at least 4 and a power of 2, got: ",
                         num_buckets);
}

absl::StatusOr<DenseTableAttrs> DenseTableAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const DenseTableAttrs read,
      ReadAttrs<DenseTableAttrs>(attrs, "initial_num_buckets", &DenseTableAttrs::num_buckets,
                                 "max_load_factor", &DenseTableAttrs::max_load_factor));
  FORMWORK_RETURN_IF_ERROR(CheckNumBuckets(read.num_buckets));
  if (!(read.max_load_factor > 0 && read.max_load_factor < 1)) {
    return InvalidArgument("max_load_factor must be between 0 and 1, got: ", read.max_load_factor);
  }
  return read;
}

absl::Status CheckDenseTableKeys(const Tensor& empty_key, const Tensor& deleted_key) {
  if (empty_key.rank() > 1) {
    return InvalidArgument("Empty key must be a scalar or a vector, got shape ",
                           empty_key.shape().ToString());
  }
  if (empty_key.shape() != deleted_key.shape()) {
    return InvalidArgument("Empty and deleted keys must have same shape, got shapes: ",
                           empty_key.shape().ToString(), " and ", deleted_key.shape().ToString());
  }
  if (empty_key.num_elements() == 0) return InvalidArgument("Empty key must have an element");
  const bool texts = empty_key.dtype() == DType::kString;
  const bool equal = texts
                         ? std::equal(empty_key.data<std::string>(),
                                      empty_key.data<std::string>() + empty_key.num_elements(),
                                      deleted_key.data<std::string>())
                         : std::memcmp(empty_key.raw(), deleted_key.raw(), empty_key.bytes()) == 0;
  if (equal) return InvalidArgument("Empty and deleted keys cannot be equal");
  return absl::OkStatus();
}

void RegisterTableOps(OpRegistry& registry) {
  registry.Add(
      "MutableHashTableV2() -> (table_handle: resource); container: string = \"\"; shared_name: "
      "string = \"\"; use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type",
      {.shape_fn = shapes::Scalar, .handle_of = TableOfScalars});
  registry.Add(
      "MutableHashTableOfTensorsV2() -> (table_handle: resource); container: string = \"\"; "
      "shared_name: string = \"\"; use_node_name_sharing: bool = false; key_dtype: type; "
      "value_dtype: type; value_shape: shape = []",
      {.shape_fn = shapes::Scalar, .handle_of = TableOfTensors});
  registry.Add(
      "AnonymousMutableHashTable() -> (table_handle: resource); key_dtype: type; value_dtype: type",
      {.shape_fn = shapes::Scalar, .handle_of = TableOfScalars});
  registry.Add(
      "AnonymousMutableHashTableOfTensors() -> (table_handle: resource); key_dtype: type; "
      "value_dtype: type; value_shape: shape = []",
      {.shape_fn = shapes::Scalar, .handle_of = TableOfTensors});
  registry.Add(
      "HashTableV2() -> (table_handle: resource); container: string = \"\"; shared_name: string = "
      "\"\"; use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type",
      {.shape_fn = shapes::Scalar, .handle_of = StaticTable});
  registry.Add(
      "AnonymousHashTable() -> (table_handle: resource); key_dtype: type; value_dtype: type",
      {.shape_fn = shapes::Scalar, .handle_of = StaticTable});
  // Their kernels run behind the handle and begin the table with these keys.
  registry.Add(
      "MutableDenseHashTableV2(empty_key: key_dtype, deleted_key: key_dtype) -> (table_handle: "
      "resource); container: string = \"\"; shared_name: string = \"\"; use_node_name_sharing: "
      "bool "
      "= false; key_dtype: type; value_dtype: type; value_shape: shape = []; initial_num_buckets: "
      "int = 131072; max_load_factor: float = 0.8",
      {.shape_fn = KeyOfDense, .handle_of = DenseTable});
  registry.Add(
      "AnonymousMutableDenseHashTable(empty_key: key_dtype, deleted_key: key_dtype) -> "
      "(table_handle: resource); key_dtype: type; value_dtype: type; value_shape: shape = []; "
      "initial_num_buckets: int = 131072; max_load_factor: float = 0.8",
      {.shape_fn = KeyOfDense, .handle_of = DenseTable});
  registry.Add(
      "InitializeTableV2(table_handle: resource, keys: Tkey, values: Tval) -> (); Tkey: type; "
      "Tval: type",
      {.effect = Effect::kWrite});
  registry.Add(
      "InitializeTableFromTextFileV2(table_handle: resource, filename: string) -> (); key_index: "
      "int "
      ">= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = \"\t\"; "
      "offset: int = 0",
      {.effect = Effect::kWrite});
  registry.Add(
      "LookupTableFindV2(table_handle: resource, keys: Tin, default_value: Tout) -> (values: "
      "Tout); Tin: type; Tout: type",
      {.shape_fn = FindShape, .effect = Effect::kRead});
  registry.Add("LookupTableSizeV2(table_handle: resource) -> (size: int64)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
  registry.Add(
      "LookupTableExportV2(table_handle: resource) -> (keys: Tkeys, values: Tvalues); Tkeys: type; "
      "Tvalues: type",
      {.shape_fn = ExportShape, .effect = Effect::kRead});
  for (absl::string_view op : {"LookupTableInsertV2", "LookupTableImportV2"}) {
    registry.Add(absl::StrCat(std::string(op),
                              "(table_handle: resource, keys: Tin, values: Tout) -> (); Tin: "
                              "type; Tout: type"),
                 {.effect = Effect::kWrite});
  }
  registry.Add("LookupTableRemoveV2(table_handle: resource, keys: Tin) -> (); Tin: type",
               {.effect = Effect::kWrite});
}

}  // namespace formwork
