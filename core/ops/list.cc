#include "core/ops/list.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
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

absl::StatusOr<ListStackAttrs> ListStackAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ListStackAttrs>(attrs, "num_elements", &ListStackAttrs::num_elements);
}

namespace {

// Input 1, an index or a size: one int32.
absl::StatusOr<int32_t> OneInt(const Tensor& tensor, bool scalar) {
  if (scalar ? tensor.rank() == 0 : tensor.num_elements() == 1) return tensor.scalar<int32_t>();
  return InvalidArgument("Expected argument 1 to be a scalar. Received shape ",
                         tensor.shape().ToString());
}

// All but which rows there are.
absl::StatusOr<ListScatterGeometry> ScatterTo(Dims indices, int64_t limit) {
  ListScatterGeometry geometry;
  for (int64_t index : indices) {
    if (index < 0) {
      return InvalidArgument("Indices in TensorListScatter must all be non-negative.");
    }
    if (limit >= 0 && index >= limit) {
      return InvalidArgument("TensorListScatter: Trying to scatter at index ", index,
                             " in list with size ", limit);
    }
    geometry.least = std::max(geometry.least, index + 1);
  }
  geometry.least = std::max(geometry.least, limit);
  geometry.indices = std::move(indices);
  return geometry;
}

absl::StatusOr<ListScatterGeometry> ScatterRows(const Tensor& indices,
                                                absl::Span<const int64_t> tensor, int64_t limit) {
  FORMWORK_ASSIGN_OR_RETURN(Dims rows, IntegersOf(indices, "TensorListScatter: indices"));
  FORMWORK_RETURN_IF_ERROR(CheckListRows(tensor));
  if (!MayBeEqual(tensor[0], static_cast<int64_t>(rows.size()))) {
    return InvalidArgument("Invalid number of rows in input tensor. Expected: ", rows.size(),
                           " Actual: ", tensor[0]);
  }
  return ScatterTo(std::move(rows), limit);
}

}  // namespace

absl::StatusOr<int32_t> ListLimit(const Tensor& max_num_elements) {
  if (max_num_elements.rank() == 0) return max_num_elements.scalar<int32_t>();
  return InvalidArgument("max_num_elements expected to be a scalar but got shape: ",
                         max_num_elements.shape().ToString());
}

absl::StatusOr<int32_t> ReservedListSize(const Tensor& num_elements) {
  if (num_elements.rank() != 0) {
    return InvalidArgument("The num_elements to reserve must be a tensor size 1, but got ",
                           num_elements.shape().ToString());
  }
  const int32_t size = num_elements.scalar<int32_t>();
  if (size >= 0) return size;
  return InvalidArgument("The num_elements to reserve must be a non negative number, but got ",
                         size);
}

absl::StatusOr<int32_t> ResizedListSize(const Tensor& size) {
  FORMWORK_ASSIGN_OR_RETURN(const int32_t value, OneInt(size, /*scalar=*/false));
  if (value >= 0) return value;
  return InvalidArgument("TensorListSlice expects size to be non-negative. Got: ", value);
}

absl::StatusOr<int32_t> ListItemToGet(const Tensor& index, size_t size) {
  FORMWORK_ASSIGN_OR_RETURN(const int32_t value, OneInt(index, /*scalar=*/false));
  if (value >= 0 && static_cast<size_t>(value) < size) return value;
  return InvalidArgument("Trying to access element ", value, " in a list with ", size,
                         " elements.");
}

absl::StatusOr<int32_t> ListItemToSet(const Tensor& index, size_t size, bool resize) {
  FORMWORK_ASSIGN_OR_RETURN(const int32_t value, OneInt(index, /*scalar=*/true));
  if (value >= 0 && (resize || static_cast<size_t>(value) < size)) return value;
  return InvalidArgument("Trying to modify element ", value, " in a list with ", size,
                         " elements.");
}

absl::StatusOr<ListScatterGeometry> PrepareListScatter(const Tensor& indices,
                                                       absl::Span<const int64_t> tensor) {
  return ScatterRows(indices, tensor, -1);
}

absl::StatusOr<ListScatterGeometry> PrepareListScatter(const Tensor& indices,
                                                       absl::Span<const int64_t> tensor,
                                                       const Tensor& num_elements) {
  if (num_elements.num_elements() != 1) {
    return InvalidArgument("TensorListScatter: num_elements must be a scalar: ",
                           num_elements.shape().ToString());
  }
  const int32_t limit = num_elements.scalar<int32_t>();
  if (limit < -1) {
    return InvalidArgument("TensorListScatter expects num_elements >= -1, found: ", limit);
  }
  return ScatterRows(indices, tensor, limit);
}

absl::StatusOr<ListScatterGeometry> PrepareListScatterIntoExisting(
    const Tensor& indices, absl::Span<const int64_t> tensor) {
  FORMWORK_ASSIGN_OR_RETURN(Dims rows,
                            IntegersOf(indices, "TensorListScatterIntoExistingList: indices"));
  FORMWORK_RETURN_IF_ERROR(CheckListRows(tensor));
  if (!MayBeEqual(tensor[0], static_cast<int64_t>(rows.size()))) {
    return InvalidArgument("Expected len(indices) == tensor.shape[0], but saw: ", rows.size(),
                           " vs. ", tensor[0]);
  }
  return ScatterTo(std::move(rows), -1);
}

absl::StatusOr<Dims> PrepareListSplit(absl::Span<const int64_t> tensor, const PartialShape& element,
                                      const Tensor& lengths) {
  if (lengths.rank() != 1) {
    return InvalidArgument("Expected lengths to be a vector, received shape: ",
                           lengths.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims pieces, IntegersOf(lengths, "TensorListSplit: lengths"));
  if (element.rank() == 0) {
    return InvalidArgument("TensorListSplit requires element_shape to be at least of rank 1, ",
                           "but saw: ", element.ToString());
  }
  PartialShape rows = element;
  if (rows.known_rank()) rows.set_dim(0, -1);
  if (rows.known_rank() && !MayBeEqual(rows.dims(), tensor)) {
    return InvalidArgument("tensor shape ", DimsText(tensor),
                           " is not compatible with element_shape ", rows.ToString());
  }
  int64_t used = 0;
  for (int64_t length : pieces) {
    if (length < 0) return InvalidArgument("Invalid value in lengths: ", length);
    if (tensor[0] >= 0 && length > tensor[0] - used) {
      return InvalidArgument("Attempting to slice [", used, ", ", length,
                             "] from tensor with length ", tensor[0]);
    }
    used += length;
  }
  if (MayBeEqual(used, tensor[0])) return pieces;
  return InvalidArgument("Unused values in tensor. Length of tensor: ", tensor[0],
                         " Values used: ", used);
}

absl::Status CheckListRows(absl::Span<const int64_t> tensor) {
  if (!tensor.empty()) return absl::OkStatus();
  return InvalidArgument("Tensor must be at least a vector, but saw shape: ", DimsText(tensor));
}

namespace {

// The element shape that input i gives, as far as it is known.
absl::StatusOr<PartialShape> ElementShape(const InferenceContext& c, int i) {
  if (c.constant(i) == nullptr) return shapes::ShapeFromInput(c, i);
  return ListShapeFrom(*c.constant(i));
}

// The shape of an item of the list that input 0 is, where input i says what is wanted.
absl::StatusOr<PartialShape> ItemShape(const InferenceContext& c, int i) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape wanted, ElementShape(c, i));
  return wanted.Merge(c.items(0)).value_or(wanted);
}

// A list that begins with items of the shape that input i gives.
template <int kInput>
absl::Status NewListShape(InferenceContext& c) {
  c.set_output(0, Shape());
  FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ElementShape(c, kInput));
  c.set_output_items(0, std::move(element));
  return absl::OkStatus();
}

// A list made of the one that input 0 is.
absl::Status SameListShape(InferenceContext& c) {
  c.set_output(0, Shape());
  c.set_output_items(0, c.items(0));
  return absl::OkStatus();
}

// A list of the rows of input 0.
template <int kElementShape>
absl::Status ListOfRowsShape(InferenceContext& c) {
  c.set_output(0, Shape());
  FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ElementShape(c, kElementShape));
  if (c.input(0).rank() > 0) {
    const PartialShape row = PartialShape::Trusted(c.input(0).dims().subspan(1));
    element = element.Merge(row).value_or(element);
  }
  c.set_output_items(0, std::move(element));
  return absl::OkStatus();
}

PartialShape WithLeading(int64_t leading, const PartialShape& shape) {
  if (!shape.known_rank() || shape.rank() >= kMaxRank) return PartialShape::Unknown();
  Dims dims = {leading};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return PartialShape::Trusted(dims);
}

absl::Status GetItemShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ItemShape(c, 2));
  c.set_output(0, std::move(element));
  return absl::OkStatus();
}

absl::Status PopBackShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(SameListShape(c));
  FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ItemShape(c, 1));
  c.set_output(1, std::move(element));
  return absl::OkStatus();
}

absl::Status StackShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ListStackAttrs attrs, ListStackAttrs::FromAttrs(c.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape element, ItemShape(c, 1));
  c.set_output(0, WithLeading(std::max<int64_t>(attrs.num_elements, -1), element));
  return absl::OkStatus();
}

absl::Status GatherShape(InferenceContext& c) {
  const PartialShape& indices = c.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape element, ItemShape(c, 2));
  c.set_output(0, WithLeading(indices.rank() == 1 ? indices.dim(0) : -1, element));
  return absl::OkStatus();
}

// TensorListConcat has the items' shape as an attr, TensorListConcatV2 as an input.
absl::Status ConcatShape(InferenceContext& c) {
  c.set_output(1, PartialShape::OfRank(1));
  PartialShape item = c.attrs().GetOr<PartialShape>("element_shape", PartialShape());
  if (c.num_inputs() > 1) {
    FORMWORK_ASSIGN_OR_RETURN(item, ElementShape(c, 1));
  }
  item = item.Merge(c.items(0)).value_or(item);
  if (item.rank() > 0) {
    c.set_output(0, WithLeading(-1, PartialShape::Trusted(item.dims().subspan(1))));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterListOps(OpRegistry& registry) {
  registry.Add(
      "TensorListReserve(element_shape: host shape_type, num_elements: host int32) -> (handle: "
      "variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = NewListShape<0>, .sized_by_value = true});
  registry.Add(
      "TensorListFromTensor(tensor: element_dtype, element_shape: host shape_type) -> "
      "(output_handle: variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = ListOfRowsShape<1>});
  registry.Add(
      "TensorListGetItem(input_handle: variant, index: host int32, element_shape: host Tshape) -> "
      "(item: element_dtype); element_dtype: type; Tshape: indextype = int32",
      {.shape_fn = GetItemShape, .sized_by_value = true});
  registry.Add(
      "TensorListSetItem(input_handle: variant, index: host int32, item: element_dtype) -> "
      "(output_handle: variant); element_dtype: type; resize_if_index_out_of_bounds: bool = false",
      {.shape_fn = SameListShape, .sized_by_value = true});
  registry.Add(
      "TensorListStack(input_handle: variant, element_shape: host int32) -> (tensor: "
      "element_dtype); element_dtype: type; num_elements: int = -1",
      {.shape_fn = StackShape, .sized_by_value = true});
  registry.Add(
      "EmptyTensorList(element_shape: host shape_type, max_num_elements: host int32) -> (handle: "
      "variant); element_dtype: type; shape_type: indextype",
      {.shape_fn = NewListShape<0>});
  registry.Add(
      "TensorListPopBack(input_handle: variant, element_shape: host int32) -> (output_handle: "
      "variant, tensor: element_dtype); element_dtype: type",
      {.shape_fn = PopBackShape, .sized_by_value = true});
  registry.Add(
      "TensorListPushBack(input_handle: variant, tensor: element_dtype) -> (output_handle: "
      "variant); element_dtype: type",
      {.shape_fn = SameListShape});
  registry.Add("TensorListLength(input_handle: variant) -> (length: host int32)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorListElementShape(input_handle: variant) -> (element_shape: host shape_type); "
      "shape_type: indextype",
      {});
  registry.Add(
      "TensorListResize(input_handle: variant, size: host int32) -> (output_handle: variant)",
      {.shape_fn = SameListShape, .sized_by_value = true});
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
      {.shape_fn = ListOfRowsShape<2>, .sized_by_value = true});
  registry.Add(
      "TensorListScatterV2(tensor: element_dtype, indices: host int32, element_shape: host "
      "shape_type, num_elements: host int32) -> (output_handle: variant); element_dtype: type; "
      "shape_type: indextype",
      {.shape_fn = ListOfRowsShape<2>, .sized_by_value = true});
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
      {.shape_fn = SameListShape, .sized_by_value = true});
}

}  // namespace formwork
