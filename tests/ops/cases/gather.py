from generate import case, error, tensor, uniform, zeros

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16"]
FLOATS = ["float", "double", "half", "bfloat16"]
WIDTHS = ["int8", "half", "float", "int64", "complex128", "bool"]
X23 = uniform([2, 3], seed=1)
X345 = uniform([3, 4, 5], 0, 100, 2, "int32")
NONE = tensor("int32", [])
NAN = float("nan")


def long(values):
  return tensor("int64", values)


def sample(dtype, shape, seed=1):
  return uniform(shape, 0, 2 if dtype == "bool" else 9, seed, dtype)


# Gathering.
for axis in [0, 1, 2, -1]:
  case("GatherV2", X345, [2, 0, 2], axis)
  case("GatherV2", X345, 1, axis)
  case("GatherV2", X345, long([[0, 1], [2, 0]]), tensor("int64", axis))
for dtype in WIDTHS:
  case("GatherV2", sample(dtype, [4, 3]), [3, 3, 0], 0)
  case("GatherV2", sample(dtype, [7]), [6, 0, 1], 0)
case("GatherV2", tensor("string", [b"a", b"b"]), tensor("int16", [1, 0, 1]), 0)
case("GatherV2", uniform([3, 4, 5]), [[0, 1], [3, 2], [0, 0]], 1, batch_dims=1)
case("GatherV2", uniform([3, 4, 5]), [[0, 1], [3, 2], [0, 0]], 2, batch_dims=1)
case("GatherV2", uniform([3, 4, 5]), [[0, 1, 1, 4], [3, 2, 0, 0], [0, 0, 2, 3]], -1, batch_dims=-1)
case("GatherV2", uniform([3, 4]), uniform([3, 4], 0, 4, 3, "int32"), 1, batch_dims=1)
case("GatherV2", zeros([0, 3]), NONE, 0)
case("GatherV2", X23, tensor("int32", [], [0, 2]), 1)
case("GatherV2", uniform([500, 64]), uniform([900], 0, 500, 5, "int32"), 0)
case("GatherV2", uniform([90000]), uniform([90000], 0, 90000, 5, "int64"), 0)
error("GatherV2", [1.0, 2.0, 3.0], [0, 7], 0, text="indices[1] = 7 is not in [0, 3)")
error("GatherV2", [1.0, 2.0, 3.0], 7, 0, text="indices = 7 is not in [0, 3)")
error("GatherV2", [1.0, 2.0, 3.0], [[0, 1], [1, -1]], 0, text="indices[1,1] = -1 is not in [0, 3)")
error("GatherV2", [1.0, 2.0], [0], 1, text="Shape must be at least rank 2 but is rank 1")
error("GatherV2", [1.0, 2.0], [0], [0, 0], text="axis must be scalar")
error("GatherV2", X23, [[0], [5]], 1, batch_dims=1, text="indices[1,0] = 5 is not in [0, 3)")
error("GatherV2", X23, [[0], [1], [2]], 1, batch_dims=1,
      text="params.shape[0]: 2 should be equal to indices.shape[0]: 3")
error("GatherV2", X23, [[0], [1]], 0, batch_dims=1,
      text="batch_dims (1) must be less than or equal to axis (0).")
error("GatherV2", X23, [[0], [1]], 1, batch_dims=5,
      text="Expected batch_dims in the range [-2, 2], but got 5")
error("GatherV2", 1.0, [0], 0, text="params must be at least 1 dimensional")
error("GatherV2", zeros([0, 3]), [0], 0, text="indices[0] = 0 is not in [0, 0)")
case("Gather", X23, [1, 0, 1])
case("GatherNd", X345, [[0, 1, 2], [2, 3, 4]])
case("GatherNd", X345, long([[[0, 1]], [[2, 3]]]))
case("GatherNd", X345, [1])
case("GatherNd", X23, tensor("int32", [], [2, 0]))
case("GatherNd", X23, tensor("int32", [], [0, 2]))
for dtype in WIDTHS:
  case("GatherNd", sample(dtype, [3, 4]), tensor("int16", [[2, 1], [0, 3]]))
case("GatherNd", tensor("string", [[b"a", b"b"]]), [[0, 1]])
case("GatherNd", X23, [[0, 7], [1, 1]], bad_indices_policy="IGNORE")
error("GatherNd", X23, [[0, 7]], text="indices[0] = [0, 7] does not index into param shape [2,3]")
error("GatherNd", X23, [[[0, 1], [5, 0]]],
      text="indices[0,1] = [5, 0] does not index into param shape [2,3]")
error("GatherNd", X23, [[0, 1, 2]],
      text="index innermost dimension length must be <= params rank; saw: 3 vs. 2")
error("GatherNd", X23, 1, text="indices must be at least a vector")
error("GatherNd", 1.0, [[1]], text="params must be at least a vector")
error("GatherNd", zeros([0, 3]), [[1]], text="Requested more than 0 entries, but params is empty.")

# Scattering.
for dtype in INTS + FLOATS + ["complex64", "bool"]:
  case("ScatterNd", [[4], [1], [4]], sample(dtype, [3, 2]), [5, 2])
case("ScatterNd", [[0, 1], [1, 2], [0, 1]], [1.0, 2.0, 3.0], [2, 3])
case("ScatterNd", long([[[0], [2]]]), uniform([1, 2, 3]), long([4, 3]))
case("ScatterNd", [[1], [1]], tensor("string", [b"a", b"b"]), [3])
case("ScatterNd", tensor("int32", [], [0, 1]), tensor("float", []), [3])
case("ScatterNd", [[1], [7]], [1.0, 2.0], [3], bad_indices_policy="IGNORE")
case("ScatterNd", uniform([3000, 1], 0, 400, 3, "int32"), uniform([3000, 64], -9, 9, 4, "int32"),
     [400, 64])
error("ScatterNd", [[1], [7]], [1.0, 2.0], [4],
      text="indices[1] = [7] does not index into shape [4]")
error("ScatterNd", [[1]], [1.0, 2.0], [4], text="must match dimensions [0,1) of updates[shape=[2]]")
error("ScatterNd", [[1]], [[1.0, 2.0]], [4], text="Dimensions [1,1) of input[shape=[4]]")
error("ScatterNd", [[1, 2]], [1.0], [4], text="Dimensions [2,1) of input[shape=[4]]")
error("ScatterNd", [[1]], [1.0], [-4], text="Dimension -4 must be >= 0")
error("ScatterNd", 1, [1.0], [4], text="Indices shape must have rank at least one. Found:[]")
error("ScatterNd", [1], 1.0, [4], text="Updates shape must have rank at least one. Found:[]")
error("ScatterNd", [[1]], [1.0], [[4]], text="hape must be a vector")
error("ScatterNd", [[0]], [1.0], [0], text="Indices and updates specified for empty output.")
error("ScatterNd", tensor("int32", [], [2, 0]), uniform([2, 3]), [3],
      text="Indices and updates specified for empty output shape")
error("TensorScatterUpdate", uniform([3]), tensor("int32", [], [2, 0]), uniform([2, 3]),
      text="Indices and updates specified for empty output shape")
T45 = uniform([4, 5], 1, 9, 6, "int32")
for op in ["Update", "Add", "Sub", "Min", "Max"]:
  op = "TensorScatter" + op
  case(op, T45, [[1], [3]], uniform([2, 5], 1, 9, 7, "int32"))
  case(op, uniform([4, 5]), [[1, 0], [3, 4]], [0.5, -0.5])
  case(op, [1.0, NAN, 3.0], [[1], [0]], [5.0, NAN])
  case(op, T45, tensor("int64", [], [0, 2]), NONE)
for dtype in FLOATS + INTS:
  case("TensorScatterAdd", sample(dtype, [4, 2]), [[1], [0], [1]], sample(dtype, [3, 2], 2))
case("TensorScatterUpdate", tensor("string", [b"a", b"b"]), [[1]], tensor("string", [b"z"]))
case("TensorScatterUpdate", tensor("bool", [True, False]), [[1]], tensor("bool", [True]))
error("TensorScatterUpdate", X23, [[0], [5]], zeros([2, 3]),
      text="indices[1] = [5] does not index into shape [2,3]")
error("TensorScatterUpdate", X23, [[0]], zeros([2, 3]),
      text="Outer dimensions of indices and update must match.")
error("TensorScatterUpdate", X23, [[0, 0, 0]], zeros([1]),
      text="Inner dimensions of output shape must match inner dimensions of updates shape.")
error("TensorScatterAdd", zeros([0, 3]), [[0]], zeros([1, 3]),
      text="Indices and updates specified for empty output shape")

# Stitching and partitioning.
case("DynamicStitch", [[0, 1], [2, 4, 3]], [[1.0, 2.0], [3.0, 4.0, 5.0]])
case("DynamicStitch", [1, [0, 2]], [X23, uniform([2, 2, 3], seed=3)])
case("DynamicStitch", [[0, 1], [1, 2]], [[1, 2], [3, 4]])
case("DynamicStitch", [NONE], [zeros([0, 2])])
case("DynamicStitch", [[1, 0]], [tensor("string", [b"a", b"b"])])
case("ParallelDynamicStitch", [[0, 2], [1]], [X23, uniform([1, 3], seed=3)])
error("DynamicStitch", [[0, -1]], [[1.0, 2.0]], text="indices[1] is out of range")
error("DynamicStitch", [[0, 1], [1, 4]], [[1.0, 2.0], [[3.0], [4.0]]],
      text="got data[0].shape = [2], data[1].shape = [2,1]")
error("DynamicStitch", [[0, 1]], [[1.0, 2.0, 3.0]],
      text="data[0].shape = [3] does not start with indices[0].shape = [2]")
case("DynamicPartition", [1.0, 2.0, 3.0], [0, 1, 0], num_partitions=3)
case("DynamicPartition", X345, [1, 1, 0], num_partitions=2)
case("DynamicPartition", tensor("string", [[b"a", b"b"]]), [[1, 0]], num_partitions=2)
error("DynamicPartition", [1.0, 2.0], [0, 5], num_partitions=2,
      text="partitions[1] = 5 is not in [0, 2)")
error("DynamicPartition", [1.0, 2.0, 3.0], [0, 1], num_partitions=2,
      text="data.shape must start with partitions.shape")

# Selecting.
for dtype in INTS + ["float", "double", "complex64", "bool"]:
  case("Where", tensor(dtype, [[1, 0, 1], [0, 0, 1]]))
case("Where", [0.0, -0.0, NAN, 1.0])
case("Where", uniform([3, 4, 2, 2], 0, 2, 5, "int32"))
case("Where", zeros([0, 3], "bool"))
case("Where", zeros([3, 0], "bool"))
case("Where", tensor("bool", [False, False]))
error("Where", tensor("bool", True), text="WhereOp : Unhandled input dimensions: 0")
for dtype in ["float", "int64", "bool", "half"]:
  case("OneHot", [0, 2, -1, 5], 3, tensor(dtype, 1), tensor(dtype, 0))
for axis in [-1, 0, 1, 2]:
  case("OneHot", long([[0, 2], [1, 3]]), 3, 5.0, -1.0, axis=axis)
case("OneHot", tensor("uint8", 1), 3, 1, 0)
case("OneHot", tensor("int8", [1]), 0, 1, 0)
case("OneHot", [1], 2, tensor("string", b"on"), tensor("string", b"off"))
error("OneHot", [0], 3, 1.0, 0.0, axis=5, text="Expected axis to be -1 or between [0, 2)")
error("OneHot", [0], -3, 1.0, 0.0, text="depth must be non-negative, got: -3")
error("OneHot", [0], [3], 1.0, 0.0, text="depth must be a scalar")
error("OneHot", [0], 3, [1.0], 0.0, text="on_value must be a scalar")

# Looking up.
for dtype in INTS + FLOATS + ["bool"]:
  case("Unique", tensor(dtype, [1, 0, 1, 1, 0]))
case("Unique", [NAN, NAN, 0.0, -0.0], out_idx="int64")
case("Unique", tensor("string", [b"a", b"b", b"a"]))
case("Unique", NONE)
case("UniqueWithCounts", [3, 1, 3, 3, 2])
error("Unique", [[1]], text="unique expects a 1D vector.")
case("ListDiff", [1, 2, 3, 2], [1])
case("ListDiff", tensor("string", [b"a", b"b"]), tensor("string", [b"b"]), out_idx="int64")
error("ListDiff", [[1]], [1], text="x should be a 1D vector.")
case("Bucketize", [[1.0, 5.0, NAN, -3.0]], boundaries=[1.0, 4.0])
case("Bucketize", long([1, 5]), boundaries=[1.0, 4.0])
case("Bucketize", [1.0], boundaries=[])
for op in ["LowerBound", "UpperBound"]:
  case(op, [[1.0, 3.0, 3.0, 5.0]], [[0.0, 3.0, 9.0]])
  case(op, [[1, 2], [3, 4]], [[1, 2, 3], [3, 4, 5]], out_type="int64")
  error(op, [1], [[1]], text="Shape must be rank 2 but is rank 1 for `sorted_inputs` argument")
  error(op, [[1], [2]], [[1]], text="Leading dim_size of both tensors must match")
case("UnravelIndex", [3, 5], [2, 3])
case("UnravelIndex", tensor("int64", 7), long([2, 2, 2]))
error("UnravelIndex", [3, 7], [2, 3], text="index is out of bound as with dims")

# --- Unique slices
ROWS = [[1, 2, 1], [3, 4, 3], [1, 2, 1]]
for op in ["UniqueV2", "UniqueWithCountsV2"]:
  for dtype in ["int32", "float", "half", "bool", "uint8"]:
    case(op, tensor(dtype, ROWS), tensor("int64", [0]))
    case(op, tensor(dtype, ROWS), tensor("int32", [1]), out_idx="int64")
  case(op, [["a", "b"], ["ab", ""], ["a", "b"]], tensor("int64", [0]))
  case(op, [3, 1, 3, 3], tensor("int64", []))
  case(op, [3, 1, 3, 3], tensor("int64", [0]))
  case(op, [[0.0, 1.0], [-0.0, 1.0], [float("nan"), 1.0], [float("nan"), 1.0]],
       tensor("int64", [0]))
  error(op, ROWS, tensor("int64", []), text="unique expects a 1D vector.")
  error(op, ROWS, tensor("int64", [2]), text="")
  error(op, ROWS, tensor("int64", [0, 1]), text="")

for op in ["InplaceUpdate", "InplaceAdd", "InplaceSub"]:
  for dtype in ["float", "double", "half", "int8", "int32", "int64", "complex64"]:
    case(op, uniform([4, 3], 0, 9, 1, dtype), [2, 0, 2], uniform([3, 3], 0, 9, 2, dtype))
  case(op, [1, 2, 3], [-1, 5, 0], [10, 20, 30])
  case(op, zeros([0, 2]), [0], [[1.0, 1.0]])
  case(op, [1.0, 2.0], tensor("int32", []), zeros([0]))
  case(op, zeros([2, 0]), [1], zeros([1, 0]))
  error(op, [[1.0, 2.0]], 0, [1.0, 2.0], text="i must be a vector. []")
  error(op, [[1.0, 2.0]], [0], [1.0], text="x and v shape doesn't match (ranks differ): [1,2] vs. [1]")
  error(op, [[1.0, 2.0]], [0], [[1.0]], text="x and v shape doesn't match at index 1 : [1,2] vs. [1,1]")
  error(op, [[1.0, 2.0]], [0, 0], [[1.0, 2.0]], text="i and x shape doesn't match at index 0: [2] vs. [1,2]")
case("InplaceUpdate", tensor("string", ["a", "b"]), [1], tensor("string", ["c"]))
case("InplaceUpdate", [True, False], [0], [False])
error("InplaceAdd", tensor("string", ["a", "b"]), [1], tensor("string", ["c"]),
      text="Unsupported data type: string")
error("InplaceSub", [True, False], [0], [False], text="Unsupported data type: bool")
