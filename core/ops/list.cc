#include "core/ops/list.h"

#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<PartialShape> ListShapeFrom(const Tensor& tensor) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, IntegersOf(tensor, "TensorList: element_shape"));
  if (tensor.rank() == 0) {
    if (dims[0] == -1) return PartialShape::Unknown();
    return InvalidArgument(
        "The only valid scalar shape tensor is the fully unknown shape specified as -1.");
  }
  if (tensor.rank() != 1) {
    return InvalidArgument("Shape must be at most rank 1 but is rank ", tensor.rank());
  }
  for (int64_t dim : dims) {
    if (dim < -1) return InvalidArgument("Dimension ", dim, " must be >= -1");
  }
  return PartialShape::Make(dims);
}

absl::StatusOr<PartialShape> MergeListShapes(const PartialShape& a, const PartialShape& b) {
  std::optional<PartialShape> merged = a.Merge(b);
  if (merged) return *std::move(merged);
  if (a.rank() != b.rank()) {
    return InvalidArgument("PartialTensorShape: Incompatible ranks during merge: ", a.rank(),
                           " vs. ", b.rank());
  }
  return InvalidArgument("PartialTensorShape: Incompatible shapes during merge: ", a.ToString(),
                         " vs. ", b.ToString());
}

namespace {

// The element shape that input i gives; unknown where it is not constant.
absl::StatusOr<PartialShape> ElementShape(const InferenceContext& c, int i) {
  if (c.constant(i) == nullptr) return PartialShape::Unknown();
  return ListShapeFrom(*c.constant(i));
}

PartialShape WithLeading(int64_t leading, const PartialShape& shape) {
  if (!shape.known_rank() || shape.rank() >= kMaxRank) return PartialShape::Unknown();
  Dims dims = {leading};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return PartialShape::Trusted(dims);
}

absl::Status GetItemShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ElementShape(c, 2));
  c.set_output(0, std::move(element));
  return absl::OkStatus();
}

absl::Status PopBackShape(InferenceContext& c) {
  c.set_output(0, Shape());
  FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ElementShape(c, 1));
  c.set_output(1, std::move(element));
  return absl::OkStatus();
}

absl::Status StackShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, c.attrs().Get<int64_t>("num_elements"));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape element, ElementShape(c, 1));
  c.set_output(0, WithLeading(size < 0 ? -1 : size, element));
  return absl::OkStatus();
}

absl::Status GatherShape(InferenceContext& c) {
  const PartialShape& indices = c.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape element, ElementShape(c, 2));
  c.set_output(0, WithLeading(indices.rank() == 1 ? indices.dim(0) : -1, element));
  return absl::OkStatus();
}

absl::Status ConcatShape(InferenceContext& c) {
  c.set_output(1, PartialShape::OfRank(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterListOps(OpRegistry& registry) {
  registry.Add(
      "TensorListReserve(element_shape: host shape_type, num_elements: host int32) -> (handle: "
      "variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = shapes::Scalar, .sized_by_value = true});
  registry.Add(
      "TensorListFromTensor(tensor: element_dtype, element_shape: host shape_type) -> "
      "(output_handle: variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorListGetItem(input_handle: variant, index: host int32, element_shape: host Tshape) -> "
      "(item: element_dtype); element_dtype: type; Tshape: indextype = int32",
      {.shape_fn = GetItemShape, .sized_by_value = true});
  registry.Add(
      "TensorListSetItem(input_handle: variant, index: host int32, item: element_dtype) -> "
      "(output_handle: variant); element_dtype: type; resize_if_index_out_of_bounds: bool = false",
      {.shape_fn = shapes::Scalar, .sized_by_value = true});
  registry.Add(
      "TensorListStack(input_handle: variant, element_shape: host int32) -> (tensor: "
      "element_dtype); element_dtype: type; num_elements: int = -1",
      {.shape_fn = StackShape, .sized_by_value = true});
  registry.Add(
      "EmptyTensorList(element_shape: host shape_type, max_num_elements: host int32) -> (handle: "
      "variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorListPopBack(input_handle: variant, element_shape: host int32) -> (output_handle: "
      "variant, tensor: element_dtype); element_dtype: type",
      {.shape_fn = PopBackShape, .sized_by_value = true});
  registry.Add(
      "TensorListPushBack(input_handle: variant, tensor: element_dtype) -> (output_handle: "
      "variant); element_dtype: type",
      {.shape_fn = shapes::Scalar});
  registry.Add("TensorListLength(input_handle: variant) -> (length: host int32)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorListElementShape(input_handle: variant) -> (element_shape: host shape_type); "
      "shape_type: indextype",
      {});
  registry.Add(
      "TensorListResize(input_handle: variant, size: host int32) -> (output_handle: variant)",
      {.shape_fn = shapes::Scalar, .sized_by_value = true});
  registry.Add(
      "TensorListConcat(input_handle: variant) -> (tensor: element_dtype, lengths: host int64); "
      "element_dtype: type; element_shape: shape = ?",
      {.shape_fn = ConcatShape, .sized_by_value = true});
  registry.Add(
      "TensorListConcatV2(input_handle: variant, element_shape: host shape_type, leading_dims: "
      "host int64) -> (tensor: element_dtype, lengths: host int64); element_dtype: type; "
      "shape_type: indextype",
      {.shape_fn = ConcatShape, .sized_by_value = true});
  registry.Add(
      "TensorListGather(input_handle: variant, indices: host int32, element_shape: host int32) -> "
      "(values: element_dtype); element_dtype: type",
      {.shape_fn = GatherShape, .sized_by_value = true});
  registry.Add(
      "TensorListScatter(tensor: element_dtype, indices: host int32, element_shape: host "
      "shape_type) -> (output_handle: variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = shapes::Scalar, .sized_by_value = true});
  registry.Add(
      "TensorListScatterV2(tensor: element_dtype, indices: host int32, element_shape: host "
      "shape_type, num_elements: host int32) -> (output_handle: variant); element_dtype: type; "
      "shape_type: indextype",
      {.shape_fn = shapes::Scalar, .sized_by_value = true});
  registry.Add(
      "TensorListSplit(tensor: element_dtype, element_shape: host shape_type, lengths: host int64) "
      "-> (output_handle: variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorListConcatLists(input_a: variant, input_b: variant) -> (output: variant); "
      "element_dtype: type",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorListPushBackBatch(input_handles: variant, tensor: element_dtype) -> (output_handles: "
      "variant); element_dtype: type",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorListScatterIntoExistingList(input_handle: variant, tensor: element_dtype, indices: "
      "host int32) -> (output_handle: variant); element_dtype: type",
      {.shape_fn = shapes::Scalar, .sized_by_value = true});
}

}  // namespace formwork
