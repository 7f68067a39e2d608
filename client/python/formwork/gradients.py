"""Gradients of higher order, where lists of loops are among what the backward function needs.

Lists have no values outside of the server, so tapes cannot follow them.
"""
import numpy as np
from tensorflow.python.eager import backprop_util
from tensorflow.python.eager import record
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.eager.polymorphic_function import function_type_utils
from tensorflow.python.framework import func_graph
from tensorflow.python.framework import ops
from tensorflow.python.eager.graph_only_ops import graph_placeholder
from tensorflow.python.ops import gradients_util
from tensorflow.python.ops import handle_data_util


class RecomputingGradientFunctions(concrete_function._DelayedRewriteGradientFunctions):
  """The gradient of a call in a graph, which leaves the call as it is."""

  def _rewrite_forward_and_call_backward(self, op, *doutputs):
    graph = ops.get_default_graph()
    inputs = [graph.capture(t) for t in op.inputs]
    rewrite = super()._rewrite_forward_and_call_backward
    with graph._override_gradient_function(_of_calls(rewrite)):
      outputs = self._inference_function.call_flat(*inputs)
    wanted = [(y, dy) for y, dy in zip(outputs, doutputs)
              if dy is not None and backprop_util.IsTrainable(y)]
    return gradients_util._GradientsHelper(
        [y for y, _ in wanted], inputs, grad_ys=[dy for _, dy in wanted], src_graph=graph)


def _of_calls(gradient_function):
  return {"PartitionedCall": gradient_function, "StatefulPartitionedCall": gradient_function}


def of_results(functions, results):
  """Sees to it that functions for gradients of the first order are made for the results alone.

  TensorFlow takes all outputs that the graph has for results; where functions for higher orders
  were made before, what those need is among them.
  """
  if functions._forward is None:
    outputs = functions._func_graph.outputs[:results]
    functions._num_outputs = functions._num_inference_outputs = results
    functions._num_trainable_inference_outputs = sum(map(backprop_util.IsTrainable, outputs))


def record_first_order(functions, flat_outputs, results, inputs, refuse):
  """Records a call for tapes that may ask for gradients of higher order, which are refused.

  Args:
    functions: TensorFlow's forward and backward functions for gradients of the first order.
    flat_outputs: what the forward function came to.
    results: how many of these the caller gets; the rest is for the backward function, which must
      not depend on what a tape watches.
    inputs: the flat inputs of the forward function.
    refuse: raises the error.
  """
  backward, recorded = functions._wrap_backward_function(
      functions._forward_graph, functions._backward, flat_outputs)
  left = flat_outputs[results:]

  def backward_of_first_order(*gradients):
    if any(g is not None and np.any(ops.convert_to_tensor(g).numpy() != 0)
           for g in gradients[len(recorded):]):
      refuse()
    return backward(*gradients[:len(recorded)])

  record.record_operation(functions._forward.cached_definition.signature.name,
                          [*recorded, *left], inputs, backward_of_first_order)


def recomputing(fn):
  """A ConcreteFunction that calls `fn`, whose backward function needs nothing but fn's inputs.

  Its arguments are fn's and what fn captures, flat; its outputs are fn's, flat.
  """
  recompute = RecomputingGradientFunctions(fn._inference_function, None)
  graph = func_graph.FuncGraph(fn.graph.name)
  graph.variables = fn.graph.variables
  with graph.as_default():
    for t in fn.graph.inputs:
      placeholder = graph_placeholder(t.dtype, t.shape)
      handle_data_util.copy_handle_data(t, placeholder)
      graph.inputs.append(placeholder)
    with graph._override_gradient_function(
        _of_calls(recompute._rewrite_forward_and_call_backward)):
      graph.outputs.extend(fn._inference_function.call_flat(*graph.inputs))
  graph.structured_outputs = list(graph.outputs)
  made = concrete_function.ConcreteFunction.from_func_graph(
      graph, function_type_utils.derive_from_graph(graph), {})
  made._delayed_rewrite_functions.__class__ = RecomputingGradientFunctions
  return made
