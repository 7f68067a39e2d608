"""Optionals: made, asked and opened; added and set to zeros like what they hold."""
import tensorflow as tf

from generate import case, error, optional, tensor, tensor_list

case("OptionalNone")
case("OptionalFromValue", [7])
case("OptionalFromValue", [[1., 2.], 3, tensor("string", ["a", "b"]), tensor("bool", True)])
case("OptionalFromValue", [tensor("half", [[1, 2], [3, 4]]), tensor("complex64", [1 + 2j])])

case("OptionalHasValue", optional())
case("OptionalHasValue", optional([1., 2.]))
case("OptionalHasValue", optional(optional()), comment="it holds one that holds nothing")
error("OptionalHasValue", tensor_list("float", [[1.]]),
      text="Input to OptionalHasValue must be an OptionalVariant object")

case("OptionalGetValue", optional([1., 2.], 3), output_types=[tf.float32, tf.int32],
     output_shapes=[[2], None])
case("OptionalGetValue", optional(tensor("string", [["a"]])), output_types=[tf.string],
     output_shapes=[[None, 1]])
case("OptionalGetValue", optional(tensor("double", [])), output_types=[tf.float64],
     output_shapes=[[0]])
error("OptionalGetValue", optional(), output_types=[tf.float32], output_shapes=[None],
      text="The given optional does not have a value.")
error("OptionalGetValue", optional(1., 2.), output_types=[tf.float32], output_shapes=[None],
      text="The given optional has 2 components, expected 1")
error("OptionalGetValue", optional(1.), output_types=[tf.int32], output_shapes=[None],
      text="expected type for component 0. Expected: int32. Actual: float.")
error("OptionalGetValue", optional(1., [1., 2., 3.]), output_types=[tf.float32, tf.float32],
      output_shapes=[[], [2]], text="expected shape for component 1. Expected: [2]. Actual: [3].")

case("AddN", [optional([1., 2.], 3), optional([10., 20.], 4)])
case("AddN", [optional(tensor("double", 1)), optional(tensor("double", 2)),
              optional(tensor("double", 4))])
case("AddN", [optional(), optional()])
error("AddN", [optional(1.), optional(1., 2.)], text="different numbers of components (1 vs. 2)")
case("ZerosLike", optional([1., 2.], tensor("int64", [[3]])))
case("ZerosLike", optional())
