from generate import case, error, ones, tensor, uniform, zeros

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
# One of each width, and what is no number.
WIDTHS = ["int8", "half", "float", "int64", "complex128", "bool"]
X23 = uniform([2, 3], seed=1)
NONE = tensor("int32", [])


def long(values):
  return tensor("int64", values)


def sample(dtype, shape, seed=1):
  return uniform(shape, 0, 2 if dtype == "bool" else 9, seed, dtype)


# Shapes and sizes.
case("Shape", X23)
case("Shape", 5.0)
case("Shape", tensor("string", [[b"a", b"b"]]), out_type="int64")
case("Shape", tensor("float", [], [0, 3]))
case("ShapeN", [X23, zeros([4, 0, 1]), 1.0], out_type="int64")
case("Size", X23)
case("Size", tensor("float", [], [0, 3]), out_type="int64")
case("Rank", zeros([1, 1, 1]))
case("Rank", tensor("string", b"x"))

# Reshape and its kin.
case("Reshape", X23, [3, 2])
case("Reshape", X23, [-1])
case("Reshape", X23, long([2, -1, 1]))
case("Reshape", X23, 6)
case("Reshape", 5.0, NONE)
case("Reshape", tensor("float", [5]), NONE)
case("Reshape", tensor("float", [], [0, 3]), [0, -1])
case("Reshape", tensor("float", [], [0, 3]), [-1, 2])
case("Reshape", tensor("float", [], [0, 3]), [5, 0, -1])
case("Reshape", tensor("string", [b"a", b"bc"]), [2, 1])
error("Reshape", X23, [4, 2],
      text="Input to reshape is a tensor with 6 values, but the requested shape has 8")
error("Reshape", X23, [4, -1], text="but the requested shape requires a multiple of 4")
error("Reshape", X23, [-1, -1], text="Only one input size may be -1, not both 0 and 1")
error("Reshape", X23, [-2, 3], text="Size 0 must be non-negative, not -2")
error("Reshape", X23, [[6]], text="sizes input must be 1-D, not [1,1]")
error("Reshape", X23, long([2**62, 4]), text="has too many elements")
error("Reshape", X23, [0, -1], text="Input to reshape is a tensor with 6 values")
case("Squeeze", zeros([1, 2, 1, 3]))
case("Squeeze", zeros([1, 2, 1, 3]), squeeze_dims=[-2])
case("Squeeze", zeros([1, 1]))
case("Squeeze", tensor("string", [[b"a"]]), squeeze_dims=[0])
error("Squeeze", X23, squeeze_dims=[1],
      text="Can not squeeze dim[1], expected a dimension of 1, got 3")
error("Squeeze", X23, squeeze_dims=[4],
      text="Tried to squeeze dim index 4 for tensor with 2 dimensions.")
for axis in [0, 1, 2, -1, -3]:
  case("ExpandDims", X23, axis)
case("ExpandDims", 1.0, [0])
case("ExpandDims", tensor("string", b"x"), tensor("int64", -1))
error("ExpandDims", X23, 4, text="Tried to expand dim index 4 for tensor with 2 dimensions.")
error("ExpandDims", X23, -4, text="Tried to expand dim index -4 for tensor with 2 dimensions.")
error("ExpandDims", X23, [0, 1], text="'dim' must be a tensor with a single value")
case("Bitcast", X23, type="int32")
case("Bitcast", [[1.0, 2.0]], type="uint8")
case("Bitcast", tensor("uint8", [[0, 0, 128, 63], [1, 2, 3, 4]]), type="uint32")
case("Bitcast", tensor("half", [1, 2]), type="uint16")
case("Bitcast", tensor("complex64", [1 + 2j]), type="float")
case("Bitcast", tensor("int64", [5, -1]), type="double")
error("Bitcast", X23, type="double", text="Cannot bitcast from 1 to 2")
error("Bitcast", 1.0, type="double", text="Cannot bitcast from 1 to 2")

# Joining and splitting.
case("Pack", [1, 2, 3])
case("Pack", [tensor("int64", 7)])
for axis in [0, 1, 2, -1, -3]:
  case("Pack", [X23, uniform([2, 3], seed=2)], axis=axis)
for dtype in INTS + FLOATS + COMPLEX + ["bool"]:
  case("Pack", [sample(dtype, [2, 2]), sample(dtype, [2, 2], 2), sample(dtype, [2, 2], 3)], axis=1)
case("Pack", [tensor("string", [b"a", b"b"]), tensor("string", [b"c", b"d"])], axis=1)
case("Pack", [X23], axis=2)
case("Pack", [uniform([300, 40]), uniform([300, 40], seed=2), uniform([300, 40], seed=3)], axis=2)
case("Pack", [tensor("float", [], [0, 2]), tensor("float", [], [0, 2])])
error("Pack", [[1.0], [1.0, 2.0]],
      text="Shapes of all inputs must match: values[0].shape = [1] != values[1].shape = [2]")
error("Pack", [[1.0], [1.0]], axis=3, text="axis = 3 not in [-2, 2)")
for axis in [0, 1, -1]:
  case("Unpack", X23, num=2 if axis == 0 else 3, axis=axis)
case("Unpack", tensor("string", [b"a", b"b"]), num=2)
case("Unpack", zeros([1, 4]), num=1)
case("Unpack", uniform([3, 2, 0], dtype="int32"), num=2, axis=1)
error("Unpack", X23, num=3, text="must equal 3, got shape [2,3]")
error("Unpack", X23, num=3, axis=5, text="axis = 5 not in [-2, 2)")
for axis in [0, 1, -1, -2]:
  case("ConcatV2", [X23, uniform([2, 3], seed=2), uniform([2, 3], seed=3)], axis)
case("ConcatV2", [X23, uniform([2, 1], seed=2)], tensor("int64", 1))
case("ConcatV2", [[1, 2], NONE, [3]], 0)
case("ConcatV2", [tensor("float", [], [2, 0]), X23], 1)
case("ConcatV2", [tensor("float", [], [0, 3]), tensor("float", [], [0, 3])], 0)
for dtype in WIDTHS:
  case("ConcatV2", [sample(dtype, [3, 2]), sample(dtype, [3, 5], 2)], 1)
case("ConcatV2", [tensor("string", [[b"a"], [b"b"]]), tensor("string", [[b"c"], [b"d"]])], 1)
case("ConcatV2", [uniform([700, 90]), uniform([700, 3], seed=2), uniform([700, 17], seed=3)], 1)
case("ConcatV2", [X23, X23], [0])
error("ConcatV2", [X23, zeros([3, 3])], 1, text="Dimension 0 in both shapes must be equal")
error("ConcatV2", [X23, zeros([3])], 0, text="Ranks of all input tensors should match")
error("ConcatV2", [X23, X23], 2,
      text="Expected concatenating dimensions in the range [-2, 2), but got 2")
error("ConcatV2", [1.0, 2.0], 0, text="ConcatOp : ")
error("ConcatV2", [X23, X23], [0, 1], text="axis")
case("ConcatOffset", 1, [[2, 2, 5], [2, 3, 5], [2, 1, 5]])
case("ConcatOffset", -1, [long([2, 2]), long([2, 9])])
error("ConcatOffset", 1, [[2, 2, 5], [2, 3, 6]], text="All dimensions except 1 must match.")
error("ConcatOffset", 7, [[2, 2, 5], [2, 3, 5]], text="Concat dim is out of range: 7 vs. 3")
error("ConcatOffset", 1, [[2, 2, 5], [2, 3]], text="input 1 should contain 3 elements, but got 2")
case("Split", 0, X23, num_split=2)
case("Split", -1, X23, num_split=3)
case("Split", 1, uniform([64, 96, 5]), num_split=3)
case("Split", 0, tensor("string", [b"a", b"b"]), num_split=1)
for dtype in WIDTHS:
  case("Split", 1, sample(dtype, [3, 4]), num_split=2)
error("Split", 2, X23, num_split=2, text="-input rank(-2) <= split_dim < input rank (2), but got 2")
error("Split", 1, X23, num_split=2, text="Number of ways to split should evenly divide")
error("Split", [1], X23, num_split=3, text="split_dim must be a scalar but has rank 1")
case("SplitV", X23, [1, 2], 1, num_split=2)
case("SplitV", X23, long([1, -1]), -1, num_split=2)
case("SplitV", X23, [0, 3, 0], 1, num_split=3)
case("SplitV", X23, [2], 0, num_split=1)
case("SplitV", tensor("string", [b"a", b"b", b"c"]), [2, 1], 0, num_split=2)
case("SplitV", uniform([200, 333]), [100, 33, 200], 1, num_split=3)
error("SplitV", X23, [1, 1], 1, num_split=2, text="Determined shape must either match")
error("SplitV", X23, [1, 1, 1], 1, num_split=2, text="size of the split_tensor must be 1-D")
error("SplitV", X23, [-1, 4], 1, num_split=2, text="Determined shape must either match")
error("SplitV", X23, [-2, 5], 1, num_split=2, text="Split size at index 0 must be >= 0. Got: -2")
error("SplitV", X23, [1, 2], 3, num_split=2, text="<= split_dim < input rank (2), but got 3")

# Filling.
for dtype in INTS + FLOATS + COMPLEX + ["bool"]:
  case("Fill", [2, 3], tensor(dtype, 1))
  case("ZerosLike", tensor(dtype, [[1, 1], [0, 1]]))
  case("OnesLike", tensor(dtype, [[1, 1], [0, 1]]))
case("Fill", [2], tensor("string", b"ab"))
case("Fill", NONE, 3.0)
case("Fill", long([0, 3]), 3.0)
case("Fill", 3, 1.0)
case("Fill", [2], [1.0])
case("Fill", [100, 500], 2.5)
error("Fill", [-1, 2], 1.0, text="Dimension -1 must be >= 0")
error("Fill", [[1]], 1.0, text="dims must represent a vector, got shape [1,1]")
error("Fill", [2], [1.0, 2.0], text="value must represent a scalar, got shape [2]")
error("Fill", long([2**62, 2**62]), 1.0, text="would have more than 2**63 - 1 elements")
error("Fill", long([2**45]), 1.0, code="RESOURCE_EXHAUSTED", text="")
case("ZerosLike", tensor("string", [b"a"]))
case("ZerosLike", zeros([0, 3]))
case("OnesLike", uniform([200, 300], dtype="half"))
case("Range", 0, 5, 1)
case("Range", 5, -4, -3)
case("Range", 3, 3, 1)
case("Range", tensor("int64", 2**40), tensor("int64", 2**40 + 9), tensor("int64", 4))
case("Range", 0.0, 1.0, 0.1)
case("Range", 0.0, -1.0, -0.3)
case("Range", tensor("double", 0), tensor("double", 1), tensor("double", 0.1))
for dtype in ["half", "bfloat16", "float"]:
  case("Range", tensor(dtype, 100), tensor(dtype, 600), tensor(dtype, 1.7))
case("Range", [0], 5, 1)
error("Range", 0, 5, 0, text="Requires delta != 0: 0")
error("Range", 0, 5, -1, text="Requires start >= limit when delta < 0: 0/5")
error("Range", 5, 0, 1, text="Requires start <= limit when delta > 0: 5/0")
error("Range", [0, 1], 5, 1, text="start must be a scalar, not shape [2]")
error("Range", long(-2**63), long(2**63 - 1), long(1), text="Requires ((limit - start) / delta) <=")
error("Range", 0.0, float("inf"), 0.1, text="Requires ((limit - start) / delta) <=")
error("Range", 0.0, float("nan"), 0.1, text="Requires start <= limit when delta > 0: 0/nan")
error("Range", long(0), long(2**62), long(1), text="", code="RESOURCE_EXHAUSTED")
case("Empty", [2, 3], dtype="float", init=True)
case("Empty", [2], dtype="string", init=True)
case("FakeParam", dtype="float", shape=[2, 3], values=False)
case("FakeParam", dtype="string", shape=[2], values=False)
case("FakeParam", dtype="int32", shape=[None, 3], values=False)
case("FakeParam", dtype="bool", shape=[], values=False)

# Repeating.
case("Tile", X23, [2, 1])
case("Tile", X23, long([2, 3]))
case("Tile", X23, [1, 0])
case("Tile", 5.0, NONE)
case("Tile", tensor("string", [b"a", b"b"]), [2])
for dtype in WIDTHS:
  case("Tile", sample(dtype, [2, 1, 3]), [2, 2, 1])
case("Tile", uniform([40, 1, 7]), [3, 50, 2])
error("Tile", X23, [1],
      text="Expected multiples argument to be a vector of length 2 but got length 1")
error("Tile", X23, [1, -1], text="Expected multiples[1] >= 0, but got -1")
error("Tile", X23, long([2**62, 2**62]), code="INVALID_ARGUMENT", text="")
case("BroadcastTo", X23, [4, 2, 3])
case("BroadcastTo", [[1.0], [2.0]], [2, 3])
case("BroadcastTo", 5.0, [2, 2])
case("BroadcastTo", 5.0, NONE)
case("BroadcastTo", [1.0], [0])
case("BroadcastTo", tensor("string", [[b"a"], [b"b"]]), long([2, 2]))
for dtype in WIDTHS:
  case("BroadcastTo", sample(dtype, [2, 1, 3, 1]), [2, 2, 3, 2])
case("BroadcastTo", uniform([30, 1, 40]), [30, 60, 40])
error("BroadcastTo", X23, [3, 3], text="Incompatible shapes: [2,3] vs. [3,3]")
error("BroadcastTo", X23, [3],
      text="Rank of input (2) must be no greater than rank of output shape (1).")
error("BroadcastTo", X23, [-1, 3], text="Dimension -1 must be >= 0")
error("BroadcastTo", 1.0, long([2**62, 2**62]), text="would have more than 2**63 - 1 elements")
for a, b in [([2, 3], [2, 3]), ([2, 1, 1], [1, 3]), ([1, 1], [1, 1]), ([1], [2, 1]),
             ([0, 3], [1, 3]), ([5, 1, 4], [3, 1]), ([7], [1, 1, 7])]:
  case("BroadcastGradientArgs", a, b)
  case("BroadcastArgs", a, b)
case("BroadcastGradientArgs", NONE, NONE)
case("BroadcastGradientArgs", NONE, [2, 3])
case("BroadcastGradientArgs", long([2, 1]), long([2, 9]))
error("BroadcastGradientArgs", [2, 3], [3, 3], text="Incompatible shapes: [2,3] vs. [3,3]")
error("BroadcastGradientArgs", [[1]], [2, 1], text="In[0] must be a vector.[1,1]")
case("InvertPermutation", [2, 0, 1, 3])
case("InvertPermutation", long([0]))
case("InvertPermutation", NONE)
error("InvertPermutation", [0, 0], text="0 is duplicated in the input.")
error("InvertPermutation", [0, 5], text="5 is not between 0 and 2")
error("InvertPermutation", [[0]], text="invert_permutation expects a 1D vector.")
case("OnesLike", ones([3]))

for dtype in WIDTHS:
  case("ParallelConcat", [uniform([1, 3], 0, 2, 1, dtype), uniform([1, 3], 0, 2, 2, dtype)],
       shape=[2, 3])
case("ParallelConcat", [["a"], ["b"], ["c"]], shape=[3])
case("ParallelConcat", [zeros([1, 0])], shape=[1, 0])
error("ParallelConcat", [[1.], [2.]], shape=[3], code="INVALID_ARGUMENT",
      text="as many rows as there are values",
      comment="TensorFlow writes the rows that there are.")

for dtype, index in [("float", "int32"), ("double", "int64")]:
  for stop, n in [(10, 5), (0.7, 7), (-3.5, 4), (2, 1), (9, 1000)]:
    case("LinSpace", tensor(dtype, 0.1), tensor(dtype, stop), tensor(index, n))
case("LinSpace", float("inf"), 1.0, 3)
error("LinSpace", 1.0, 2.0, 0, text="Requires num > 0: 0")
error("LinSpace", 1.0, 2.0, -1, text="Requires num > 0: -1")
error("LinSpace", [1.0], 2.0, 3, text="start must be a scalar, not shape [1]")
error("LinSpace", 1.0, [2.0], 3, text="stop must be a scalar, not shape [1]")
error("LinSpace", 1.0, 2.0, [3], text="num must be a scalar, not shape [1]")
error("LinSpace", 1.0, 2.0, long(2**62), text="", code="RESOURCE_EXHAUSTED")
