"""Variables: reading, assigning, counting up and writing rows."""
from generate import case, error, tensor, variable

case("ReadVariableOp", variable([1., 2.]), dtype="float")
case("ReadVariableOp", variable([["a"]], shape=[None, 1]), dtype="string")
error("ReadVariableOp", variable([1., 2.]), dtype="double", text="wrong dtype")
error("ReadVariableOp", variable(None, dtype="float", shape=[2]), dtype="float",
      code="FAILED_PRECONDITION", text="uninitialized")
case("AssignVariableOp", variable([1., 2.]), [3., 4.])
case("AssignVariableOp", variable(None, dtype="float", shape=[None]), [3., 4.])
case("AssignVariableOp", variable([1, 2], shape=[None]), [3])
case("AssignVariableOp", variable([1, 2], shape=[None]), [3, 4], validate_shape=True)
case("AssignVariableOp", variable(None, dtype="int32", shape=[None]), [3], validate_shape=True)
error("AssignVariableOp", variable([1, 2], shape=[None]), [3], validate_shape=True,
      text="Expected [2] got [1]")
error("AssignVariableOp", variable([1., 2.]), [3.], validate_shape=True,
      text="Trying to assign to variable with tensor with wrong shape")
case("AssignAddVariableOp", variable([1., 2.]), [10., 20.])
case("AssignAddVariableOp", variable(tensor("int8", [127])), tensor("int8", [1]))
case("AssignAddVariableOp", variable(tensor("complex64", [1 + 2j])), tensor("complex64", [1j]))
case("AssignSubVariableOp", variable([1., 2.]), [10., 20.])
case("AssignSubVariableOp", variable(tensor("uint16", [0])), tensor("uint16", [1]))
error("AssignAddVariableOp", variable([1., 2.]), [1.], text="Cannot update variable with shape [2]")
case("VariableShape", variable([[1., 2.]]))
case("VariableShape", variable([[1., 2.]], shape=[None, 2]), out_type="int64")
case("VarIsInitializedOp", variable([1.]))
case("VarIsInitializedOp", variable(None, dtype="float", shape=[2]))

# --- Rows ---------------------------------------------------------------------------------------

ROWS = variable([[1., 2.], [3., 4.], [5., 6.]])
case("ResourceGather", ROWS, [[2, 0]], dtype="float")
case("ResourceGather", ROWS, tensor("int64", 1), dtype="float")
case("ResourceGather", ROWS, [[1], [0], [1]], dtype="float", batch_dims=1)
error("ResourceGather", ROWS, [3], dtype="float", text="indices[0] = 3 is not in [0, 3)")
error("ResourceGather", variable(1.), [0], dtype="float",
      text="params must be at least 1 dimensional")
case("ResourceGatherNd", ROWS, [[2, 0], [0, 1]], dtype="float")
case("ResourceGatherNd", ROWS, [[1]], dtype="float")
error("ResourceGatherNd", ROWS, [[3, 0]], dtype="float", text="does not index into param shape")

case("ResourceScatterUpdate", ROWS, [2, 0], [[9., 9.], [8., 8.]])
case("ResourceScatterUpdate", ROWS, [1], 7.)
for name in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
  case("ResourceScatter" + name, ROWS, [2, 0, 2], [[1., 2.], [3., 9.], [5., 6.]])
case("ResourceScatterAdd", variable([1, 2, 3]), [0, 0], [10, 20])
case("ResourceScatterAdd", variable(tensor("int8", [127, 0])), [0], tensor("int8", [1]))
error("ResourceScatterAdd", ROWS, [0], [1., 2.], text="Must have updates.shape = indices.shape")
error("ResourceScatterAdd", ROWS, [-1], [[1., 2.]], text="is not in [0, 3)")

case("ResourceScatterNdUpdate", ROWS, [[2], [0]], [[9., 9.], [8., 8.]])
case("ResourceScatterNdUpdate", ROWS, [[2, 1]], [9.])
for name in ("Add", "Sub", "Min", "Max"):
  case("ResourceScatterNd" + name, ROWS, [[2, 0], [0, 1], [2, 0]], [1., 9., 5.])
error("ResourceScatterNdAdd", ROWS, [[3, 0]], [1.], text="does not index into shape [3,2]")
case("ResourceScatterNdAdd", ROWS, [[3, 0], [1, 1]], [1., 2.], bad_indices_policy="IGNORE")
error("ResourceScatterNdAdd", ROWS, [[0, 0, 0]], [1.], text="must match dimensions")

# --- Optimizers ---------------------------------------------------------------------------------

VAR, SLOT = [1., 2.], [0.5, 0.25]
GRADIENT = [0.5, -1.]


def var():
  return variable(VAR)


def slot():
  return variable(SLOT)


case("ResourceApplyGradientDescent", var(), 0.5, GRADIENT)
case("ResourceApplyMomentum", var(), slot(), 0.1, GRADIENT, 0.9)
case("ResourceApplyMomentum", var(), slot(), 0.1, GRADIENT, 0.9, use_nesterov=True)
case("ResourceApplyKerasMomentum", var(), slot(), 0.1, GRADIENT, 0.9)
case("ResourceApplyKerasMomentum", var(), slot(), 0.1, GRADIENT, 0.9, use_nesterov=True)
case("ResourceApplyAdam", var(), slot(), slot(), 0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, GRADIENT)
case("ResourceApplyAdam", var(), slot(), slot(), 0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, GRADIENT,
     use_nesterov=True)
case("ResourceApplyAdagrad", var(), slot(), 0.1, GRADIENT)
case("ResourceApplyAdagrad", var(), slot(), 0.1, GRADIENT, update_slots=False)
case("ResourceApplyAdagradV2", var(), slot(), 0.1, 1e-7, GRADIENT)
case("ResourceApplyAdadelta", var(), slot(), slot(), 0.1, 0.95, 1e-6, GRADIENT)
case("ResourceApplyRMSProp", var(), slot(), slot(), 0.1, 0.9, 0.5, 1e-6, GRADIENT)
case("ResourceApplyCenteredRMSProp", var(), variable([0.1, 0.2]), slot(), slot(), 0.1, 0.9, 0.5,
     1e-6, GRADIENT)
case("ResourceApplyAdaMax", var(), slot(), slot(), 0.9, 0.1, 0.9, 0.99, 1e-7, GRADIENT)
case("ResourceApplyFtrl", var(), slot(), slot(), GRADIENT, 0.1, 0.01, 0.02, -0.5)
case("ResourceApplyFtrl", var(), slot(), slot(), GRADIENT, 0.1, 0.01, 0.02, -0.5,
     multiply_linear_by_lr=True)
case("ResourceApplyProximalGradientDescent", var(), 0.1, 0.01, 0.02, GRADIENT)
case("ResourceApplyProximalAdagrad", var(), slot(), 0.1, 0.01, 0.02, GRADIENT)
error("ResourceApplyMomentum", var(), variable([1.]), 0.1, GRADIENT, 0.9, text="same shape")

# --- A slice of a variable
case("ResourceStridedSliceAssign", variable([1., 2., 3., 4.]), [1], [3], [1], [10., 20.])
case("ResourceStridedSliceAssign", variable([[1, 2], [3, 4]]), [0, 0], [0, 1], [1, 1],
     [10, 20], begin_mask=1, end_mask=1, shrink_axis_mask=2)
case("ResourceStridedSliceAssign", variable([1., 2., 3., 4.]), [3], [0], [-2], [10., 20.])
error("ResourceStridedSliceAssign", variable([1., 2.]), [0], [2], [1], [10., 20., 30.], text="")
