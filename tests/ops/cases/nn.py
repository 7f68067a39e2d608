from generate import case, error, tensor, uniform, zeros

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
