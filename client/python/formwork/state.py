"""tf.Variables and their counterparts on the server."""
import collections
import collections.abc
import itertools
import logging
import threading
import weakref

import numpy as np
import tensorflow as tf

from formwork import datasets
from formwork import dropped
from formwork import errors
from formwork import loaded
from formwork import mirror
from formwork import patches
from formwork import variables as variables_lib
from formwork import tables
from formwork.mirror import raw_handle

_LOG = logging.getLogger("formwork")


def of(server):
  """The Bindings of a Server; made when first asked for."""
  patches.install()
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
    changed: the Bounds of variables that tf.functions changed here since the server was told.
    given_out: those whose handles were given out, and may have been written by, since.
    in_datasets: whether tf.data functions use any variable.
    dropped: a dropped.Dropped.
    names: a loaded.Names.
  """

  def __init__(self, server):
    self.server = server
    self.lock = threading.RLock()
    self.clock = itertools.count(1)
    self.generation = 0
    self.changed = set()
    self.given_out = weakref.WeakSet()
    self.in_datasets = False
    self.dropped = dropped.Dropped(server)
    self.names = loaded.Names()
    self._bounds = weakref.WeakSet()
    self._names = {}  # As _take has them.
    self._function_names = {}
    self._said_attached = False
    self._said_lost = None  # The epoch.

  def forget(self):
    """The server was cleared: variables are created afresh, with the values that they have here."""
    with self.lock:
      for bound in list(self._bounds):
        mirror.detach(bound)
      self._bounds.clear()
      self.changed.clear()
      self.given_out.clear()
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
    for bound in mirror.bounds_of(handle):
      if bound.bindings is self:
        return bound
    return None

  def bind(self, variables, scope, create=True, restore=False):
    """The Bounds of tf.Variables, in their order; None where `create` is off and it is not there.

    What is on the server under a variable's name is attached to; the rest is created with the
    values that the variables have here.

    Args:
      restore: what the server has lost is created again, with the values here.
    Errors: FAILED_PRECONDITION for what it has lost otherwise, unless the Server's `on_restart`
      is "push".
    """
    with self.lock:
      epoch = self.server._channel.epoch
      wanted = [self.known(raw_handle(v)) for v in variables]
      if all(b is not None and b.epoch == epoch for b in wanted):
        return wanted
      self.dropped.release()
      there = self._there()
      self._look_up_again([b for b in wanted if b is not None], there, restore)
      attached = []
      for i, variable in enumerate(variables):
        if wanted[i] is None:
          wanted[i] = self.known(raw_handle(variable))  # Given twice.
        if wanted[i] is not None:
          continue
        names = self._names if create else dict(self._names)
        path = variable.__dict__.get("_formwork_path") or variable.name.partition(":")[0]
        name = _take(scoped(scope, path), names)
        if not create and name not in there:
          continue
        self._names.setdefault(name, 0)
        bound = wanted[i] = self._bound(variable, name, there)
        self._bounds.add(bound)
        self.dropped.follow(bound, path)
        mirror.attach(variable, bound)
        if bound.remote.existed:
          attached.append(bound)
      if attached and create and not self._said_attached:
        self._said_attached = True
        _LOG.warning("formwork: attached to %s that are on the server already (%s); "
                     "push() overwrites their values, clear() starts afresh",
                     _counted(attached), _some([b.remote.name for b in attached]))
      return wanted

  def reattach(self, bounds):
    """Looks variables up by their names, after the server may have lost them.

    Errors: FAILED_PRECONDITION where it has, unless `on_restart` is "push".
    """
    with self.lock:
      for bound in bounds:
        bound.epoch = None
      self._look_up_again(bounds, self._there(), restore=False)

  def _there(self):
    return {r.name: r for r in self.server._resources()}

  def _bound(self, variable, name, there):
    if isinstance(variable, (tables.Local, datasets.Local)):
      return variable.bound(self, name, there)
    handle = raw_handle(variable)
    return mirror.Bound(self, handle, self.remote_variable(
        name, handle, variable.dtype.base_dtype.name, _shape_list(variable.shape), there))

  def _look_up_again(self, bounds, there, restore):
    epoch = self.server._channel.epoch
    bounds = [b for b in set(bounds) if b.epoch != epoch]
    lost = [b for b in bounds if b.remote.name not in there]
    if lost and not restore:
      self._report_lost(there)
    for bound in bounds:
      handle, before = bound.handle(), bound.remote
      if handle is None and bound in lost:
        continue
      bound.remote = bound.look_up(there)
      bound.epoch = epoch
      if bound.remote.existed and bound.remote.id != before.id:
        bound.mark_stale()

  def _report_lost(self, there):
    """Says what the server has lost: in a warning, once, and in an error unless it is pushed."""
    lost = sorted((b for b in self._bounds if b.remote.name not in there),
                  key=lambda b: b.remote.name)
    names = _some([b.remote.name for b in lost])
    server = self.server
    what = "the server at %s was restarted or cleared and has lost %s of this " \
        "process (%s)" % (server._channel.target, _counted(lost), names)
    push = server.on_restart == "push"
    if self._said_lost != server._channel.epoch or push:
      self._said_lost = server._channel.epoch
      _LOG.warning("formwork: %s; their values here are those that were read or set here last, "
                   "which may be old%s", what, ": these are given to the server" if push else "")
    if not push:
      raise errors.Error(
          "FAILED_PRECONDITION", what + ". Their values here are those that were read or set here "
          "last, which may be old. To go on with them call server.push(), and then restore a "
          "checkpoint if there is a newer one; connect(..., on_restart=\"push\") pushes by itself")

  def remote_variable(self, name, handle, dtype, shape, there):
    """The formwork.Variable of this name: what is there, or a new one with the value here."""
    found = there.get(name)
    if found is None:
      return self.server.variable(name, initial_value=mirror.local_value(handle, dtype),
                                  dtype=dtype, shape=shape)
    if not isinstance(found, variables_lib.Variable):
      raise errors.invalid("variable '%s': on the server this is a %s" % (name, found.kind))
    if found.dtype != dtype or found.shape != shape:
      raise errors.invalid(
          "variable '%s' differs from the one on the server: here %s%s, there %s%s" % (
              name, dtype, shape, found.dtype, found.shape))
    return found

  # --------------------------------------------------------------------------------------- values
  def refresh(self, bounds):
    """Takes over the server's values."""
    if bounds:
      now = next(self.clock)  # What a call changes from now on may not be in the answer.
      for bound, value in zip(bounds, self.again_if_lost(
          bounds, lambda: self._read(bounds))):
        bound.take(value, now)

  def give(self, bounds):
    """Sets the server's variables to the values here."""
    now = next(self.clock)
    values = [b.value() for b in bounds]
    there = [(b, value) for b, value in zip(bounds, values) if value is not None]
    if there:
      self.again_if_lost([b for b, _ in there], lambda: self._write(there))
    for b, value in zip(bounds, values):
      b.agree(value, now)

  def _read(self, bounds):
    """What the server has, in order: of variables one snapshot."""
    variables = [b for b in bounds if not isinstance(b, (tables.Bound, datasets.Bound))]
    values = dict(zip(variables, self.server.read([b.remote for b in variables]))
                  if variables else ())
    return [values[b] if b in values else b.read() for b in bounds]

  def _write(self, values):
    """Sets what the server has: [(Bound, value)]."""
    of_variables = {}
    for bound, value in values:
      if isinstance(bound, tables.Bound):
        bound.write(value)
      else:
        of_variables[bound.remote] = value
    if of_variables:
      self.server.assign(of_variables)

  def again_if_lost(self, bounds, request):
    """request(); once more where the server had lost what the Bounds are bound to."""
    try:
      return request()
    except errors.Error as e:
      if e.code not in ("NOT_FOUND", "FAILED_PRECONDITION"):
        raise
    self.reattach(bounds)
    return request()

  def before_call(self, bounds):
    """Tells the server what has changed here, by itself, of what a call is going to use."""
    if self.changed or self.given_out or self.in_datasets:
      self.give([b for b in set(bounds) if b.differs()])

  def after_call(self, bounds):
    """Fetches what a call may have changed and tf.data functions use."""
    if self.in_datasets:
      self.refresh([b for b in bounds if b.in_dataset])

  def push(self, variables, scope):
    """Gives the server the values here, of `variables` or of all that are bound (None)."""
    with self.lock:
      if variables is None:
        bounds = sorted(self._bounds, key=lambda b: b.remote.name)
        if bounds:
          self._look_up_again(bounds, self._there(), restore=True)
      else:
        bounds = self.bind(tf_variables(variables), scope, restore=True)
      self.give(bounds)

  def pull(self, variables, scope):
    """Takes over the server's values, of what is there."""
    found = tf_variables(variables)
    bounds = self.bind(found, scope, create=False)
    if found and not any(bounds):
      raise errors.Error("NOT_FOUND", "none of the %d variables is on the server, as '%s'" % (
          len(found), found[0].name))
    self.refresh([b for b in bounds if b is not None])


def _counted(bounds):
  """"2 variable(s) and 1 table(s)"."""
  kinds = collections.Counter(b.remote.kind for b in bounds)
  return " and ".join("%d %s(s)" % (n, kind) for kind, n in sorted(kinds.items(), reverse=True))


def _some(names):
  return ", ".join(names[:3]) + (", …" if names[3:] else "")


def _shape_list(shape):
  return None if shape.rank is None else shape.as_list()


def scoped(scope, name):
  """The name on the server of what is called `name` here."""
  return scope.rstrip("/") + "/" + name if scope else name


def _take(wanted, names):
  """`wanted`, or wanted_1, wanted_2 … if that is taken; taken from now on.

  names: {name that is taken: the last number that was put after it}.
  """
  name, n = wanted, names.get(wanted, 0)
  while name in names:
    n += 1
    name = "%s_%d" % (wanted, n)
  names[wanted] = n
  names.setdefault(name, 0)
  return name


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
