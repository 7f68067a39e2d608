from generate import case, error, ones, tensor, uniform, zeros

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
NAN = float("nan")
INF = float("inf")

for op in ["Sum", "Prod", "Mean", "Max", "Min", "EuclideanNorm"]:
  extreme = op in ("Max", "Min")
  for dtype in INTS + FLOATS + ([] if extreme else COMPLEX):
    low = 0 if dtype.startswith("u") else -4
    case(op, uniform([3, 5], low, 5, 1, dtype), [0])
    case(op, uniform([3, 5], low, 5, 2, dtype), [1])
    case(op, tensor(dtype, [], [0, 2]), [0])
  # All kinds of axes.
  x = uniform([2, 3, 4, 5], 0.5, 1.5, 3)
  for axes in [[0], [1], [2], [3], [-1], [0, 1], [1, 2], [0, 2], [1, 3], [0, 3], [0, 2, 3],
               [3, 0, 1], [0, 1, 2, 3], [], [-4, -2]]:
    case(op, x, tensor("int32", axes))
  case(op, x, tensor("int64", [1, 3]), keep_dims=True)
  case(op, x, tensor("int32", []), keep_dims=True)
  case(op, x, tensor("int32", [0, 1, 2, 3]), keep_dims=True)
  case(op, 3.5, tensor("int32", []))
  case(op, [[-3.0]], [0])
  case(op, [-3.0, 2.0], tensor("int32", []))
  case(op, [1.0, 2.0], 0)
  case(op, [[1.0, 2.0]], [[0, 1]])
  case(op, zeros([2, 0, 3]), [0, 2])
  case(op, zeros([2, 0, 3]), [1])
  case(op, [1.0, NAN, 2.0], 0)
  case(op, [[1.0, NAN], [2.0, 3.0]], 0)
  case(op, [[1.0, NAN], [2.0, 3.0]], 1)
  case(op, tensor("half", [1, NAN, 2]), 0)
  for dtype in ["half", "bfloat16"] if op != "Prod" else []:  # TensorFlow rounds each product.
    # Rows and columns that are widened several at a time, one at a time, and in parts.
    case(op, uniform([40, 70], 0.9, 1.1, 12, dtype), [1])
    case(op, uniform([300, 5], 0.99, 1.01, 13, dtype), [0])
    case(op, uniform([3, 5000], 0.999, 1.001, 14, dtype), [1])
    case(op, uniform([3, 200, 131], 0.99, 1.01, 15, dtype), [1])
  case(op, [INF, 1.0, -INF], 0)
  case(op, uniform([40, 70], 0.9, 1.1, 4), [1])
  case(op, uniform([70, 40], 0.9, 1.1, 5), [0])
  case(op, uniform([7, 50, 300], 0.99, 1.01, 6), [1])
  error(op, [[1.0, 2.0]], [0, 0],
        text="Invalid reduction arguments: Axes contains duplicate dimension: 0")
  error(op, [[1.0, 2.0]], [0, -2],
        text="Invalid reduction arguments: Axes contains duplicate dimension: 0")
  error(op, [[1.0, 2.0]], [2], text="Invalid reduction dimension (2 for input with 2 dimension(s)")
  error(op, [[1.0, 2.0]], [-3],
        text="Invalid reduction dimension (-3 for input with 2 dimension(s)")
  error(op, 1.0, [0], text="Invalid reduction dimension (0 for input with 0 dimension(s)")
  error(op, tensor("qint8", [1, 2]), [0], text=op + ": dtype qint8 is not supported",
        code="UNIMPLEMENTED")

# Large: the error of a sum must not grow with its length.
case("Sum", uniform([3000000], 0, 1, 7), [0])
case("Mean", uniform([2, 600000], 0, 1, 8), [1])
case("Sum", uniform([300000, 5], 0, 1, 9), [0], tolerance="rel 5e-5")
case("Mean", uniform([5000, 200], 0, 1, 10), [0])
case("Sum", uniform([64, 33, 65], -1, 1, 11), [0, 2], tolerance="rel 1e-4 abs 1e-4")
case("Max", uniform([3, 200000], -1, 1, 12), [1])
case("Mean", tensor("int32", [2147483647, 2147483647, 1]), 0)
case("Mean", tensor("uint8", [255, 255, 1]), 0)
case("Mean", tensor("int8", [127, 127, 1]), 0)
case("Mean", [-1, -2, -4], 0)
case("Sum", tensor("int8", [127, 127, 1]), 0)
case("Sum", tensor("int32", [2147483647, 1]), 0)

for op in ["All", "Any"]:
  case(op, uniform([3, 4], 0, 2, 1, "bool"), [0])
  case(op, uniform([3, 4], 0, 2, 2, "bool"), [1])
  case(op, uniform([3, 4, 5], 0, 2, 3, "bool"), [0, 2], keep_dims=True)
  case(op, uniform([3, 4], 0, 2, 2, "bool"), [0, 1])
  case(op, tensor("bool", [True, True]), 0)
  case(op, tensor("bool", [False, False]), -1)
  case(op, tensor("bool", [[True, False]]), tensor("int32", []))
  case(op, zeros([0, 2], "bool"), 0)
  case(op, zeros([2, 0], "bool"), 0)

for op in ["ArgMax", "ArgMin"]:
  for dtype in INTS + FLOATS:
    case(op, uniform([4, 6], 0, 100, 1, dtype), 1)
    case(op, uniform([4, 6], 0, 3, 2, dtype), 0)
  case(op, uniform([4, 6], 0, 2, 2, "bool"), 0)
  import tensorflow as tf
  for output_type in [tf.int32, tf.int64] + ([tf.int16, tf.uint16] if op == "ArgMax" else []):
    case(op, uniform([2, 3, 4], -1, 1, 3), 1, output_type=output_type)
  case(op, uniform([2, 3, 4], -1, 1, 4), tensor("int64", -2))
  case(op, [NAN, 1.0, 3.0], 0)
  case(op, [1.0, NAN, 3.0], 0)
  case(op, [NAN, NAN], 0)
  case(op, [[1.0, NAN], [3.0, 2.0]], 0)
  case(op, [-INF, -INF, -INF], 0)
  case(op, [INF, INF], 0)
  case(op, [1.0, 1.0], 0)
  case(op, zeros([0, 2]), 1)
  case(op, zeros([2, 0]), 0)
  case(op, uniform([50, 300], -1, 1, 5), 0)
  error(op, 3.0, 0, text="Expected dimension in the range [0, 0), but got 0")
  error(op, [1.0], 1, text="Expected dimension in the range [-1, 1), but got 1")
  error(op, [1.0], -2, text="Expected dimension in the range [-1, 1), but got -2")
  error(op, [1.0], [0], text="dim must be a scalar, but received tensor of shape: [1]")
  error(op, zeros([2, 0]), 1, text="Reduction axis 1 is empty in shape [2,0]")

for op in ["Cumsum", "Cumprod"]:
  for dtype in INTS + FLOATS + COMPLEX:
    case(op, uniform([2, 4], 0, 5, 1, dtype), 1)
  x = uniform([2, 3, 4], 0.5, 1.5, 2)
  for axis in [0, 1, 2, -1]:
    for exclusive in [False, True]:
      for reverse in [False, True]:
        case(op, x, axis, exclusive=exclusive, reverse=reverse)
  case(op, [1.0, NAN, 2.0], tensor("int64", 0))
  case(op, zeros([0]), 0)
  case(op, zeros([2, 0]), 1)
  case(op, tensor("half", [2048, 1, 1, 1]), 0)
  error(op, [1.0, 2.0], 1, text="ScanOp: Expected scan axis in the range [-1, 1), but got 1")
  error(op, [1.0, 2.0], [0], text="ScanOp: axis must be a scalar, not [1]")
  error(op, 1.0, 0, text="ScanOp: Expected scan axis in the range [0, 0), but got 0")
case("Cumsum", ones([5000]), 0)

for dtype in ["int32", "int64", "float", "double"]:
  case("DenseBincount", [1, 2, 7, 1], 4, tensor(dtype, [1, 2, 3, 4]))
  case("DenseBincount", tensor("int64", [[1, 2], [3, 1]]), tensor("int64", 4), tensor(dtype, []))
case("DenseBincount", [[1, 2], [3, 1]], 4, [[1.0, 2.0], [3.0, 4.0]])
case("DenseBincount", [[1, 1], [3, 1]], 4, tensor("float", []), binary_output=True)
case("DenseBincount", [1, 1], 4, [2.0, 3.0], binary_output=True)
case("DenseBincount", 1, 4, tensor("float", []))
case("DenseBincount", tensor("int32", []), 3, tensor("int32", []))
case("DenseBincount", [1], 0, tensor("int32", []))
error("DenseBincount", [-1], 4, [1.0], text="Input arr must be non-negative!")
error("DenseBincount", [1], -4, [1.0], text="size (-4) must be non-negative")
error("DenseBincount", [1, 1], 4, [1.0],
      text="`weights` must be the same shape as `arr` or a length-0 `Tensor`")
error("DenseBincount", zeros([1, 1, 1], "int32"), 4, tensor("float", []),
      text="Shape must be at most rank 2 but is rank 3")
error("DenseBincount", [1], [4], [1.0], text="Shape must be rank 0 but is rank 1")

for dtype in FLOATS:
  case("L2Loss", uniform([3, 4], -1, 1, 1, dtype))
case("L2Loss", zeros([0]))
case("L2Loss", 3.0)
case("L2Loss", uniform([200000], -1, 1, 1))

for dtype in ["float", "double", "half", "bfloat16"]:
  for exclusive in [False, True]:
    for reverse in [False, True]:
      case("CumulativeLogsumexp", uniform([3, 4], -3, 9, 1, dtype), 1, exclusive=exclusive,
           reverse=reverse)
case("CumulativeLogsumexp", [1.0, float("-inf"), 2.0, float("inf"), 1.0], 0)
case("CumulativeLogsumexp", [float("-inf"), float("-inf"), 0.0, 100.0, -100.0], 0)
error("CumulativeLogsumexp", [1.0], 1, text="")

# --- Bins of rows
for index in ["int32", "int64"]:
  for dtype in ["int32", "int64", "float", "double"]:
    values, weights = tensor(index, [1, 1, 3, 0, 9]), tensor(dtype, [1, 2, 3, 4, 5])
    for binary in [False, True]:
      case("RaggedBincount", tensor("int64", [0, 3, 3, 5]), values, tensor(index, 5), weights,
           binary_output=binary)
      case("SparseBincount", tensor("int64", [[0, 0], [0, 1], [0, 3], [2, 0], [2, 1]]), values,
           tensor("int64", [3, 4]), tensor(index, 5), weights, binary_output=binary)
case("RaggedBincount", tensor("int64", [0, 3]), [1, 1, 2], 4, tensor("float", []))
case("SparseBincount", tensor("int64", [[0], [2], [3]]), [1, 1, 2], tensor("int64", [5]), 4,
     tensor("int64", []))
error("RaggedBincount", tensor("int64", [1, 3]), [1, 1, 2], 4, tensor("float", []),
      text="Splits must start with 0, not with 1")
error("RaggedBincount", tensor("int64", [0, 2]), [1, 1, 2], 4, tensor("float", []),
      text="Splits must end with the number of values, got 2 instead of 3")
error("RaggedBincount", tensor("int64", [0, 1]), [-1], 4, tensor("float", []), text="")
error("RaggedBincount", tensor("int64", [0, 1]), [1], -4, tensor("float", []),
      text="size (-4) must be non-negative")
error("SparseBincount", tensor("int64", [[5, 0]]), [1], tensor("int64", [3, 4]), 4,
      tensor("float", []), text="")

# --- DenseCountSparseOutput and its like
DENSE, SPARSE, RAGGED = ["%sCountSparseOutput" % form for form in ["Dense", "Sparse", "Ragged"]]
for dtype in ["int32", "int64", "float", "double"]:
  none, some = tensor(dtype, []), tensor(dtype, [[1, 2, 3], [4, 5, 6]])
  for index in ["int32", "int64"]:
    values = tensor(index, [[3, 1, 1], [7, 7, 0]])
    for lengths in [{}, {"maxlength": 5}, {"minlength": 9}, {"minlength": 3, "maxlength": 0}]:
      case(DENSE, values, none, binary_output=False, **lengths)
      case(DENSE, values, some, binary_output=False, **lengths)
      case(DENSE, values, some, binary_output=True, **lengths)
  at = tensor("int64", [[0, 1], [0, 2], [2, 0], [0, 3]])
  case(SPARSE, at, [1, 4, 1, 1], tensor("int64", [3, 4]), none, binary_output=False)
  case(SPARSE, at, [1, 4, 1, 1], tensor("int64", [3, 4]), tensor(dtype, [1, 2, 3, 4]),
       binary_output=False, maxlength=4)
  case(SPARSE, tensor("int64", [[0], [2], [5]]), [3, 1, 3], tensor("int64", [6]), none,
       binary_output=False, minlength=2)
  for splits in [[0, 2, 4], [0, 0, 4, 4], [0, 3, 1, 4]]:
    case(RAGGED, tensor("int64", splits), [3, 1, 3, 3], none, binary_output=False)
    case(RAGGED, tensor("int64", splits), [3, 1, 3, 3], tensor(dtype, [1, 2, 3, 4]),
         binary_output=False)
FEW = tensor("float", [])
case(DENSE, [1, 5, 1], FEW, binary_output=True)
case(DENSE, tensor("int32", []), FEW, binary_output=False, minlength=3)
case(DENSE, tensor("int32", [], [2, 0]), FEW, binary_output=False)
case(SPARSE, tensor("int64", [[1, 1, 1], [0, 0, 2]]), [4, 1], tensor("int64", [3, 3, 3]), FEW,
     binary_output=False)
case(DENSE, [1, 1], tensor("int32", [2**31 - 1, 2]), binary_output=False)
error(DENSE, [1, -1], FEW, binary_output=False, text="Input values must all be non-negative")
error(DENSE, 1, FEW, binary_output=False, text="Input must be a 1 or 2-dimensional tensor. Got: []")
error(DENSE, [1], [1., 2.], binary_output=False,
      text="Weights and data must have the same shape. Weight shape: [2]; data shape: [1]")
ONE, AT, SIZE = [1], tensor("int64", [[0, 0]]), tensor("int64", [2, 2])
error(SPARSE, tensor("int64", [0]), ONE, SIZE, FEW, binary_output=False,
      text="Input indices must be a 2-dimensional tensor. Got: [1]")
error(SPARSE, AT, [[1]], SIZE, FEW, binary_output=False,
      text="Input values must be a vector. Got: [1,1]")
error(SPARSE, AT, ONE, tensor("int64", [[2, 2]]), FEW, binary_output=False,
      text="Input shape must be a vector. Got: [1,2]")
error(SPARSE, AT, [1, 2], SIZE, FEW, binary_output=False,
      text="Number of values must match first dimension of indices.Got 2 values")
error(SPARSE, AT, ONE, tensor("int64", [2]), FEW, binary_output=False,
      text="Number of dimensions must match second dimension of indices.Got 1 dimensions")
error(SPARSE, tensor("int64", [], [0, 2]), tensor("int32", []), tensor("int64", [-1, 2]), FEW,
      binary_output=False,
      text="Cannot allocate -1 batches, is the dense shape too wide?")
for index in [[2, 0], [-1, 0]]:
  error(SPARSE, tensor("int64", [index]), ONE, SIZE, FEW, binary_output=False,
        text="Invalid index value at 0: dimension 0 has value %d which is not in [0, 2)" % index[0])
error(SPARSE, AT, ONE, SIZE, [1., 2.], binary_output=False,
      text="Weights and values must have the same shape. Weight shape: [2]; values shape: [1]")
error(RAGGED, tensor("int64", [0]), tensor("int32", []), FEW, binary_output=False,
      text="Must provide at least 2 elements for the splits argument")
error(RAGGED, tensor("int64", [1, 1]), ONE, FEW, binary_output=False,
      text="Splits must start with 0, not with 1")
error(RAGGED, tensor("int64", [0, 3]), ONE, FEW, binary_output=False,
      text="Splits must end with the number of values, got 3 instead of 1")
