from generate import case, error, tensor, uniform

for dtype in ["float", "half", "bool", "complex128", "uint8", "qint8"]:
  case("Identity", tensor(dtype, [1, 0, 1]))
case("Identity", ["a", "b"])
case("Identity", uniform([5, 7]))
case("Identity", tensor("float", [], [0, 3]))
case("StopGradient", uniform([3]))
case("PreventGradient", uniform([3]), message="no")
case("Snapshot", uniform([3]))
case("GuaranteeConst", uniform([3]))
case("XlaSharding", uniform([3]))
case("XlaOptimizationBarrier", [uniform([3]), 1])
case("ControlTrigger")
case("IdentityN", [1, 2.5, ["x"], uniform([9])])
case("PlaceholderWithDefault", uniform([2, 3]), shape=[None, 3])
case("EnsureShape", uniform([2, 3]), shape=[None, 3])
case("EnsureShape", uniform([2, 3]), shape=[2, 3])
case("EnsureShape", ["a"], shape=[1])
error("EnsureShape", uniform([2, 3]), shape=[2, 4],
      text="Shape of tensor input [2,3] is not compatible with expected shape [2,4].")
error("EnsureShape", uniform([2, 3]), shape=[None, 4],
      text="Shape of tensor input [2,3] is not compatible with expected shape [?,4].")
error("EnsureShape", uniform([2, 3]), shape=[2],
      text="Shape of tensor input [2,3] is not compatible with expected shape [2].")

case("PlaceholderWithDefault", [[1.0, 2.0]], shape=[None, 2])
error("PlaceholderWithDefault", [1.0, 2.0], shape=[None, 2], code="INVALID_ARGUMENT",
      text="the default of the placeholder has another shape: declared=[?,2] default=[2]",
      comment="TensorFlow lets it pass where it does not know the shape before.")

case("DeepCopy", [1.0, 2.0])
case("DeepCopy", tensor("string", ["a", "b"]))
case("DeepCopy", [True, False])
