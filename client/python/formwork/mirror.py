"""A tf.Variable that has its counterpart on the server, and keeping the two together."""
import contextlib
import sys
import threading
import weakref

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.ops import gen_resource_variable_ops

from formwork import dropped
from formwork import dtypes

_WRITES = ("assign", "assign_add", "assign_sub", "scatter_add", "scatter_sub", "scatter_max",
           "scatter_min", "scatter_mul", "scatter_div", "scatter_update", "batch_scatter_update",
           "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_nd_max",
           "scatter_nd_min", "count_up_to", "_strided_slice_assign", "_restore_from_tensors")

# Where a variable's `handle` is asked for to read or watch it, to know whose it is, or to write in
# one of these methods, or in a Generator's (patches.py). Whoever else does may write.
_FOLLOWED = frozenset((
    "keras.src.backend.tensorflow.optimizer", "tensorflow.python.distribute.distribute_utils",
    "tensorflow.python.eager.backprop", "tensorflow.python.eager.forwardprop",
    "tensorflow.python.eager.record", "tensorflow.python.eager.tape",
    "tensorflow.python.ops.resource_variable_ops", "tensorflow.python.ops.stateful_random_ops"))


def raw_handle(variable):
  """The handle of a tf.Variable, with nothing fetched."""
  return variable.__dict__["_handle"]


def bounds_of(handle):
  """The Bounds of the variable that a handle belongs to: one for each Server that has it."""
  return getattr(getattr(handle, "_formwork_handle", handle), "_formwork_bound", ())


class Bound:
  """A tf.Variable of this process and the server's variable that holds its value.

  tables.Bound is the same for a table, datasets.Bound for an iterator.

  After a call the server's value is the truth. An eager read here, or a tf.function that runs here
  and uses the variable, fetches it first if a call may have changed it since the last time. An
  eager assignment here is passed on at once; what a tf.function changes here, or an op that is
  given the variable's handle alone, is passed on before the next call that uses the variable.

  Attributes:
    remote: the formwork.Variable or Table; place: where it is known from when this object is gone.
    handle: a weak reference to the tf.Variable's handle.
    epoch: the server's, in which `remote` was looked up; None: to be looked up again.
    writers: the registered traces (remote.Remote) that may change it.
    synced: when both are known to have had the same value, by the bindings' clock.
    in_dataset: a tf.data function uses it. Nothing tells when that runs, so the value is compared
      before and fetched after every call.
  """

  uses = ()  # Of an iterator, what the functions of its dataset use: [(Bound, whether changed)].

  def __init__(self, bindings, handle, remote):
    self.bindings = bindings
    self.place = dropped.Place(remote, bindings.server._channel.origin)
    self.handle = weakref.ref(handle)
    self.epoch = bindings.server._channel.epoch
    self.writers = weakref.WeakSet()
    self.in_dataset = False
    self._lock = threading.RLock()  # Over the value here and _seen, where both change.
    # The value that both had last, where a tf.data function uses it or its handle was given out.
    self._seen = None
    self.synced = next(bindings.clock)
    # When the server's may have changed.
    self._touched = next(bindings.clock) if remote.existed else 0

  @property
  def remote(self):
    return self.place.remote

  @remote.setter
  def remote(self, remote):
    self.place.remote = remote

  def stale(self):
    """Whether the server may have another value than this process."""
    # In this order: a writer that is collected meanwhile leaves the set, and then says when it ran.
    return any(w.last_call > self.synced for w in self.writers) or self._touched > self.synced

  def mark_stale(self):
    self._touched = next(self.bindings.clock)

  def refuse_here(self):
    """Raises an error where a tf.function of this process cannot use it."""

  def mark_changed(self):
    """A tf.function may have changed it here."""
    self.synced = next(self.bindings.clock)
    self.bindings.changed.add(self)

  def value(self):
    """The value here, as an array, whatever the server has. None: there is none."""
    handle = self.handle()
    return None if handle is None else self.value_of(handle)

  def take(self, value, asked):
    """Sets the variable here to the value, an array, that the server was asked for at that time."""
    with self._lock:
      if asked < self.synced:
        return  # Another thread has taken, or given, a later one.
      handle = self.handle()
      if handle is not None:
        self.set_value(handle, value)
      self.agree(value, asked)

  def look_up(self, there):
    """Its counterpart among {name: what is on the server}, or a new one with the value here."""
    before = self.remote
    return self.bindings.remote_variable(before.name, self.handle(), before.dtype, before.shape,
                                         there)

  def value_of(self, handle):
    """The value that a handle has here; None: it is uninitialised."""
    value = local_value(handle, self.remote.dtype)
    return None if value is None else value.numpy()

  def set_value(self, handle, value):
    gen_resource_variable_ops.assign_variable_op(handle, _constant(value, self.remote.dtype))

  def same(self, a, b):
    """Whether these are the same value."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
      return False
    if a.dtype == object:
      return (a == b).all()
    return a.tobytes() == b.tobytes()

  def agree(self, value, since):
    """Notes that this was the value here and on the server at that time."""
    self.synced = since
    self.bindings.changed.discard(self)
    self.bindings.given_out.discard(self)
    self._seen = value if self.in_dataset else None

  def follow_dataset(self):
    """A tf.data function uses the variable from now on."""
    if self.in_dataset:
      return
    self.in_dataset = self.bindings.in_datasets = True
    if self.stale():
      self.bindings.refresh([self])
    else:
      self._seen = self.value()

  def give_out(self):
    """Somebody gets its handle, which an eager op can write by."""
    if not self.in_dataset and self not in self.bindings.given_out:
      self._seen = self.value()
      self.bindings.given_out.add(self)

  def differs(self):
    """Whether the server has to be told the value here before a call uses it."""
    if self in self.bindings.changed:
      return True
    given_out = self in self.bindings.given_out
    if not self.in_dataset and not given_out:
      return False
    with self._lock:
      value = self.value()
      if value is not None and (self._seen is None or not self.same(value, self._seen)):
        return True
      if given_out:
        self.bindings.given_out.discard(self)
        self._seen = None
      return False


def local_value(handle, dtype):
  """The value of a variable here, whatever the server has. None: uninitialised."""
  if hasattr(handle, "local_value"):  # Of a loaded.Variable without a handle.
    return handle.local_value()
  if not gen_resource_variable_ops.var_is_initialized_op(handle):
    return None
  return gen_resource_variable_ops.read_variable_op(handle, tf.as_dtype(dtype))


def _constant(value, dtype):
  number = dtypes.number(dtype)
  made = tf.constant(value)
  return made if made.dtype.as_datatype_enum == number else tf.bitcast(made, tf.as_dtype(number))


# ------------------------------------------------------------------------- functions that run here
def call_here(fn, inputs, captured, run):
  """Runs a ConcreteFunction in this process, with the server's values of what it uses.

  Args:
    inputs, captured: its flat arguments and its captures.
    run: does it.
  """
  places = fn.__dict__.get("_formwork_resources")
  if places is None:
    places = fn._formwork_resources = _resource_places(fn.graph)
  if not places:
    return run()
  args = list(inputs) + list(captured)
  for i, written in places:
    if written:
      args[i]._formwork_used_here = True
  used = [(b, written) for i, written in places for b in bounds_of(args[i])]
  if not used:
    return run()
  stale = {}
  for bound, _ in used:
    bound.refuse_here()
    if bound.stale():
      stale.setdefault(bound.bindings, []).append(bound)
  for bindings, bounds in stale.items():
    bindings.refresh(bounds)
  try:
    return run()
  finally:
    for bound, written in used:
      if written:
        bound.mark_changed()


def _resource_places(graph):
  """[(place, whether it may be written)] of the resources among a FuncGraph's inputs."""
  places = [i for i, t in enumerate(graph.inputs) if t.dtype == tf_dtypes.resource]
  if not places:
    return ()
  read_only = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph))
  return [(i, i not in read_only) for i in places]


def used_in_dataset(handle):
  """Notes that a tf.data function has captured this handle."""
  handle._formwork_in_dataset = True
  for bound in bounds_of(handle):
    bound.follow_dataset()


# ----------------------------------------------------------------------------- eager reads, writes
_UNREAD = threading.local()


@contextlib.contextmanager
def unread():
  """Where handles are asked for in this thread without their variables' values being read."""
  before = getattr(_UNREAD, "on", False)
  _UNREAD.on = True
  try:
    yield
  finally:
    _UNREAD.on = before


_TOGETHER = threading.local()


@contextlib.contextmanager
def together():
  """Where what this thread writes eagerly is passed on at the end, all in one request."""
  if getattr(_TOGETHER, "written", None) is not None:
    yield
    return
  _TOGETHER.written = written = []
  try:
    yield
  finally:
    _TOGETHER.written = None
    bounds = {}
    for bound in written:
      bounds.setdefault(bound.bindings, {})[bound] = None
    for bindings, some in bounds.items():
      bindings.give([b for b in some if b in bindings.changed])


class Mirror:
  """What a bound tf.Variable does besides. The class of a bound variable is made from its own.

  Everything eager that reads or changes a variable asks for `_handle`, TensorFlow's C++ included.
  """

  @property
  def _handle(self):
    if context.executing_eagerly() and not getattr(_UNREAD, "on", False):
      for bound in bounds_of(self.__dict__["_handle"]):
        if bound.stale():
          bound.bindings.refresh([bound])
    return self.__dict__["_handle"]

  @_handle.setter
  def _handle(self, handle):
    self.__dict__["_handle"] = handle

  @property
  def handle(self):
    handle = super().handle
    if context.executing_eagerly() and not getattr(_UNREAD, "on", False) and (
        sys._getframe(1).f_globals.get("__name__") not in _FOLLOWED):
      for bound in bounds_of(handle):
        bound.give_out()
    return handle

  def _formwork_written(self):
    """Passes on what was just written here, if it was written eagerly."""
    if context.executing_eagerly():
      for bound in bounds_of(self.__dict__["_handle"]):
        if getattr(_TOGETHER, "written", None) is None:
          bound.bindings.give([bound])
        else:
          bound.mark_changed()
          _TOGETHER.written.append(bound)


def _writing(name):
  def write(self, *args, **kwargs):
    result = getattr(super(Mirror, self), name)(*args, **kwargs)
    self._formwork_written()
    return result
  write.__name__ = name
  return write


for _name in _WRITES:
  setattr(Mirror, _name, _writing(_name))

_MIRRORS = {}


def attach(variable, bound):
  """Makes a tf.Variable (or what stands for one that is gone) follow its counterpart."""
  handle = raw_handle(variable)
  handle.__dict__.setdefault("_formwork_bound", []).append(bound)
  if getattr(handle, "_formwork_in_dataset", False):
    bound.follow_dataset()
  cls = type(variable)
  if issubclass(cls, Mirror) or not issubclass(cls, tf.Variable):
    return
  if cls not in _MIRRORS:
    _MIRRORS[cls] = type(cls)(cls.__name__, (Mirror, cls), {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__})
  variable.__class__ = _MIRRORS[cls]


def detach(bound):
  """Lets the variable go its own way again."""
  handle = bound.handle()
  if handle is not None:
    handle._formwork_bound.remove(bound)
