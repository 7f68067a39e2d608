"""server.function: tf.function whose ConcreteFunctions run on the server.

Tracing, dispatch, binding of arguments, counting of traces and the creation of variables are
TensorFlow's own: a RemoteFunction is TensorFlow's polymorphic function, and what it puts into its
cache becomes a RemoteConcreteFunction, which differs in where it runs.
"""
import threading

import numpy as np
from tensorflow.core.function.polymorphism import function_cache
from tensorflow.python.eager import context
from tensorflow.python.eager import record
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.eager.polymorphic_function import eager_function_run
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops
from tensorflow.python.ops import gradients_util
from tensorflow.python.ops import resource_variable_ops

from formwork import errors
from formwork import gradients
from formwork import mirror
from formwork import remote
from formwork import state

_EAGER_TENSOR = type(ops.convert_to_tensor(0))
_CALL = threading.local()


class _Call:
  """The call of a RemoteFunction that is under way in a thread.

  Attributes:
    args: its arguments; variables among them are looked up here.
    chosen: the RemoteConcreteFunction that it came to, unless a tape was watching.
  """

  def __init__(self, args, kwargs):
    self.args = (args, kwargs)
    self.chosen = None

  def __enter__(self):
    self._outer = getattr(_CALL, "current", None)
    _CALL.current = self
    mirror.UNDER_WAY.calls = getattr(mirror.UNDER_WAY, "calls", 0) + 1
    return self

  def __exit__(self, *unused):
    _CALL.current = self._outer
    mirror.UNDER_WAY.calls -= 1


def make(server, func, scope, name=None, **options):
  """server.function on one Python function, or on what tf.function made of one.

  name: on the server; by default the Python function's.
  options: tf.function's, with the defaults and errors that it has.
  """
  if isinstance(func, polymorphic_function.Function):
    options = {**_options_of(func), **{k: v for k, v in options.items() if v}}
    func = func.python_function
  made = polymorphic_function.function(func, **options)
  made.__class__ = RemoteFunction
  plain = getattr(func, "__name__", None) or type(func).__name__
  made._attach(server, scope, name or getattr(func, "__qualname__", plain))
  return made


def _options_of(func):
  """What a tf.function was made with."""
  return {"autograph": func._autograph, "jit_compile": func._jit_compile,
          "experimental_autograph_options": func._experimental_autograph_options,
          "experimental_attributes": func._attributes or None,
          "input_signature": func.input_signature, "reduce_retracing": func._reduce_retracing}


_MOST_FAST = 1024
_PLAIN = (int, float, bool, str, type(None))


class _Fast:
  """What TensorFlow's dispatch came to for one kind of arguments.

  Attributes:
    target: the RemoteConcreteFunction.
    tensors: the places of the arguments that are tensors.
    traces: how many traces there were; with another one the choice may be another.
  """

  __slots__ = ("target", "tensors", "traces")

  def __init__(self, target, tensors, traces):
    self.target, self.tensors, self.traces = target, tensors, traces


def _fast_key(args):
  """What TensorFlow's dispatch depends on, if the arguments are tensors and plain values."""
  if record.could_possibly_record() or not context.executing_eagerly() or (
      eager_function_run.RUN_FUNCTIONS_EAGERLY):
    return None
  key = [context.context().device_name]
  for x in args:
    cls = type(x)
    if cls is _EAGER_TENSOR:
      key.append(x._datatype_enum())
      key.append(x._shape_tuple())
    elif cls is np.ndarray:
      key.append(x.dtype)
      key.append(x.shape)
    elif cls in _PLAIN:
      key.append(cls)
      key.append(x)
    else:
      return None
  return tuple(key)


class RemoteFunction(polymorphic_function.Function):
  """TensorFlow's polymorphic function, run on a server. Safe to call from many threads."""

  _owner = None

  def _attach(self, server, scope, qualified_name):
    name = qualified_name.rpartition("<locals>.")[2].replace("<lambda>", "lambda")
    self._owner = remote.Owner(state.of(server), scope, name)
    self._function_cache = _Cache(self._owner)
    self._fast = {}

  def _clone(self, python_function):
    made = super()._clone(python_function)
    made._attach(self._owner.bindings.server, self._owner.scope, self._owner.wanted)
    return made

  def __get__(self, instance, owner):
    made = super().__get__(instance, owner)
    if isinstance(made, RemoteFunction) and made._owner is None:
      mine = self._owner
      made._attach(mine.bindings.server, mine.scope, mine.wanted)
    return made

  def __call__(self, *args, **kwds):
    key = None if kwds else _fast_key(args)
    if key is not None:
      known = self._fast.get(key)
      if known is not None and known.traces == len(self._function_cache):
        polymorphic_function._frequent_tracing_detector_manager.called_without_tracing(
            self._key_for_call_stats)
        return known.target._call_tensors([args[i] for i in known.tensors])
    with _Call(args, kwds) as call:
      result = super().__call__(*args, **kwds)
      if key is not None and call.chosen is not None:
        self._remember(key, args, call.chosen)
    return result

  def _remember(self, key, args, target):
    """Notes what TensorFlow chose, if the call's tensors are just what it sends."""
    tensors = [i for i, x in enumerate(args) if isinstance(x, (np.ndarray, ops.EagerTensor))]
    if target._remote.takes([args[i] for i in tensors]):
      if len(self._fast) >= _MOST_FAST:
        self._fast.clear()
      self._fast[key] = _Fast(target, tensors, len(self._function_cache))

  def _get_concrete_function_garbage_collected(self, *args, **kwargs):
    with _Call(args, kwargs):
      made = super()._get_concrete_function_garbage_collected(*args, **kwargs)
      if context.executing_eagerly() and isinstance(made, RemoteConcreteFunction):
        made._register_early()
    return made


class _Cache(function_cache.FunctionCache):
  """TensorFlow's cache of traces; what goes in will run on the server."""

  __slots__ = ["_owner"]

  def __init__(self, owner):
    super().__init__()
    self._owner = owner

  def add(self, fn, context=None):
    _make_remote(fn, self._owner)
    super().add(fn, context)


def _make_remote(fn, owner, backward=False):
  """Turns one of TensorFlow's ConcreteFunctions into one that runs on the server."""
  if isinstance(fn, RemoteConcreteFunction):
    return
  fn.__class__ = RemoteConcreteFunction
  fn._owner = owner
  graph = fn.graph
  owner.bindings.graphs.add(graph)
  deferred = len(graph.deferred_external_captures)
  captured = len(fn._captured_inputs)
  fn._fixed = captured - deferred
  fn._results = len(graph.outputs)  # A gradient adds to the graph's later.
  fn._remote = None if backward else remote.Remote(
      owner, graph, len(graph.inputs) - captured, captured - deferred,
      function_type=fn.function_type, describe=fn.pretty_printed_signature)
  fn._gradients = {}
  fn._recomputed = None


class RemoteConcreteFunction(concrete_function.ConcreteFunction):
  """TensorFlow's ConcreteFunction, run on a server when it is called eagerly."""

  def _call_flat(self, tensor_inputs, captured_inputs):
    if not context.executing_eagerly():
      return super()._call_flat(tensor_inputs, captured_inputs)
    if record.could_possibly_record():
      for v in self._func_graph.variables:
        resource_variable_ops.variable_accessed(v)
    args = list(tensor_inputs) + list(captured_inputs)
    if not all(isinstance(t, ops.EagerTensor) for t in args):  # One that leaked from a trace.
      return super()._call_flat(tensor_inputs, captured_inputs)  # TensorFlow says so.
    tape = gradients_util.PossibleTapeGradientTypes(args)
    try:
      if tape == gradients_util.POSSIBLE_GRADIENT_TYPES_NONE:
        result = self.function_type.pack_output(self._run(args))
        if getattr(_CALL, "current", None) is not None:
          _CALL.current.chosen = self
        return result
      return gradients.call(self, args, tape, _make_remote)
    except errors.Error as e:
      raise errors.for_tensorflow(e) from None

  def _call_tensors(self, tensors):
    """A call whose arguments come to these tensors and arrays, with no tape watching."""
    try:
      return self.function_type.pack_output(self._remote.run_tensors(
          tensors, self._captured_inputs, self._variables))
    except errors.Error as e:
      raise errors.for_tensorflow(e) from None

  def _run(self, args):
    if self._remote is None:  # A gradient: all that it captures changes from call to call.
      self._remote = remote.Remote(self._owner, self._func_graph, len(args), 0,
                                   suffix=".backward")
    return self._remote.run(args, self._variables)

  def _register_early(self):
    """Registers what was traced but not called yet, so that others can call it."""
    try:
      self._remote.ensure(self.captured_inputs[:self._fixed], self._variables)
    except errors.Error as e:
      if e.code != "UNIMPLEMENTED":  # Its graph may be wanted for other things; a call says it.
        raise errors.for_tensorflow(e) from None

  def _variables(self):
    """Where the tf.Variables of resource inputs are looked for."""
    current = getattr(_CALL, "current", None)
    return list(self._func_graph.variables) + _variables_in(current and current.args)


def _variables_in(args):
  found = []

  def visit(x):
    if isinstance(x, resource_variable_ops.BaseResourceVariable):
      found.append(x)
    elif isinstance(getattr(x, "_value", None), resource_variable_ops.BaseResourceVariable):
      found.append(x._value)
    elif isinstance(x, dict):
      for value in x.values():
        visit(value)
    elif isinstance(x, (list, tuple)):
      for value in x:
        visit(value)

  visit(args)
  return found
