from generate import case, error, tensor, uniform

# --- RaggedRange
for dtype in ["int32", "int64", "float", "double"]:
  case("RaggedRange", tensor(dtype, [0, 3, 8]), tensor(dtype, [4, 3, 2]), tensor(dtype, [1, 2, -3]))
  case("RaggedRange", tensor(dtype, 0), tensor(dtype, [3, 5, 0]), tensor(dtype, 2),
       Tsplits="int32")
  case("RaggedRange", tensor(dtype, 5), tensor(dtype, 0), tensor(dtype, -2))
case("RaggedRange", [0.0, 0.1], [1.0, 0.35], 0.1)
case("RaggedRange", tensor("int32", [-2**31]), 2**31 - 1, 2**30)
case("RaggedRange", tensor("int32", []), 3, 1)
error("RaggedRange", [0], [1], [0], text="Requires delta != 0")
error("RaggedRange", [0, 1], [1], [1], text="starts, limits, and deltas must have the same shape")
error("RaggedRange", [[0]], [1], [1], text="starts must be a scalar or vector")
error("RaggedRange", 0, [[1]], [1], text="limits must be a scalar or vector")
error("RaggedRange", 0, 1, [[1]], text="deltas must be a scalar or vector")
error("RaggedRange", 0.0, 1.0, float("nan"), text="Requires ((limit - start) / delta) <=")

# --- RaggedTensorToTensor
SPLITS = tensor("int64", [0, 2, 2, 5])
for dtype in ["float", "int32", "bool", "complex64", "half", "uint8"]:
  case("RaggedTensorToTensor", tensor("int64", -1), uniform([5], 0, 9, 3, dtype), tensor(dtype, 1),
       [SPLITS], row_partition_types=["ROW_SPLITS"])
case("RaggedTensorToTensor", tensor("int64", -1), ["a", "bc", "d", "", "e"], "none", [SPLITS],
     row_partition_types=["ROW_SPLITS"])
for shape in [[-1, -1], [2, 2], [4, 4], [3, -1], [-1, 1], [0, 2], [5, 0]]:
  case("RaggedTensorToTensor", tensor("int64", shape), [1.0, 2.0, 3.0, 4.0, 5.0], 9.0, [SPLITS],
       row_partition_types=["ROW_SPLITS"])
  case("RaggedTensorToTensor", tensor("int64", shape), [1.0, 2.0, 3.0, 4.0, 5.0], 9.0,
       [tensor("int64", 3), tensor("int64", [0, 0, 2, 2, 2])],
       row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"])
case("RaggedTensorToTensor", -1, uniform([5, 3], seed=2), [7.0, 8.0, 9.0],
     [tensor("int32", [0, 2, 2, 5])], row_partition_types=["ROW_SPLITS"])
case("RaggedTensorToTensor", -1, uniform([5, 2, 3], seed=2), [[1.0], [2.0]],
     [tensor("int32", [0, 2, 2, 5])], row_partition_types=["ROW_SPLITS"])
case("RaggedTensorToTensor", [-1, 2, -1], uniform([5], seed=2), 0.5,
     [tensor("int32", [0, 2, 3]), tensor("int32", [0, 1, 4, 5])],
     row_partition_types=["ROW_SPLITS", "ROW_SPLITS"])
case("RaggedTensorToTensor", -1, uniform([6], seed=2), 0.5,
     [tensor("int32", 5), tensor("int32", [0, 0, 2, 4]), tensor("int32", [0, 1, 1, 1, 3, 3])],
     row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"])
case("RaggedTensorToTensor", [3, -1], uniform([3], seed=2), 0.5,
     [tensor("int32", 10), tensor("int32", [1, 7, 9])],
     row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"])
case("RaggedTensorToTensor", -1, tensor("float", []), 0.5, [tensor("int32", [0])],
     row_partition_types=["ROW_SPLITS"])
case("RaggedTensorToTensor", -1, tensor("float", []), 0.5, [tensor("int32", [0, 0, 0])],
     row_partition_types=["ROW_SPLITS"])
error("RaggedTensorToTensor", -1, [1.0], 0.5, [tensor("int32", 2), tensor("int32", [3])],
      row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
      text="Got current_value_rowid=3 which is not less than 2")
error("RaggedTensorToTensor", [-1, -1, -1], [1.0], 0.5, [tensor("int32", [0, 1])],
      row_partition_types=["ROW_SPLITS"], text="")
error("RaggedTensorToTensor", -1, [1.0], [0.5, 2.0], [tensor("int32", [0, 1])],
      row_partition_types=["ROW_SPLITS"], text="")

# --- RaggedGather
for dtype in ["float", "string", "int32"]:
  values = uniform([6], 0, 9, 4, dtype) if dtype != "string" else list("abcdef")
  case("RaggedGather", [tensor("int64", [0, 2, 2, 6])], values, [2, 0, 1, 2], OUTPUT_RAGGED_RANK=1)
case("RaggedGather", [tensor("int32", [0, 2, 2, 6])], uniform([6, 2], seed=5),
     tensor("int64", [[2, 0], [1, 2]]), OUTPUT_RAGGED_RANK=2)
case("RaggedGather", [tensor("int32", [0, 2, 3]), tensor("int32", [0, 1, 1, 4])],
     uniform([4], seed=6), [1, 0, 1], OUTPUT_RAGGED_RANK=2)
case("RaggedGather", [tensor("int32", [0, 2, 2, 6])], uniform([6], seed=5), 2,
     OUTPUT_RAGGED_RANK=0)
case("RaggedGather", [tensor("int32", [0, 2])], uniform([2], seed=5), tensor("int32", []),
     OUTPUT_RAGGED_RANK=1)
error("RaggedGather", [tensor("int32", [0, 2, 2])], [1.0, 2.0], [2], OUTPUT_RAGGED_RANK=1,
      text="indices[0] = 2 is not in [0, 2)")
error("RaggedGather", [tensor("int32", [0, 3])], [1.0, 2.0], [0], OUTPUT_RAGGED_RANK=1,
      text="Ragged splits must not point past values")
error("RaggedGather", [tensor("int32", [0, 2, 1])], [1.0, 2.0], [0], OUTPUT_RAGGED_RANK=1,
      text="Ragged splits must be sorted")
error("RaggedGather", [tensor("int32", [-1, 2])], [1.0, 2.0], [0], OUTPUT_RAGGED_RANK=1,
      text="Ragged splits must be non-negative")

# --- RaggedTensorToSparse
case("RaggedTensorToSparse", [tensor("int64", [0, 2, 2, 5])], uniform([5], seed=1))
case("RaggedTensorToSparse", [tensor("int32", [0, 2, 2, 5])], ["a", "b", "", "d", "e"])
case("RaggedTensorToSparse", [tensor("int32", [0, 2, 3]), tensor("int32", [0, 1, 1, 4])],
     uniform([4, 2], seed=6))
case("RaggedTensorToSparse", [tensor("int32", [0, 0, 3]), tensor("int32", [0, 0, 2, 2]),
                              tensor("int32", [0, 3, 4])], uniform([4], seed=6))
case("RaggedTensorToSparse", [tensor("int32", [0, 0])], tensor("float", []))
error("RaggedTensorToSparse", [tensor("int32", [])], [1.0], text="ragged splits may not be empty.")
error("RaggedTensorToSparse", [tensor("int32", [1, 2])], [1.0, 2.0],
      text="First value of ragged splits must be 0.")
error("RaggedTensorToSparse", [tensor("int32", [0, 2, 1])], [1.0],
      text="Ragged splits should be non decreasing, but we got 2 followed by 1")
error("RaggedTensorToSparse", [tensor("int32", [0, 2])], [1.0],
      text="Final value of ragged splits must match the length the corresponding ragged values.")
