"""server.function: tf.function whose ConcreteFunctions run on the server.

Tracing, dispatch, binding of arguments, counting of traces and the creation of variables are
TensorFlow's own: a RemoteFunction is TensorFlow's polymorphic function, and what it puts into its
cache becomes a RemoteConcreteFunction (traces.py), which differs in where it runs.
"""
import functools
import math

import numpy as np
from tensorflow.core.function.capture import capture_container
from tensorflow.core.function.polymorphism import function_cache
from tensorflow.python.eager import context
from tensorflow.python.eager import record
from tensorflow.python.eager.polymorphic_function import eager_function_run
from tensorflow.python.eager.polymorphic_function import function_context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops
from tensorflow.python.saved_model import function_deserialization

from formwork import remote
from formwork import state
from formwork import traces


def make(server, func, scope, name=None, timeout=None, atomic=False, relaxed=False, **options):
  """server.function on one Python function, or on what tf.function made of one.

  name: on the server; by default the Python function's.
  timeout: of its calls, in seconds; by default they have none.
  atomic: whether each of its calls does all that it does to variables, or nothing.
  relaxed: whether they compute forward and backward from a snapshot.
  options: tf.function's, with the defaults and errors that it has.
  """
  given = func
  if isinstance(func, polymorphic_function.Function):
    options = {**_options_of(func), **{k: v for k, v in options.items() if v}}
    func = func.python_function
  made = polymorphic_function.function(func, **options)
  if isinstance(given, function_deserialization.RestoredFunction):
    # Its Python function takes what the one that was saved took, in the places that that had.
    made._function_type, made._default_values = given._function_type, given._default_values
  made.__class__ = RemoteFunction
  plain = getattr(func, "__name__", None) or type(func).__name__
  made._attach(server, scope, name or getattr(func, "__qualname__", plain),
               math.inf if timeout is None else timeout, bool(atomic), bool(relaxed))
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
    target: the traces.RemoteConcreteFunction.
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
  key = [function_context.make_function_context()]
  for x in args:
    cls = type(x)
    if cls is ops.EagerTensor:
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

  def _attach(self, server, scope, qualified_name, timeout, atomic, relaxed):
    name = qualified_name.rpartition("<locals>.")[2].replace("<lambda>", "lambda")
    self._owner = remote.Owner(state.of(server), scope, name, timeout, atomic, relaxed)
    self._function_cache = _Cache(self._owner)
    self._fast = {}

  def _clone(self, python_function):
    return self._attach_like(super()._clone(python_function))

  def __get__(self, instance, owner):
    made = super().__get__(instance, owner)
    if isinstance(made, polymorphic_function.Function) and (
        getattr(made, "_owner", None) is None):
      self._attach_like(made)
    return made

  def _attach_like(self, made):
    made.__class__ = RemoteFunction
    made._attach(*self._place())
    return made

  def _place(self):
    """What _attach takes, for another one like it."""
    owner = self._owner
    return (owner.bindings.server, owner.scope, owner.wanted, owner.timeout, owner.atomic,
            owner.relaxed)

  def __getstate__(self):
    """A copy is a function of its own, which has not been traced yet."""
    state = super().__getstate__()
    for traced in ("_function_cache", "_function_captures", "_fast"):
      del state[traced]
    state.pop("_concrete_variable_creation_fn", None)
    for creation in ("_variable_creation_config", "_no_variable_creation_config",
                     "_created_variables"):
      state[creation] = None
    state["_owner"] = self._place()
    return state

  def __setstate__(self, state):
    owner = state.pop("_owner")
    super().__setstate__(state)
    self._function_captures = capture_container.FunctionCaptures()
    self._attach(*owner)

  def with_timeout(self, seconds):
    """This function with another timeout for its calls; math.inf: none. It has the same traces."""
    @functools.wraps(self.python_function)
    def call(*args, **kwds):
      with remote.limited(seconds):
        return self(*args, **kwds)
    return call

  def __call__(self, *args, **kwds):
    key = None if kwds else _fast_key(args)
    if key is not None:
      known = self._fast.get(key)
      if known is not None and known.traces == len(self._function_cache):
        polymorphic_function._frequent_tracing_detector_manager.called_without_tracing(
            self._key_for_call_stats)
        return known.target._call_tensors([args[i] for i in known.tensors])
    with traces.Call() as call:
      result = super().__call__(*args, **kwds)
      if key is not None and call.chosen is not None:
        self._remember(key, args, call.chosen)
    return result

  def _remember(self, key, args, target):
    """Notes what TensorFlow chose, if the call's tensors are just what it sends."""
    tensors = [i for i, x in enumerate(args) if isinstance(x, (np.ndarray, ops.EagerTensor))]
    if target._inference_function._remote.takes([args[i] for i in tensors]):
      if len(self._fast) >= _MOST_FAST:
        self._fast.clear()
      self._fast[key] = _Fast(target, tensors, len(self._function_cache))

  def _get_concrete_function_garbage_collected(self, *args, **kwargs):
    with traces.Call():
      made = super()._get_concrete_function_garbage_collected(*args, **kwargs)
      if context.executing_eagerly() and isinstance(made, traces.RemoteConcreteFunction):
        made.register_early()
    return made


class _Cache(function_cache.FunctionCache):
  """TensorFlow's cache of traces; what goes in will run on the server."""

  __slots__ = ["_owner"]

  def __init__(self, owner):
    super().__init__()
    self._owner = owner

  def add(self, fn, context=None):
    traces.make_remote(fn, self._owner)
    super().add(fn, context)
