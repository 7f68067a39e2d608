import numpy as np

from generate import Value, case, error, tensor, uniform, zeros

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
NAN = float("nan")
INF = float("inf")
LOOSE = {"half": "rel 4e-3 abs 2e-3", "bfloat16": "rel 3e-2 abs 2e-2"}

for dtype in INTS + FLOATS + COMPLEX:
  case("BiasAdd", uniform([2, 3], 0, 9, 1, dtype), uniform([3], 0, 9, 2, dtype))
  case("BiasAdd", uniform([2, 3, 2], 0, 9, 1, dtype), uniform([3], 0, 9, 2, dtype),
       data_format="NCHW")
  case("BiasAddGrad", uniform([4, 3], 0, 9, 1, dtype))
  case("BiasAddGrad", uniform([2, 3, 2], 0, 9, 1, dtype), data_format="NCHW")
case("BiasAdd", uniform([2, 3, 4, 5]), uniform([5], seed=2))
case("BiasAdd", uniform([2, 3, 4, 5]), uniform([3], seed=2), data_format="NCHW")
case("BiasAdd", zeros([1, 2]), [1.0, 2.0], data_format="NCHW")
case("BiasAdd", uniform([200, 50]), uniform([50], seed=2))
case("BiasAdd", zeros([0, 2]), [1.0, 2.0])
case("BiasAddGrad", zeros([0, 2]))
case("BiasAddGrad", uniform([300, 7]))
case("BiasAddGrad", uniform([4, 3, 20, 20]), data_format="NCHW")
case("BiasAddGrad", uniform([4, 3, 20, 20]))
error("BiasAdd", [1.0], [1.0], text="Input tensor must be at least 2D: [1]")
error("BiasAdd", [[1.0]], [[1.0]], text="Biases must be 1D: [1,1]")
error("BiasAdd", [[1.0, 2.0]], [1.0],
      text="Must provide as many biases as the last dimension of the input tensor: [1] vs. [1,2]")
error("BiasAddGrad", [1.0], text="Input tensor must be at least 2D: [1]")

for op in ["Softmax", "LogSoftmax"]:
  for dtype in FLOATS:
    case(op, uniform([3, 5], -3, 3, 1, dtype), tolerance=LOOSE.get(dtype))
  case(op, [1.0, 2.0])
  case(op, uniform([2, 3, 4], -3, 3, 2))
  case(op, uniform([5, 100], -9, 9, 3))
  case(op, uniform([2, 1000], -9, 9, 4))
  case(op, zeros([2, 0]))
  case(op, zeros([0, 3]))
  case(op, [[NAN, 1.0], [1.0, 2.0]])
  case(op, [[INF, 1.0]])
  case(op, [[-INF, -INF]])
  case(op, [[-INF, 1.0]])
  case(op, [[1e30, -1e30, 1e30]])
  case(op, [[88.0, -88.0, 0.0]])
  error(op, 1.0, text="logits must have >= 1 dimension, got []")

S = "SparseSoftmaxCrossEntropyWithLogits"
for dtype in FLOATS:
  case(S, uniform([4, 5], -3, 3, 1, dtype), [0, 4, 2, 2], tolerance=LOOSE.get(dtype))
case(S, uniform([3, 50], -9, 9, 2), tensor("int64", [0, 49, 7]))
case(S, zeros([0, 2]), tensor("int32", []))
case(S, [[NAN, 2.0]], [1])
case(S, [[-INF, 2.0]], [0])
case(S, [[INF, 2.0]], [0])
error(S, [[1.0, 2.0], [1.0, 2.0]], [2, 0],
      text="Received a label value of 2 which is outside the valid range of [0, 2).  "
      "Label values: 2 0")
error(S, [[1.0, 2.0]], [-1], text="Received a label value of -1 which is outside")
error(S, [1.0, 2.0], [1], text="logits must be 2-D, but got shape [2]")
error(S, [[1.0, 2.0]], [[1]], text="labels must be 1-D, but got shape [1,1]")
error(S, [[1.0, 2.0]], [1, 1], text="logits and labels must have the same first dimension, got "
      "logits shape [1,2] and labels shape [2]")
error(S, zeros([2, 0]), [0, 0], text="Must have at least one class, but got logits shape [2,0]")

S = "SoftmaxCrossEntropyWithLogits"
for dtype in FLOATS:
  case(S, uniform([4, 5], -3, 3, 1, dtype), uniform([4, 5], 0, 1, 2, dtype),
       tolerance=LOOSE.get(dtype))
case(S, uniform([3, 60], -9, 9, 2), uniform([3, 60], 0, 0.1, 3))
case(S, [[1.0, 2.0]], [1.0, 0.0])
case(S, [1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]])
case(S, [[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]])
case(S, [[1.0, 2.0], [3.0, 5.0]], [[1.0, 0.0]])
case(S, [[1.0], [2.0]], [[1.0, 0.0]])
case(S, [[1.0, 2.0]], [[0.5], [0.25]])
case(S, zeros([0, 2]), zeros([0, 2]))
case(S, zeros([2, 0]), zeros([2, 0]))
case(S, [[-INF, 2.0]], [[0.0, 1.0]])
case(S, [[NAN, 2.0]], [[0.0, 1.0]])
error(S, [[1.0, 2.0]], [[1.0, 0.0, 0.0]],
      text="logits and labels must be broadcastable: logits_size=[1,2] labels_size=[1,3]")
error(S, [[[1.0, 2.0]]], [[1.0, 0.0]], text="logits and labels must be either 2-dimensional")
error(S, [1.0, 2.0], [1.0, 0.0], text="logits and labels must be either 2-dimensional")

import tensorflow as tf
for dtype in INTS + FLOATS:
  case("TopKV2", uniform([3, 8], 0, 100, 1, dtype), 3)
for index_type in [tf.int16, tf.int32, tf.int64]:
  case("TopKV2", uniform([2, 3, 9], seed=2), 4, index_type=index_type)
case("TopKV2", [1.0, 2.0, 3.0], tensor("int16", 2))
case("TopKV2", [1.0, 2.0, 3.0], tensor("int64", 2))
case("TopKV2", [1.0, 3.0, 3.0, 2.0, 3.0], 2)
case("TopKV2", [1.0, 3.0, 3.0, 2.0, 3.0], 5)
case("TopKV2", [1.0, 3.0, 3.0, 2.0, 3.0], 1)
case("TopKV2", [NAN, NAN, 3.0, 2.0], 4)
case("TopKV2", [NAN, NAN, 3.0, 2.0], 1)
case("TopKV2", [1.0, 2.0], 0)
case("TopKV2", zeros([0, 3]), 2)
case("TopKV2", zeros([2, 0]), 0)
case("TopKV2", uniform([4, 300], -1, 1, 3), 20)
# Not sorted: in the order of TensorFlow's heap.
for k in [1, 2, 5, 7, 39, 40]:
  case("TopKV2", uniform([2, 40], -9, 9, 4), k, sorted=False)
case("TopKV2", uniform([2, 40], 0, 9, 5, "int32"), 13, sorted=False)
for k in [2, 4, 5]:
  case("TopKV2", [1.0, 2.0, NAN, 4.0, 5.0, NAN, 3.0], k)
  case("TopKV2", [1.0, 2.0, NAN, 4.0, 5.0, NAN, 3.0], k, sorted=False)
error("TopKV2", [1.0, 2.0], 3, text="input must have at least k columns. Had 2, needed 3")
error("TopKV2", [1.0, 2.0], -1, text="Need k >= 0, got -1")
error("TopKV2", [1.0, 2.0], [1], text="k must be scalar, got shape [1]")
error("TopKV2", 1.0, 1, text="input must be >= 1-D, got shape []")

I = "InTopKV2"
case(I, [[1.0, 2.0, 3.0], [1.0, 2.0, 2.0], [3.0, 2.0, 1.0], [1.0, NAN, 2.0]], [2, 1, 2, 2], 1)
case(I, [[1.0, 2.0, 3.0], [1.0, INF, 2.0]], tensor("int64", [0, 2]), tensor("int64", 2))
case(I, [[1.0, 2.0, 2.0], [1.0, 2.0, 2.0]], [5, -1], 1)
case(I, [[1.0, 2.0]], [0], 0)
error(I, [1.0], [0], 1, text="predictions must be 2-dimensional")
error(I, [[1.0]], [[0]], 1, text="targets must be 1-dimensional")
error(I, [[1.0]], [0, 1], 1, text="First dimension of predictions 1 must match length of targets 2")
error(I, [[1.0]], [0], [1], text="k must be 0-D, got shape [1]")

# --- Pooling of volumes
def volumes(dtype="float", seed=1):
  return uniform([2, 5, 4, 6, 3], 0, 5, seed, dtype)

for padding in ["SAME", "VALID"]:
  for ksize, strides in [([1, 2, 2, 2, 1], [1, 2, 2, 2, 1]), ([1, 3, 2, 1, 1], [1, 1, 1, 2, 1])]:
    for op in ["MaxPool3D", "AvgPool3D"]:
      case(op, volumes(), ksize=ksize, strides=strides, padding=padding)
    out = [2, 3, 2, 3, 3] if strides[1] == 2 else [2, 5, 4, 3, 3]
    if padding == "VALID":
      out = [2, 2, 2, 3, 3] if strides[1] == 2 else [2, 3, 3, 3, 3]
    case("AvgPool3DGrad", [2, 5, 4, 6, 3], uniform(out, seed=4), ksize=ksize, strides=strides,
         padding=padding)
for dtype in ["bfloat16"]:
  for op in ["MaxPool3D", "AvgPool3D"]:
    case(op, volumes(dtype), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME")
# Whole numbers, so that several are as large.
for dtype in ["float", "bfloat16"]:
  ints = tensor(dtype, [[[[[1], [3]], [[3], [0]]], [[[2], [2]], [[1], [3]]]]])
  case("MaxPool3DGrad", ints, tensor(dtype, [[[[[3]]]]]), tensor(dtype, [[[[[5]]]]]),
       ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID")
error("MaxPool3D", uniform([2, 5, 4, 6]), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1],
      padding="SAME", text="")
error("MaxPool3D", volumes(), ksize=[1, 0, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME",
      text="")
error("MaxPool3D", volumes(), ksize=[2, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME",
      text="Pooling is not yet supported on the batch dimension.")
error("AvgPool3DGrad", [2, 5, 4, 6], uniform([2, 5, 4, 6, 3]), ksize=[1, 2, 2, 2, 1],
      strides=[1, 2, 2, 2, 1], padding="SAME",
      text="must be 1-dimensional and 5 elements")
error("AvgPool3DGrad", [2, 5, 4, 6, 3], uniform([2, 1, 2, 3, 3]), ksize=[1, 2, 2, 2, 1],
      strides=[1, 2, 2, 2, 1], padding="SAME", code="INVALID_ARGUMENT", text="Expected grad shape",
      comment="TensorFlow reads what is not there.")

# --- MaxPoolV2
for padding in ["SAME", "VALID"]:
  case("MaxPoolV2", uniform([2, 5, 6, 3], seed=1), [1, 2, 3, 1], [1, 2, 2, 1], padding=padding)
case("MaxPoolV2", uniform([0, 5, 6, 3], seed=1), [1, 2, 3, 1], [1, 2, 2, 1], padding="SAME")
error("MaxPoolV2", uniform([2, 5, 6, 3], seed=1), [1, 2, 3], [1, 2, 2, 1], padding="SAME", text="")

# --- Fake quantization
GIVEN = uniform([3, 4], -9, 9, 5)
QUANT = "FakeQuantWithMinMax"
for attrs in [{}, {"num_bits": 4}, {"num_bits": 7, "narrow_range": True}]:
  case(QUANT + "Args", GIVEN, **attrs)
  case(QUANT + "Args", GIVEN, min=-3.3, max=4.9, **attrs)
  case(QUANT + "ArgsGradient", uniform([3, 4], seed=6), GIVEN, min=-3.3, max=4.9, **attrs)
  for low, high in [(-3.3, 4.9), (0.0, 0.0), (1.5, 4.0), (-5.0, -1.0)]:
    case(QUANT + "Vars", GIVEN, low, high, **attrs)
    case(QUANT + "VarsGradient", uniform([3, 4], seed=6), GIVEN, low, high, **attrs)
  lows, highs = [-3.3, 0.0, 1.5, -6.0], [4.9, 0.0, 4.0, 6.0]
  case(QUANT + "VarsPerChannel", GIVEN, lows, highs, **attrs)
  case(QUANT + "VarsPerChannelGradient", uniform([3, 4], seed=6), GIVEN, lows, highs, **attrs)
error(QUANT + "Args", GIVEN, num_bits=1, text="num_bits must be between 2 and 16, inclusive")
error(QUANT + "Args", GIVEN, min=2.0, max=1.0, text="min has to be smaller than max, was: 2 >= 1")
error(QUANT + "Vars", GIVEN, [1.0], 2.0, text="")
error(QUANT + "VarsPerChannel", GIVEN, [1.0], [2.0], text="min has incorrect size, expected 4 was 1")
error(QUANT + "ArgsGradient", uniform([3]), GIVEN, text="must have the same size and shape.  Input 0: [3] != input 1: [3,4]")

# --- Dilation2D
FILTER = uniform([2, 3, 2], -1, 1, 9)
for padding, out in [("SAME", [2, 3, 3, 2]), ("VALID", [2, 2, 1, 2])]:
  attrs = dict(strides=[1, 2, 2, 1], rates=[1, 1, 2, 1], padding=padding)
  case("Dilation2D", uniform([2, 5, 6, 2], seed=8), FILTER, **attrs)
  case("Dilation2DBackpropInput", uniform([2, 5, 6, 2], seed=8), FILTER, uniform(out, seed=4),
       **attrs)
  case("Dilation2DBackpropFilter", uniform([2, 5, 6, 2], seed=8), FILTER, uniform(out, seed=4),
       **attrs)
for dtype in ["double", "half", "bfloat16", "int32", "uint8", "int64"]:
  case("Dilation2D", uniform([1, 4, 4, 1], 0, 9, 8, dtype), uniform([2, 2, 1], 0, 5, 9, dtype),
       strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME")
error("Dilation2D", uniform([1, 4, 4, 3]), FILTER, strides=[1, 1, 1, 1], rates=[1, 1, 1, 1],
      padding="SAME", text="input and filter must have the same depth: 3 vs 2")
error("Dilation2D", uniform([1, 4, 4, 2]), FILTER, strides=[1, 0, 1, 1], rates=[1, 1, 1, 1],
      padding="SAME", text="")

# --- ApproxTopK: exact. TensorFlow's CPU kernel has the largest along the last dimension alone; the
# rest is in tests/unit/approx_top_k_test.cc.
for dtype in ["float", "half", "bfloat16"]:
  for k in [0, 1, 4, 9]:
    case("ApproxTopK", uniform([3, 9], seed=3, dtype=dtype), k=k)
case("ApproxTopK", [[3., 1., 2., 3., -1., 7., 7.]], k=5)
case("ApproxTopK", uniform([2, 4000], seed=3), k=10, aggregate_to_topk=False)
case("ApproxTopK", zeros([0, 4]), k=2)

# The gradient of a maximum's gradient is where the maximum was.
def largest(x, window, stride, padding, data_format):
  import tensorflow as tf
  return np.asarray(tf.raw_ops.MaxPool(input=x, ksize=window, strides=stride, padding=padding,
                                       data_format=data_format))


for dtype in ["float", "double", "half", "bfloat16", "int8", "uint8", "int16", "int32", "int64"]:
  x = uniform([2, 5, 6, 3], 0, 9, 1, dtype)
  for padding in ["SAME", "VALID"]:
    top = Value(dtype, largest(x.array, [1, 2, 3, 1], [1, 2, 2, 1], padding, "NHWC"))
    case("MaxPoolGradGrad", x, top, uniform([2, 5, 6, 3], 0, 9, 2, dtype), ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1],
         padding=padding)
  case("MaxPoolGradGradV2", x, top, uniform([2, 5, 6, 3], 0, 9, 2, dtype), [1, 2, 3, 1], [1, 2, 2, 1], padding="VALID")
  case("MaxPoolGradV2", x, top, uniform(top.array.shape, 0, 9, 2, dtype), [1, 2, 3, 1], [1, 2, 2, 1], padding="VALID")
case("MaxPoolGradGrad", [[[[1.0], [2.0]], [[float("nan")], [2.0]]]], [[[[float("nan")]]]], [[[[5.0], [6.0]], [[7.0], [8.0]]]],
     ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
error("MaxPoolGradGrad", uniform([1, 4, 4, 1]), uniform([1, 2, 2, 1]), uniform([1, 4, 3, 1]), ksize=[1, 2, 2, 1],
      strides=[1, 2, 2, 1], padding="VALID", text="Expected grad shape to be")
error("MaxPoolGradGrad", uniform([1, 4, 4, 1]), uniform([1, 3, 2, 1]), uniform([1, 4, 4, 1]), ksize=[1, 2, 2, 1],
      strides=[1, 2, 2, 1], padding="VALID", text="")

# --- IsotonicRegression
for dtype in FLOATS:
  case("IsotonicRegression", uniform([3, 17], dtype=dtype), output_dtype=dtype)
for dtype, result in [("int8", "float"), ("int16", "float"), ("int32", "double"),
                      ("int64", "double")]:
  case("IsotonicRegression", uniform([2, 3, 9], -9, 9, 1, dtype), output_dtype=result)
case("IsotonicRegression", [3., 1., 2., 2., 5., -1., 0.])
case("IsotonicRegression", [1., 1., 1., NAN, 0., INF, -INF])
case("IsotonicRegression", zeros([2, 0]))
case("IsotonicRegression", zeros([0, 3]))
case("IsotonicRegression", uniform([1000]))

for dtype in INTS + FLOATS + COMPLEX:
  case("BiasAddV1", uniform([2, 3], 0, 9, 1, dtype), uniform([3], 0, 9, 2, dtype))
case("BiasAddV1", uniform([2, 3, 4, 5]), uniform([5], seed=2))
error("BiasAddV1", [1.0], [1.0], text="Input tensor must be at least 2D: [1]")
error("BiasAddV1", [[1.0, 2.0]], [1.0],
      text="Must provide as many biases as the last dimension of the input tensor: [1] vs. [1,2]")

ROWS = [[0.1, 0.3, 0.2, 0.3], [0.5, 0.1, NAN, 0.0], [0.4, 0.4, 0.1, 0.1]]
for k in [-1, 0, 1, 2, 9]:
  case("InTopK", ROWS, [2, 0, 1], k=k)
case("InTopK", ROWS, tensor("int64", [3, -1, 4]), k=2)
error("InTopK", ROWS, [1, 2], k=1,
      text="First dimension of predictions 3 must match length of targets 2")

for dtype in INTS + FLOATS:
  for reverse in [False, True]:
    case("NthElement", uniform([3, 2, 20], 0, 99, 1, dtype), 4, reverse=reverse)
case("NthElement", [3.0, -INF, INF, -2.5], 1)
case("NthElement", uniform([5000]), 1700)
case("NthElement", zeros([0, 3]), 2)
error("NthElement", [3.0, 1.0], 2, text="Input must have last dimension > n = 2")
error("NthElement", [3.0, 1.0], -1, text="n must be non-negative but is -1")
error("NthElement", 3.0, 0, text="Input must be at least rank 1 but is rank 0")
error("NthElement", [3.0], [0], text="N must be scalar but has rank 1")
