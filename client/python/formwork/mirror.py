"""A tf.Variable that has its counterpart on the server, and keeping the two together."""
import gc
import threading
import weakref

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.framework import func_graph
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_resource_variable_ops

from formwork import dtypes

# `calls`: how many calls of functions of a server are under way in a thread.
UNDER_WAY = threading.local()

_WRITES = ("assign", "assign_add", "assign_sub", "scatter_add", "scatter_sub", "scatter_max",
           "scatter_min", "scatter_mul", "scatter_div", "scatter_update", "batch_scatter_update",
           "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_nd_max",
           "scatter_nd_min", "count_up_to", "_strided_slice_assign", "_restore_from_tensors")


def raw_handle(variable):
  """The handle of a tf.Variable, with nothing fetched."""
  return variable.__dict__["_handle"]


def local_captures(remote_graphs):
  """The ids of the tensors that tf.functions which run in this process have captured."""
  found = set()
  for graph in gc.get_objects():
    if type(graph) is func_graph.FuncGraph:
      if _root(graph) not in remote_graphs:
        found.update(id(t) for t in graph.external_captures)
  return found


def _root(graph):
  """The outermost function that a FuncGraph was traced in."""
  while isinstance(graph.outer_graph, func_graph.FuncGraph):
    graph = graph.outer_graph
  return graph


class _CalledHereToo(concrete_function.ConcreteFunction):
  """A tf.function's trace, made inside of one for the server, until it is called here as well."""

  def _call_flat(self, tensor_inputs, captured_inputs):
    if not context.executing_eagerly():
      return super()._call_flat(tensor_inputs, captured_inputs)
    for handle in captured_inputs:
      bound = self._bindings.known(handle)
      if bound is not None:
        bound.share()
    self.__class__ = concrete_function.ConcreteFunction
    return self._call_flat(tensor_inputs, captured_inputs)


def watch_traces_inside(bindings):
  """Takes note when tf.functions that were traced inside of the server's are called here."""
  for fn in gc.get_objects():
    if type(fn) is concrete_function.ConcreteFunction and (
        fn.graph not in bindings.graphs and _root(fn.graph) in bindings.graphs):
      fn._bindings = bindings
      fn.__class__ = _CalledHereToo


class Bound:
  """A tf.Variable of this process and the server's variable that holds its value.

  After a call the server's value is the truth. An eager read here fetches it first if a call may
  have changed it since the last time; an eager assignment here is passed on.

  Attributes:
    remote: the formwork.Variable.
    variable: a weak reference.
    writers: the registered traces (remote.Remote) that may change it.
    shared: tf.functions that run here use it as well. They have its handle, so that nothing tells
      when they look: it is compared before and fetched after every call.
    fresh: whether there are such has not been looked at.
  """

  def __init__(self, bindings, variable, remote):
    self.bindings = bindings
    self.remote = remote
    self.variable = weakref.ref(variable)
    self.epoch = bindings.server._channel.epoch
    self.writers = []
    self.shared = False
    self.fresh = True
    self._seen = None  # The value that both had last; of shared ones alone.
    self.synced = next(bindings.clock)
    if remote.existed:
      self.synced = -1

  def stale(self):
    return self.synced < 0 or any(w.last_call > self.synced for w in self.writers)

  def refresh(self, handle):
    """Takes over the server's value."""
    self.synced = next(self.bindings.clock)
    value = self.remote.read()
    gen_resource_variable_ops.assign_variable_op(handle, _constant(value, self.remote.dtype))
    self._seen = value if self.shared else None

  def send(self, handle):
    """Gives the server the value here."""
    value = local_value(handle, self.remote.dtype).numpy()
    self.remote.assign(value)
    self.synced = next(self.bindings.clock)
    self._seen = value if self.shared else None

  def share(self):
    """From now on local tf.functions use it too."""
    if self.shared:
      return
    self.shared = self.bindings.shared = True
    handle = raw_handle(self.variable())
    if self.stale():
      self.refresh(handle)
    else:
      self._seen = local_value(handle, self.remote.dtype)
      if self._seen is not None:
        self._seen = self._seen.numpy()

  def exchange(self):
    """Before a call: what a local tf.function may have changed goes to the server."""
    variable = self.variable()
    if not self.shared or variable is None:
      return
    handle = raw_handle(variable)
    value = local_value(handle, self.remote.dtype)
    if value is not None and (self._seen is None or not _same(value.numpy(), self._seen)):
      self.send(handle)

  def fetch(self):
    """After a call that may have changed it, where local tf.functions use it."""
    variable = self.variable()
    if self.shared and variable is not None:
      self.refresh(raw_handle(variable))


def _same(a, b):
  a, b = np.asarray(a), np.asarray(b)
  if a.shape != b.shape:
    return False
  if a.dtype == object:
    return (a == b).all()
  return a.tobytes() == b.tobytes()


def _constant(value, dtype):
  number = dtypes.number(dtype)
  made = tf.constant(value)
  return made if made.dtype.as_datatype_enum == number else tf.bitcast(made, tf.as_dtype(number))


def local_value(handle, dtype):
  """The value of a variable here, whatever the server has. None: uninitialised."""
  if not gen_resource_variable_ops.var_is_initialized_op(handle):
    return None
  return gen_resource_variable_ops.read_variable_op(handle, tf.as_dtype(dtype))


class _Mirror:
  """What a bound tf.Variable does besides. The class of a bound variable is made from its own.

  Everything eager that reads or changes a variable asks for `_handle`, TensorFlow's C++ included.
  """

  @property
  def _handle(self):
    handle = self.__dict__["_handle"]
    for bound in self.__dict__.get("_formwork_bound", ()):
      if context.executing_eagerly():
        if bound.stale():
          bound.refresh(handle)
      elif not bound.shared and not getattr(UNDER_WAY, "calls", 0):
        with ops.init_scope():  # A tf.function that will run here is being traced.
          if context.executing_eagerly():
            bound.share()
    return handle

  @_handle.setter
  def _handle(self, handle):
    self.__dict__["_handle"] = handle

  def _formwork_written(self):
    """Passes on what was just written here, if it was written eagerly."""
    if context.executing_eagerly():
      for bound in self.__dict__["_formwork_bound"]:
        bound.send(self.__dict__["_handle"])


def _writing(name):
  def write(self, *args, **kwargs):
    result = getattr(super(_Mirror, self), name)(*args, **kwargs)
    self._formwork_written()
    return result
  write.__name__ = name
  return write


for _name in _WRITES:
  setattr(_Mirror, _name, _writing(_name))

_skip_state = tf.random.Generator._skip_single_var


def _skip_and_tell(self, var, delta):
  result = _skip_state(self, var, delta)
  if isinstance(var, _Mirror):
    var._formwork_written()
  return result


# A generator changes its state by the handle alone.
tf.random.Generator._skip_single_var = _skip_and_tell

_MIRRORS = {}


def attach(variable, bound):
  """Makes a tf.Variable follow its counterpart."""
  variable.__dict__.setdefault("_formwork_bound", []).append(bound)
  cls = type(variable)
  if issubclass(cls, _Mirror):
    return
  if cls not in _MIRRORS:
    _MIRRORS[cls] = type(cls)(cls.__name__, (_Mirror, cls), {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__})
  variable.__class__ = _MIRRORS[cls]


def detach(variable, bound):
  """Lets it go its own way again."""
  variable.__dict__["_formwork_bound"].remove(bound)
