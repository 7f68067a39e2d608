#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterListOps(OpRegistry& registry) {
  registry.Add(
      "TensorListReserve(element_shape: shape_type, num_elements: int32) -> (handle: "
      "variant); element_dtype: type; shape_type: {int32, int64}",
      {});
  registry.Add(
      "TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> "
      "(output_handle: variant); element_dtype: type; shape_type: {int32, int64}",
      {});
  registry.Add(
      "TensorListGetItem(input_handle: variant, index: int32, element_shape: Tshape) -> "
      "(item: element_dtype); element_dtype: type; Tshape: {int32, int64} = int32",
      {});
  registry.Add(
      "TensorListSetItem(input_handle: variant, index: int32, item: element_dtype) -> "
      "(output_handle: variant); element_dtype: type; resize_if_index_out_of_bounds: bool ="
      " false",
      {});
  registry.Add(
      "TensorListStack(input_handle: variant, element_shape: int32) -> (tensor: "
      "element_dtype); element_dtype: type; num_elements: int = -1",
      {});
  registry.Add(
      "EmptyTensorList(element_shape: shape_type, max_num_elements: int32) -> (handle: "
      "variant); element_dtype: type; shape_type: {int32, int64}",
      {});
  registry.Add(
      "TensorListPopBack(input_handle: variant, element_shape: int32) -> (output_handle: "
      "variant, tensor: element_dtype); element_dtype: type",
      {});
  registry.Add(
      "TensorListPushBack(input_handle: variant, tensor: element_dtype) -> (output_handle: "
      "variant); element_dtype: type",
      {});
  registry.Add("TensorListLength(input_handle: variant) -> (length: int32)", {});
  registry.Add(
      "TensorListElementShape(input_handle: variant) -> (element_shape: shape_type); "
      "shape_type: {int32, int64}",
      {});
}

}  // namespace formwork
