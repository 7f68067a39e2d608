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

from formwork import errors
from formwork import mirror
from formwork.mirror import raw_handle

_LOG = logging.getLogger("formwork")


def of(server):
  """The Bindings of a Server; made when first asked for."""
  if server._bindings is None:
    server._bindings = Bindings(server)
  return server._bindings


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
    graphs: the FuncGraphs whose calls go to the server.
    shared: whether any variable is used by tf.functions that run here as well.
  """

  def __init__(self, server):
    self.server = server
    self.lock = threading.RLock()
    self.clock = itertools.count(1)
    self.generation = 0
    self.graphs = weakref.WeakSet()
    self.shared = False
    self._by_handle = {}  # id of the handle -> Bound
    self._names = set()
    self._function_names = set()
    self._said = False

  def forget(self):
    """The server was cleared: variables are created afresh, with the values that they have here."""
    with self.lock:
      for bound in self._by_handle.values():
        variable = bound.variable()
        if variable is not None and not isinstance(variable, Orphan):
          mirror.detach(variable, bound)
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
        name = _take(scoped(scope, path), names)
        if not create and name not in there:
          continue
        self._names.add(name)
        remote = self._remote(variable, name, there)
        bound = wanted[i] = mirror.Bound(self, variable, remote)
        if remote.existed:
          attached.append(name)
        self._by_handle[id(raw_handle(variable))] = bound
        if not isinstance(variable, Orphan):
          mirror.attach(variable, bound)
      self._find_local_uses([b for b in wanted if b is not None and b.fresh])
      if attached and create and not self._said:
        self._said = True
        _LOG.warning("formwork: attached to %d variable(s) that are on the server already (%s%s); "
                     "push() overwrites their values, clear() starts afresh",
                     len(attached), ", ".join(attached[:3]), ", …" if attached[3:] else "")
      return wanted

  def _find_local_uses(self, bounds):
    """Notes which variables are used by tf.functions that run here as well."""
    if not bounds:
      return
    used = mirror.local_captures(self.graphs)
    for bound in bounds:
      bound.fresh = False
      variable = bound.variable()
      if variable is not None and id(raw_handle(variable)) in used:
        bound.share()

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
    value = mirror.local_value(raw_handle(variable), dtype)
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
      if mirror.local_value(handle, bound.remote.dtype) is not None:
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


def scoped(scope, name):
  """The name on the server of what is called `name` here."""
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
