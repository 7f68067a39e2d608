"""What TensorFlow traced, run on a server: its ConcreteFunctions and AtomicFunctions.

An AtomicFunction is what TensorFlow executes: the function itself, the forward function of a tape
or a forward accumulator, and, inside a backward ConcreteFunction, the gradient. Each one runs on
the server when it is called eagerly. Which of them are made, what they capture and what tapes and
forward accumulators record is left to TensorFlow; so all derivatives are its own.
"""
import threading

from tensorflow.python.eager import context
from tensorflow.python.eager import record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import ops
from tensorflow.python.ops import gradients_util
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.util import nest

from formwork import errors
from formwork import gradients
from formwork import locations
from formwork import patches
from formwork import remote

_CALLS = threading.local()


class Call:
  """The call of a RemoteFunction that is under way in a thread.

  Attributes:
    chosen: the RemoteConcreteFunction that it came to, unless a tape was watching.
  """

  def __init__(self):
    self.chosen = None

  def __enter__(self):
    self._outer = getattr(_CALLS, "current", None)
    _CALLS.current = self
    patches.install()  # Keras may have been imported since.
    return self

  def __exit__(self, *unused):
    _CALLS.current = self._outer


def make_remote(fn, owner, suffix="", silent=False):
  """Turns one of TensorFlow's ConcreteFunctions into one that runs on the server.

  Args:
    suffix: goes after the owner's name on the server.
    silent: what it prints was printed before.
  """
  if isinstance(fn, RemoteConcreteFunction):
    return
  graph = fn.graph
  deferred = len(nest.flatten(graph.deferred_internal_captures, expand_composites=True))
  fixed = graph.external_captures
  inputs = len(graph.inputs) - len(fixed) - deferred
  if not all(isinstance(t, ops.EagerTensor) for t in fixed):
    fixed = []  # They are another graph's: what stands for them changes from call to call.
  fn.__class__ = RemoteConcreteFunction
  fn._owner = owner
  fn._silent = silent
  fn._results = len(graph.outputs)  # A gradient adds to the graph's later.
  fn._recomputing = None
  described = {} if suffix else {"function_type": fn.function_type,
                                 "describe": fn.pretty_printed_signature}
  _make_atomic_remote(fn._inference_function, owner, inputs, fixed, suffix, silent, **described)


def _make_atomic_remote(atomic, owner, inputs, fixed, suffix, silent=False, **described):
  if isinstance(atomic, RemoteAtomicFunction):
    return
  atomic.__class__ = RemoteAtomicFunction
  atomic._remote = remote.Remote(owner, atomic.graph, inputs, fixed, suffix=suffix, silent=silent,
                                 **described)


class RemoteAtomicFunction(atomic_function.AtomicFunction):
  """TensorFlow's AtomicFunction, run on a server when it is called eagerly."""

  def call_flat(self, *args):
    if not context.executing_eagerly() or len(args) != len(self._cached_graph.inputs) or (
        not all(isinstance(t, ops.EagerTensor) for t in args)):
      return super().call_flat(*args)  # In a graph, or an error, which TensorFlow says.
    try:
      with record.stop_recording():
        return self._remote.run(args)
    except errors.Error as e:
      raise self._error(e) from None

  def run_tensors(self, tensors, captured):
    """As call_flat(), for tensors and arrays that are all that a call sends."""
    try:
      return self._remote.run_tensors(tensors, captured)
    except errors.Error as e:
      raise self._error(e) from None

  def _error(self, e):
    """TensorFlow's error for one of the server's: it says where the node was made."""
    locations.locate(e, self._cached_graph, self.name.decode())
    return errors.for_tensorflow(e)


class RemoteConcreteFunction(concrete_function.ConcreteFunction):
  """TensorFlow's ConcreteFunction, run on a server when it is called eagerly."""

  def _call_flat(self, tensor_inputs, captured_inputs):
    if not context.executing_eagerly():
      return super()._call_flat(tensor_inputs, captured_inputs)
    if record.could_possibly_record():
      for v in self._func_graph.variables:
        resource_variable_ops.variable_accessed(v)
    args = list(tensor_inputs) + list(captured_inputs)
    tape = gradients_util.PossibleTapeGradientTypes(args)
    if tape == gradients_util.POSSIBLE_GRADIENT_TYPES_NONE:
      flat_outputs = self._inference_function.call_flat(*args)
      if getattr(_CALLS, "current", None) is not None:
        _CALLS.current.chosen = self
    else:
      flat_outputs = self._call_recorded(args, tape)
    return self.function_type.pack_output(flat_outputs)

  def _call_recorded(self, args, tape):
    """A call that tapes or forward accumulators watch. Returns the flat outputs.

    TensorFlow makes a forward function that also gives what the backward function needs. Where
    that includes lists (of loops), which cannot leave the server, the backward function computes
    them again.
    """
    if self._recomputing is None:
      call = self._select_forward_and_backward_functions(args, tape, True)
      forward, forward_args = call.forward()
      if not any(t.dtype == tf_dtypes.variant for t in forward.graph.outputs[self._results:]):
        mine = self._inference_function._remote
        _make_atomic_remote(forward, self._owner, mine.inputs, mine.captured, ".forward",
                            self._silent)
        make_remote(call._functions._backward, self._owner, ".backward",
                    self._silent or isinstance(self._delayed_rewrite_functions,
                                               gradients.RecomputingGradientFunctions))
        flat_outputs = forward.call_flat(*forward_args)
        call.record(flat_outputs)
        return flat_outputs
      if not self._inference_function._remote.repeatable():
        raise errors.for_tensorflow(errors.Error(
            "UNIMPLEMENTED", "%s: the gradient, outside of the function, of a loop or condition "
            "in a function that changes variables or draws random numbers: take the gradient "
            "inside it" % self._owner.wanted))
      made = gradients.recomputing(self)
      make_remote(made, self._owner, ".recomputed", self._silent)
      self._recomputing = made
    return self._recomputing._call_recorded(args, tape)

  def _call_tensors(self, tensors):
    """A call whose arguments come to these tensors and arrays, with no tape watching."""
    return self.function_type.pack_output(
        self._inference_function.run_tensors(tensors, self._captured_inputs))

  def register_early(self):
    """Registers what was traced but not called yet, so that others can call it."""
    try:
      self._inference_function._remote.ensure()
    except errors.Error as e:
      if e.code != "UNIMPLEMENTED":  # Its graph may be wanted for other things; a call says it.
        raise errors.for_tensorflow(e) from None
