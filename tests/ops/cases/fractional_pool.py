"""Pooling of regions whose borders are drawn, whose kernels are those of the family conv."""
import numpy as np

from generate import case, error, tensor, uniform, zeros

SEEDS = {"seed": 5, "seed2": 7, "deterministic": True}
TYPES = ["float", "double", "int32", "int64"]
RATIO = [1.0, 1.44, 1.73, 1.0]


def borders(*values):
  return tensor("int64", values)


for op in ["FractionalMaxPool", "FractionalAvgPool"]:
  for dtype in TYPES:
    for pseudo in [False, True]:
      for overlapping in [False, True]:
        case(op, uniform([2, 11, 13, 3], -9, 9, 1, dtype), pooling_ratio=RATIO,
             pseudo_random=pseudo, overlapping=overlapping, **SEEDS)
  for ratio in [[1.0, 2.0, 1.0, 1.0], [1.0, 3.3, 7.0, 1.0], [1.0, 1.1, 1.9, 1.0]]:
    for pseudo in [False, True]:
      case(op, uniform([1, 20, 7, 2]), pooling_ratio=ratio, pseudo_random=pseudo, **SEEDS)
  case(op, uniform([1, 40, 41, 1]), pooling_ratio=RATIO, **SEEDS)
  error(op, zeros([1, 4, 4, 1]), pooling_ratio=RATIO, seed=5,
        text="Both seed and seed2 should be 0 if deterministic is false.")
  error(op, zeros([2, 3, 3]), pooling_ratio=RATIO, text="tensor_in must be 4-dimensional")
  error(op, zeros([1, 4, 4, 1]), pooling_ratio=[1.0, 5.0, 1.0, 1.0],
        text="Pooling ratio is higher than input dimension size for dimension 1")
  error(op, zeros([4, 4, 4, 4]), pooling_ratio=[2.0, 1.0, 1.0, 2.0], code="UNIMPLEMENTED",
        text="not yet supported on the batch nor channel dimension")

def pooled(value, rows, cols, overlapping):
  """The largest of each region."""
  made = [[value.array[:, a:b + overlapping, c:d + overlapping].max(axis=(1, 2))
           for c, d in zip(cols.array, cols.array[1:])] for a, b in zip(rows.array, rows.array[1:])]
  return tensor(value.dtype, np.moveaxis(np.array(made), 2, 0))


for dtype in TYPES:
  for overlapping in [False, True]:
    x = uniform([2, 5, 4, 2], -9, 9, 1, dtype)
    grads = (uniform([2, 3, 2, 2], -9, 9, 2, dtype), borders(0, 2, 3, 5), borders(0, 3, 4))
    case("FractionalMaxPoolGrad", x, pooled(x, *grads[1:], overlapping), *grads,
         overlapping=overlapping)
    case("FractionalAvgPoolGrad", borders(2, 5, 4, 2), *grads, overlapping=overlapping)
error("FractionalAvgPoolGrad", borders(1, 4, 4), uniform([1, 2, 2, 1]), borders(0, 2, 4),
      borders(0, 2, 4), text="1-dimensional and 4 elements")
error("FractionalMaxPoolGrad", uniform([1, 2, 2, 1]), [[[[2.0]]]], [[[[1.0]]]], borders(0, 2),
      borders(0, 2), text="tensor_out_dup is not the same as tensor_out")
