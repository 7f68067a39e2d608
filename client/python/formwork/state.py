"""tf.Variables and their counterparts on the server."""
import collections.abc
import gc
import itertools
import logging
import sys
import threading
import weakref

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import gen_resource_variable_ops

from formwork import dtypes
from formwork import errors

_LOG = logging.getLogger("formwork")
_WRITES = ("assign", "assign_add", "assign_sub", "scatter_add", "scatter_sub", "scatter_max",
           "scatter_min", "scatter_mul", "scatter_div", "scatter_update", "batch_scatter_update",
           "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_nd_max",
           "scatter_nd_min", "_restore_from_tensors")


def of(server):
  """The Bindings of a Server; made when first asked for."""
  if server._bindings is None:
    server._bindings = Bindings(server)
  return server._bindings


class Bound:
  """A tf.Variable of this process and the server's variable that holds its value.

  After a call the server's value is the truth. An eager read here fetches it first if a call may
  have changed it since the last time; an eager assignment here is passed on.

  Attributes:
    remote: the formwork.Variable.
    variable: a weak reference.
    writers: the registered traces (remote.Remote) that may change it.
  """

  def __init__(self, bindings, variable, remote):
    self.bindings = bindings
    self.remote = remote
    self.variable = weakref.ref(variable)
    self.epoch = bindings.server._channel.epoch
    self.writers = []
    self.synced = next(bindings.clock)
    if remote.existed:
      self.synced = -1

  def stale(self):
    return self.synced < 0 or any(w.last_call > self.synced for w in self.writers)

  def refresh(self, handle):
    self.synced = next(self.bindings.clock)
    value = self.remote.read()
    gen_resource_variable_ops.assign_variable_op(handle, _constant(value, self.remote.dtype))

  def send(self, handle):
    self.remote.assign(_local_value(handle, self.remote.dtype))
    self.synced = next(self.bindings.clock)


def _constant(value, dtype):
  number = dtypes.number(dtype)
  made = tf.constant(value)
  return made if made.dtype.as_datatype_enum == number else tf.bitcast(made, tf.as_dtype(number))


def _local_value(handle, dtype):
  """The value of a variable here, whatever the server has. None: uninitialised."""
  try:
    return gen_resource_variable_ops.read_variable_op(handle, tf.as_dtype(dtype))
  except tf.errors.FailedPreconditionError:
    return None


class _Mirror:
  """What a bound tf.Variable does besides. The class of a bound variable is made from its own.

  Everything eager that reads or changes a variable asks for `_handle`, TensorFlow's C++ included.
  """

  @property
  def _handle(self):
    handle = self.__dict__["_handle"]
    for bound in self.__dict__.get("_formwork_bound", ()):
      if bound.stale() and context.executing_eagerly():
        bound.refresh(handle)
    return handle

  @_handle.setter
  def _handle(self, handle):
    self.__dict__["_handle"] = handle


def _writing(name):
  def write(self, *args, **kwargs):
    result = getattr(super(_Mirror, self), name)(*args, **kwargs)
    if context.executing_eagerly():
      for bound in self.__dict__["_formwork_bound"]:
        bound.send(self.__dict__["_handle"])
    return result
  write.__name__ = name
  return write


for _name in _WRITES:
  setattr(_Mirror, _name, _writing(_name))

_MIRRORS = {}


def _mirror(variable, bound):
  variable.__dict__.setdefault("_formwork_bound", []).append(bound)
  if isinstance(variable, Orphan):
    return
  cls = type(variable)
  if issubclass(cls, _Mirror):
    return
  if cls not in _MIRRORS:
    _MIRRORS[cls] = type(cls)(cls.__name__, (_Mirror, cls), {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__})
  variable.__class__ = _MIRRORS[cls]


class Orphan:
  """In the place of a tf.Variable that is gone, where a trace still has its handle."""

  name = "Variable"

  def __init__(self, handle):
    (kind,) = handle._handle_data.shape_and_type
    self._handle = handle
    self.shape = tf.TensorShape(kind.shape)
    self.dtype = tf.as_dtype(kind.dtype)
    handle._formwork_orphan = self  # Lives as long as the handle does.


class Bindings:
  """Which tf.Variable is which variable on one Server. Safe to use from many threads.

  Attributes:
    generation: counts up when everything is forgotten; what was registered before is void then.
    clock: numbers calls and synchronisations in their order.
  """

  def __init__(self, server):
    self.server = server
    self.lock = threading.RLock()
    self.clock = itertools.count(1)
    self.generation = 0
    self._by_handle = {}  # id of the handle -> Bound
    self._names = set()
    self._function_names = set()
    self._said = False

  def forget(self):
    """The server was cleared: variables are created afresh, with the values that they have here."""
    with self.lock:
      for bound in self._by_handle.values():
        variable = bound.variable()
        if variable is not None:
          variable.__dict__["_formwork_bound"].remove(bound)
      self._by_handle.clear()
      self._names.clear()
      self._function_names.clear()
      self.generation += 1

  # ------------------------------------------------------------------------------------ functions
  def function_name(self, wanted):
    """A name for one function object, not used by another one of this process."""
    with self.lock:
      return _take(wanted, self._function_names)

  # ------------------------------------------------------------------------------------ variables
  def known(self, handle):
    """The Bound of a variable's handle, or None."""
    bound = self._by_handle.get(id(handle))
    if bound is not None:
      variable = bound.variable()
      if variable is not None and variable.__dict__["_handle"] is handle:
        return bound
    return None

  def bind(self, variables, scope, create=True):
    """The Bounds of tf.Variables, in their order; None where `create` is off and it is not there.

    What is on the server under a variable's name is attached to; the rest is created with the
    values that the variables have here.
    """
    with self.lock:
      epoch = self.server._channel.epoch
      wanted = [self.known(raw_handle(v)) for v in variables]
      if all(b is not None and b.epoch == epoch for b in wanted):
        return wanted
      there = {v.name: v for v in self.server.variables()}
      epoch = self.server._channel.epoch
      paths = _keras_paths([v for v, b in zip(variables, wanted) if b is None])
      attached = []
      for i, (variable, bound) in enumerate(zip(variables, wanted)):
        if bound is not None:
          if bound.epoch != epoch or bound.remote.name not in there:
            bound.remote = self._remote(variable, bound.remote.name, there)
            bound.epoch = epoch
          continue
        path = paths.get(id(variable)) or variable.name.partition(":")[0]
        names = self._names if create else set(self._names)
        name = _take(_scoped(scope, path), names)
        if not create and name not in there:
          continue
        self._names.add(name)
        remote = self._remote(variable, name, there)
        bound = wanted[i] = Bound(self, variable, remote)
        if remote.existed:
          attached.append(name)
        self._by_handle[id(raw_handle(variable))] = bound
        _mirror(variable, bound)
      if attached and create and not self._said:
        self._said = True
        _LOG.warning("formwork: attached to %d variable(s) that are on the server already (%s%s); "
                     "push() overwrites their values, clear() starts afresh",
                     len(attached), ", ".join(attached[:3]), ", …" if attached[3:] else "")
      return wanted

  def _remote(self, variable, name, there):
    shape = None if variable.shape.rank is None else variable.shape.as_list()
    dtype = variable.dtype.base_dtype.name
    found = there.get(name)
    if found is not None:
      if found.dtype != dtype or found.shape != shape:
        raise errors.invalid(
            "variable '%s' differs from the one on the server: here %s%s, there %s%s" % (
                name, dtype, shape, found.dtype, found.shape))
      return found
    value = _local_value(raw_handle(variable), dtype)
    return self.server.variable(name, initial_value=value, dtype=dtype, shape=shape)

  def reattach(self, bounds):
    """Makes sure that the server has these variables, after it lost functions that use them."""
    with self.lock:
      for bound in bounds:
        bound.epoch = -1
      alive = [v for v in (b.variable() for b in bounds) if v is not None]
      self.bind(alive, "")

  def push(self, variables, scope):
    found = tf_variables(variables)
    for variable, bound in zip(found, self.bind(found, scope)):
      handle = raw_handle(variable)
      if _local_value(handle, bound.remote.dtype) is not None:
        bound.send(handle)

  def pull(self, variables, scope):
    found = tf_variables(variables)
    bounds = self.bind(found, scope, create=False)
    if found and not any(bounds):
      raise errors.Error("NOT_FOUND", "none of the %d variables is on the server, as '%s'" % (
          len(found), found[0].name))
    for variable, bound in zip(found, bounds):
      if bound is not None:
        bound.refresh(raw_handle(variable))


def raw_handle(variable):
  return variable.__dict__["_handle"]


def _scoped(scope, name):
  return scope.rstrip("/") + "/" + name if scope else name


def _take(wanted, names):
  """`wanted`, or wanted_1, wanted_2 … if that is taken; taken from now on."""
  name = wanted
  for n in itertools.count(1):
    if name not in names:
      names.add(name)
      return name
    name = "%s_%d" % (wanted, n)


def tf_variables(source):
  """The tf.Variables of a Keras model or optimizer, a tf.Module, a variable or a structure."""
  found, seen = [], set()

  def visit(x):
    if isinstance(x, tf.Variable):
      if id(x) not in seen:
        seen.add(id(x))
        found.append(x)
    elif isinstance(getattr(x, "_value", None), tf.Variable):  # A Keras variable.
      visit(x._value)
    elif isinstance(x, collections.abc.Mapping):
      for value in x.values():
        visit(value)
    elif isinstance(x, (list, tuple, set)) or (
        isinstance(x, collections.abc.Iterable) and not hasattr(x, "variables") and
        not isinstance(x, (str, bytes, np.ndarray, tf.Tensor))):
      for value in x:
        visit(value)
    elif hasattr(x, "variables"):
      variables = x.variables
      visit(list(variables() if callable(variables) else variables))
    else:
      raise TypeError("expected tf.Variables, a Keras model or optimizer or a tf.Module, got %s"
                      % type(x).__name__)

  visit(source)
  return found


def _keras_paths(variables):
  """{id of a tf.Variable: path} for those that Keras variables hold.

  A Keras variable knows its tf.Variable but not the other way round, and there is no list of them.
  """
  core = sys.modules.get("keras.src.backend.common.variables")
  if core is None or not variables:
    return {}
  wanted = {id(v) for v in variables}
  is_keras, paths = {}, {}
  for candidate in gc.get_objects():
    cls = type(candidate)
    if cls not in is_keras:
      is_keras[cls] = issubclass(cls, core.Variable)
    if is_keras[cls] and id(getattr(candidate, "_value", None)) in wanted:
      paths[id(candidate._value)] = candidate.path
  return paths
