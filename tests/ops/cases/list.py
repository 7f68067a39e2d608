"""Lists of tensors."""
from generate import case, error, tensor, tensor_list

FLOATS = tensor_list("float", [[1., 2.], None, [5., 6.]], shape=[2])
RAGGED = tensor_list("int32", [[1], [2, 3], []], shape=[None])

# --- One item at a time -------------------------------------------------------------------------

case("EmptyTensorList", [2], 3, element_dtype="float")
case("EmptyTensorList", -1, -1, element_dtype="string")
case("TensorListReserve", [2, -1], 3, element_dtype="float")
error("TensorListReserve", [2], -1, element_dtype="float", text="must be a non negative number")
case("TensorListLength", FLOATS)
case("TensorListLength", tensor_list("string", []))
case("TensorListElementShape", FLOATS, shape_type="int32")
case("TensorListElementShape", tensor_list("float", []), shape_type="int64")
case("TensorListPushBack", FLOATS, [7., 8.])
case("TensorListPushBack", tensor_list("string", ["a"], limit=2), "b")
error("TensorListPushBack", tensor_list("string", ["a"], limit=1), "b",
      text="Tried to push item into a full list")
error("TensorListPushBack", FLOATS, [1.], text="incompatible shape to a list")
error("TensorListPushBack", FLOATS, [1, 2], text="Invalid data types; op elements")
case("TensorListPopBack", FLOATS, [-1], element_dtype="float")
case("TensorListPopBack", tensor_list("float", [[1.], None], shape=[1]), -1, element_dtype="float")
error("TensorListPopBack", tensor_list("float", []), -1, element_dtype="float",
      text="Trying to pop from an empty list")
case("TensorListGetItem", FLOATS, 2, [-1], element_dtype="float")
case("TensorListGetItem", FLOATS, 1, [2], element_dtype="float")
case("TensorListGetItem", RAGGED, 1, -1, element_dtype="int32")
error("TensorListGetItem", FLOATS, 3, [-1], element_dtype="float",
      text="Trying to access element 3 in a list with 3 elements")
error("TensorListGetItem", FLOATS, -1, [-1], element_dtype="float",
      text="Trying to access element -1")
case("TensorListSetItem", FLOATS, 1, [3., 4.])
error("TensorListSetItem", FLOATS, 3, [3., 4.], text="Trying to modify element 3")
error("TensorListSetItem", FLOATS, 0, [3.], text="Tried to set a tensor with incompatible shape")
case("TensorListSetItem", FLOATS, 4, [3., 4.], resize_if_index_out_of_bounds=True)
case("TensorListConcatLists", FLOATS, tensor_list("float", [[9., 9.]], shape=[2]),
     element_dtype="float")

# --- From tensors and back ----------------------------------------------------------------------

case("TensorListFromTensor", [[1., 2.], [3., 4.]], [2])
case("TensorListFromTensor", [["a"], ["b"]], -1)
error("TensorListFromTensor", 1., -1, text="Tensor must be at least a vector")
error("TensorListFromTensor", [[1., 2.]], [3], text="Specified a list with shape")
case("TensorListStack", FLOATS, [2], element_dtype="float")
case("TensorListStack", FLOATS, -1, element_dtype="float", num_elements=3)
case("TensorListStack", tensor_list("float", [], shape=[2]), [-1], element_dtype="float")
error("TensorListStack", FLOATS, -1, element_dtype="float", num_elements=2,
      text="Operation expected a list with 2 elements")
error("TensorListStack", tensor_list("float", []), -1, element_dtype="float",
      text="Tried to stack elements of an empty list")
case("TensorListGather", FLOATS, [2, 0, 2], [-1], element_dtype="float")
case("TensorListGather", FLOATS, [1], [2], element_dtype="float")
error("TensorListGather", FLOATS, [3], [2], element_dtype="float",
      text="Trying to gather element 3 in a list with 3 elements")
case("TensorListConcat", RAGGED, element_dtype="int32")
case("TensorListConcatV2", RAGGED, [-1], tensor("int64", [], shape=[0]), element_dtype="int32")
case("TensorListConcatV2", tensor_list("float", [[1.], None], shape=[None]), [-1],
     tensor("int64", [0, 2]), element_dtype="float")
error("TensorListConcat", tensor_list("float", [1., 2.], shape=[]), element_dtype="float",
      text="Concat requires elements to be at least vectors")
case("TensorListSplit", [[1.], [2.], [3.]], [-1, 1], tensor("int64", [2, 1]))
error("TensorListSplit", [[1.], [2.]], [-1, 1], tensor("int64", [1]), text="Unused values in tensor")
case("TensorListScatter", [[1.], [2.]], [2, 0], [1])
case("TensorListScatterV2", [[1.], [2.]], [2, 0], [1], 4)
error("TensorListScatterV2", [[1.], [2.]], [4, 0], [1], 4, text="Trying to scatter at index 4")
case("TensorListScatterIntoExistingList", FLOATS, [[7., 7.]], [1])
for op, inputs in [("TensorListGetItem", [0]), ("TensorListPopBack", [])]:
  error(op, FLOATS, *inputs, [3], element_dtype="float", code="INVALID_ARGUMENT",
        text="Tried to read an item of another shape: item=[2] element_shape=[3]",
        comment="TensorFlow gives what is there.")
