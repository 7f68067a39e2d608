"""Max pooling that tells where the largest are, whose geometry is that of the family conv."""
import numpy as np

from generate import case, error, tensor, uniform, zeros

TYPES = ["float", "double", "half", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
         "uint16", "uint32", "uint64"]
NAN, INF = float("nan"), float("inf")
W, G = "MaxPoolWithArgmax", "MaxPoolGradWithArgmax"
TWO = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}


def places(shape, most, dtype="int64", seed=1):
  return tensor(dtype, np.random.RandomState(seed).randint(0, most, shape))


for padding in ["SAME", "VALID"]:
  for ksize, strides in [([1, 2, 2, 1], [1, 2, 2, 1]), ([1, 3, 2, 1], [1, 1, 3, 1]),
                         ([1, 1, 1, 1], [1, 2, 2, 1])]:
    for batch in [False, True]:
      for index in ["int32", "int64"]:
        # Whole numbers: ties.
        case(W, uniform([2, 5, 6, 3], 0, 5, 1, "int32"), ksize=ksize, strides=strides,
             padding=padding, include_batch_in_index=batch, Targmax=index)
for dtype in TYPES:
  case(W, uniform([1, 4, 3, 2], 0, 9, 2, dtype), **TWO)
  case(G, zeros([2, 4, 3, 2], dtype), uniform([2, 2, 2, 2], 0, 9, 2, dtype),
       places([2, 2, 2, 2], 24), **TWO)
case(W, [[[[NAN], [1.0]], [[2.0], [3.0]]], [[[1.0], [NAN]], [[-1.0], [0.5]]]], **TWO)
case(W, [[[[-INF], [-INF]], [[-INF], [-INF]]]], **TWO)
case(W, zeros([2, 1, 4, 5]), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
both = np.array(places([2, 2, 2, 2], 24).array)
both[1] += 24
case(G, zeros([2, 4, 3, 2]), uniform([2, 2, 2, 2]), tensor("int64", both),
     include_batch_in_index=True, **TWO)
case(G, zeros([0, 2, 2, 1]), zeros([0, 1, 1, 1]), tensor("int64", np.zeros([0, 1, 1, 1])), **TWO)
error(W, zeros([2, 3, 4]), text="tensor_in must be 4-dimensional (2)", **TWO)
for shape in [[0, 2, 2, 1], [1, 0, 2, 1], [1, 2, 2, 0]]:
  error(W, zeros(shape), text="tensor_in must not be empty (2)", **TWO)
error(W, zeros([1, 2, 2, 2]), ksize=[2, 1, 1, 1], strides=[1, 1, 1, 1], padding="SAME",
      text="Pooling is not yet supported on the batch dimension.")
error(W, zeros([1, 2, 2, 2]), ksize=[1, 2, 2, 2], strides=[1, 1, 1, 2], padding="SAME",
      text="MaxPooling supports exactly one of pooling across depth or pooling across width/height.")
I, D, A = zeros([1, 2, 2, 1]), zeros([1, 1, 1, 1]), tensor("int64", [[[[3]]]])
error(G, zeros([1, 2, 2]), D, A, text="tensor_in_shape must have 2 spatial dimensions. 3 0", **TWO)
error(G, I, zeros([1, 1, 1, 2]), A, text="Expected grad shape to be [1,1,1,1], but got [1,1,1,2]",
      **TWO)
error(G, I, D, tensor("int64", [[[3]]]),
      text="Expected argmax shape to be [1,1,1,1], but got [1,1,1]", **TWO)
