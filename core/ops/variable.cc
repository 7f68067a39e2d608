#include "core/ops/variable.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/gather.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::Status CheckVariableRead(DType dtype, const Tensor& value) {
  if (value.dtype() == dtype) return absl::OkStatus();
  return InvalidArgument("Trying to read variable with wrong dtype. Expected ",
                         GraphDTypeName(dtype), " got ", GraphDTypeName(value.dtype()));
}

absl::Status CheckVariableShape(const Shape& value, const Shape& given) {
  if (value == given) return absl::OkStatus();
  return InvalidArgument("Trying to assign to variable with tensor with wrong shape.", " Expected ",
                         value.ToString(), " got ", given.ToString());
}

absl::Status CheckVariableUpdate(const Tensor& value, const Tensor& delta) {
  if (value.dtype() != delta.dtype()) {
    return InvalidArgument("DType of variable handle and value does not match: ",
                           GraphDTypeName(value.dtype()), " vs. ", GraphDTypeName(delta.dtype()));
  }
  if (value.shape() != delta.shape()) {
    return InvalidArgument("Cannot update variable with shape ", value.shape().ToString(),
                           " using a Tensor with shape ", delta.shape().ToString(),
                           ", shapes must be equal.");
  }
  return absl::OkStatus();
}

absl::Status CheckVariableScatter(DType updates, const Tensor& value) {
  if (value.dtype() == updates) return absl::OkStatus();
  return InvalidArgument("DType of scatter resource and updates does not match: ",
                         GraphDTypeName(value.dtype()), " vs. ", GraphDTypeName(updates));
}

namespace {

absl::StatusOr<ResourceType> VariableType(const AttrMap& attrs) {
  struct Declared {
    DType dtype = DType::kInvalid;
    PartialShape shape;
  };
  FORMWORK_ASSIGN_OR_RETURN(
      const Declared declared,
      ReadAttrs<Declared>(attrs, "dtype", &Declared::dtype, "shape", &Declared::shape));
  return ResourceType::Variable(declared.dtype, declared.shape);
}

absl::Status ShapeOfShape(InferenceContext& c) {
  c.set_output(0, c.input(0).known_rank() ? PartialShape(Shape({c.input(0).rank()}))
                                          : PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status GatherShape(InferenceContext& c) {
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  if (!params.known_rank() || !indices.known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const GatherAttrs attrs, GatherAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const GatherGeometry geometry,
                            PrepareGatherRows(attrs, params.dims(), indices.dims()));
  return array_shapes::SetOutput(c, 0, geometry.output);
}

}  // namespace

void RegisterVariableOps(OpRegistry& registry) {
  registry.Add(
      "ReadVariableOp(resource: resource) -> (value: dtype); dtype: type",
      {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kRead, .loads_variable = true});
  registry.Add(
      "AssignVariableOp(resource: resource, value: dtype) -> (); dtype: type; validate_shape: bool "
      "= false",
      {.effect = Effect::kWrite, .stores_variable = true});
  registry.Add("AssignAddVariableOp(resource: resource, value: dtype) -> (); dtype: type",
               {.effect = Effect::kWrite});
  registry.Add("AssignSubVariableOp(resource: resource, value: dtype) -> (); dtype: type",
               {.effect = Effect::kWrite});
  registry.Add("ResourceCountUpTo(resource: resource) -> (output: T); limit: int; T: indextype",
               {.shape_fn = shapes::Scalar, .effect = Effect::kWrite});
  registry.Add(
      "ResourceStridedSliceAssign(ref: resource, begin: host Index, end: host Index, strides: host "
      "Index, value: T) -> (); T: type; Index: indextype; begin_mask: int = 0; end_mask: int = 0; "
      "ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0",
      {.effect = Effect::kWrite});
  registry.Add(
      "VariableShape(input: resource) -> (output: host out_type); out_type: indextype = int32",
      {.shape_fn = ShapeOfShape, .effect = Effect::kRead});
  // What inference says of a handle is the shape of the variable behind it.
  registry.Add(
      "VarHandleOp() -> (resource: resource); container: string = \"\"; shared_name: string = "
      "\"\"; debug_name: string = \"\"; dtype: type; shape: shape; allowed_devices: list(string) = "
      "[]",
      {.shape_fn = shapes::FromShapeAttr, .handle_of = VariableType});
  // What a TemporaryVariable becomes: one of the call's own.
  registry.Add("_TemporaryVariable() -> (resource: resource); dtype: type; shape: shape",
               {.shape_fn = shapes::FromShapeAttr, .handle_of = VariableType});
  registry.Add("VarIsInitializedOp(resource: resource) -> (is_initialized: host bool)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
  registry.Add(
      "ResourceGather(resource: resource, indices: Tindices) -> (output: dtype); batch_dims: int = "
      "0; validate_indices: bool = true; dtype: type; Tindices: indextype",
      {.shape_fn = GatherShape, .effect = Effect::kRead});
  registry.Add(
      "ResourceGatherNd(resource: resource, indices: Tindices) -> (output: dtype); dtype: type; "
      "Tindices: indextype",
      {.effect = Effect::kRead});
  for (absl::string_view op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) {
    registry.Add(absl::StrCat("ResourceScatter", op,
                              "(resource: resource, indices: Tindices, updates: dtype) -> (); "
                              "dtype: numbertype; Tindices: indextype"),
                 {.effect = Effect::kWrite});
  }
  for (absl::string_view op : {"Update", "Add", "Sub", "Min", "Max"}) {
    registry.Add(
        absl::StrCat("ResourceScatterNd", op,
                     "(ref: resource, indices: Tindices, updates: T) -> (); T: type; Tindices: "
                     "indextype; use_locking: bool = true; bad_indices_policy: string = \"\""),
        {.effect = Effect::kWrite});
  }
  registry.Add(
      "ResourceScatterUpdate(resource: resource, indices: Tindices, updates: dtype) -> (); dtype: "
      "type; Tindices: indextype",
      {.effect = Effect::kWrite});
  registry.Add("DestroyResourceOp(resource: resource) -> (); ignore_lookup_error: bool = true",
               {.effect = Effect::kWrite});
  registry.Add("DisableCopyOnRead(resource: resource) -> ()", {.effect = Effect::kRead});
}

}  // namespace formwork
