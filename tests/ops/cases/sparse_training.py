"""Optimizers on some rows of variables, and those that have no other cases."""
from generate import case, error, tensor, uniform, variable

FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
LOOSE = {"half": "rel 4e-3 abs 1e-3", "bfloat16": "rel 3e-2 abs 1e-2", "float": "rel 1e-5 abs 1e-6"}


def updates(op, variables, scalars, dtypes, attrs=({},), position=None):
  """One update of rows, one of them twice, for each dtype; `position`: of the gradient."""
  for dtype in dtypes:
    for index in ["int32", "int64"]:
      for given in attrs:
        low = -1 if variables == 1 else 0.1  # Sums of squares are positive.
        states = [variable(uniform([4, 3], low, 1, 1 + i, dtype)) for i in range(variables)]
        rest = [tensor(dtype, x) for x in scalars]
        at = len(rest) if position is None else position
        rest[at:at] = [uniform([3, 3], -1, 1, 9, dtype), tensor(index, [2, 0, 2])]
        case(op, *states, *rest, tolerance=LOOSE.get(dtype), **given)


NESTEROV = ({"use_nesterov": False}, {"use_nesterov": True})
updates("ResourceSparseApplyAdadelta", 3, [0.1, 0.9, 1e-2], FLOATS + COMPLEX)
updates("ResourceSparseApplyAdagrad", 2, [0.1], FLOATS + COMPLEX,
        ({}, {"update_slots": False}))
updates("ResourceSparseApplyAdagradV2", 2, [0.1, 1e-2], FLOATS + COMPLEX,
        ({}, {"update_slots": False}))
updates("ResourceSparseApplyFtrl", 3, [0.1, 0.02, 0.03, -0.5], FLOATS,
        ({}, {"multiply_linear_by_lr": True}), position=0)
updates("ResourceSparseApplyFtrl", 3, [0.1, 0.02, 0.03, -0.3], ["float", "double"], position=0)
updates("ResourceSparseApplyMomentum", 2, [0.1, 0.9], FLOATS + COMPLEX, NESTEROV, position=1)
updates("ResourceSparseApplyKerasMomentum", 2, [0.1, 0.9], FLOATS + COMPLEX, NESTEROV, position=1)
updates("ResourceSparseApplyRMSProp", 3, [0.1, 0.9, 0.5, 1e-2], ["float", "double", "half"])
updates("ResourceSparseApplyCenteredRMSProp", 4, [0.1, 0.9, 0.5, 2.], ["float", "double", "half"])
updates("ResourceSparseApplyProximalGradientDescent", 1, [0.1, 0.02, 0.03], ["float", "double"])
updates("ResourceSparseApplyProximalAdagrad", 2, [0.1, 0.02, 0.03], ["float", "double"])




case("ResourceSparseApplyAdagrad", variable([1., 2., 3.]), variable([1., 2., 3.]), 0.1, [1., -1.],
     [2, 0])
case("ResourceSparseApplyAdagrad", variable([1., 2.]), variable([1., 2.]), 0.1,
     tensor("float", [], shape=[0]), tensor("int32", [], shape=[0]))
error("ResourceSparseApplyAdagrad", variable(tensor("float", [], shape=[2, 0])),
      variable(tensor("float", [], shape=[2, 0])), 0.1, tensor("float", [], shape=[1, 0]), [1],
      text="Inner dimension should be greater than zero.")
for index in [-1, 2]:
  error("ResourceSparseApplyAdagrad", variable([1., 2.]), variable([1., 2.]), 0.1, [1.], [index],
        text="Index %d at offset 0 in indices is out of range" % index)
error("ResourceSparseApplyAdagrad", variable([1., 2.]), variable([1., 2.]), 0.1, [1., 1.], [1],
      text="grad must be the same size as indices in the first dimension.")
error("ResourceSparseApplyAdagrad", variable([[1., 2.]]), variable([[1., 2.]]), 0.1, [[1.]], [0],
      text="var and grad must match in dimension 1")
error("ResourceSparseApplyAdagrad", variable([1., 2.]), variable([1.]), 0.1, [1.], [0],
      text="var and accum do not have the same shape")
error("ResourceSparseApplyAdagrad", variable([1., 2.]), variable([1., 2.]), 0.1, [1.], [[0]],
      text="indices must be one-dimensional")
error("ResourceSparseApplyAdagrad", variable([1., 2.]), variable([1., 2.]), [0.1], [1.], [0],
      text="lr is not a scalar")

for dtype in ["float", "double"]:
  for l1 in [0., 0.02]:
    case("ResourceApplyAdagradDA", variable(uniform([7], -1, 1, 1, dtype)),
         variable(uniform([7], -1, 1, 2, dtype)), variable(uniform([7], 0.1, 1, 3, dtype)),
         uniform([7], -1, 1, 4, dtype), tensor(dtype, 0.1), tensor(dtype, l1), tensor(dtype, 0.03),
         tensor("int64", 5))
error("ResourceApplyAdagradDA", variable([1.]), variable([1.]), variable([1.]), [1., 2.], 0.1, 0.1,
      0.1, tensor("int64", 5), text="var and grad do not have the same shape")
