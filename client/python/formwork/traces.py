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
from tensorflow.python.framework import ops
from tensorflow.python.ops import gradients_util
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.util import nest

from formwork import errors
from formwork import gradients
from formwork import intermediates
from formwork import locations
from formwork import mirror
from formwork import patches
from formwork import remote

_CALLS = threading.local()


def call_of_thread():
  """The innermost Call of this thread; None outside of one."""
  return getattr(_CALLS, "current", None)


class Call:
  """The call of a RemoteFunction that is under way in a thread.

  Attributes:
    chosen: the RemoteConcreteFunction that it came to, unless a tape was watching.
  """

  def __init__(self):
    self.chosen = None

  def __enter__(self):
    self._outer = call_of_thread()
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


def _make_atomic_remote(atomic, owner, inputs, fixed, suffix, silent=False, **options):
  if isinstance(atomic, RemoteAtomicFunction):
    return
  atomic.__class__ = RemoteAtomicFunction
  atomic._remote = remote.Remote(owner, atomic.graph, inputs, fixed, suffix=suffix, silent=silent,
                                 **options)


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
      return super()._call_flat(tensor_inputs, list(map(intermediates.fetched, captured_inputs)))
    if record.could_possibly_record():
      with mirror.unread():
        for v in self._func_graph.variables:
          resource_variable_ops.variable_accessed(v)
    args = list(tensor_inputs) + list(captured_inputs)
    tape = gradients_util.PossibleTapeGradientTypes(args)
    if tape == gradients_util.POSSIBLE_GRADIENT_TYPES_NONE:
      flat_outputs = self._inference_function.call_flat(*args)
      call = call_of_thread()
      if call is not None:
        call.chosen = self
    else:
      flat_outputs = self._call_recorded(args, tape)
    return self.function_type.pack_output(flat_outputs)

  def _call_recorded(self, args, tape):
    """A call that tapes or forward accumulators watch. Returns the flat outputs.

    TensorFlow makes a forward function that also gives what the backward function needs. Where
    only gradients of the first order can be asked for, that stays on the server. Those of higher
    order need its values, so that tapes can follow it; lists (of loops) have none, so there the
    backward function computes them again.
    """
    first_order = tape == gradients_util.POSSIBLE_GRADIENT_TYPES_FIRST_ORDER
    if first_order or self._recomputing is None:
      call = self._select_forward_and_backward_functions(args, tape, True)
      flat_outputs = self._run_forward(call, leave=first_order)
      if flat_outputs is not None:
        call.record(flat_outputs)
        return flat_outputs
    if self._recomputing is None:
      if not self._inference_function._remote.repeatable():
        return self._call_recorded_once(args)
      made = gradients.recomputing(self)
      make_remote(made, self._owner, ".recomputed", self._silent)
      self._recomputing = made
    return self._recomputing._call_recorded(args, tape)

  def _run_forward(self, call, leave):
    """Runs the forward function of one of TensorFlow's _ForwardBackwardCalls.

    Args:
      leave: what the backward function needs may stay on the server.
    Returns the flat outputs; None where a list would have to come here.
    """
    if leave:
      gradients.of_results(call._functions, self._results)
    forward, forward_args = call.forward()
    outputs = forward.graph.outputs
    results = self._results + call._functions._num_forwardprop_outputs
    if intermediates.are_lists(outputs[self._results:results if leave else None]):
      return None
    mine = self._inference_function._remote
    left = leave and intermediates.worth_leaving(outputs[results:], forward_args)
    _make_atomic_remote(forward, self._owner, mine.inputs, mine.captured, ".forward",
                        self._silent, left_from=results if left else None)
    make_remote(call._functions._backward, self._owner, remote.BACKWARD,
                self._silent or isinstance(self._delayed_rewrite_functions,
                                           gradients.RecomputingGradientFunctions))
    return forward.call_flat(*forward_args)

  def _call_recorded_once(self, args):
    """As _call_recorded, where nothing can be computed again and tapes may ask for any order."""
    def refuse():
      raise errors.for_tensorflow(intermediates.of_higher_order(self._owner.wanted))

    call = self._select_forward_and_backward_functions(
        args, gradients_util.POSSIBLE_GRADIENT_TYPES_FIRST_ORDER, True)
    flat_outputs = None if call._input_tangents else self._run_forward(call, leave=True)
    if flat_outputs is None:
      refuse()
    gradients.record_first_order(call._functions, flat_outputs, self._results, args, refuse)
    return flat_outputs

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
