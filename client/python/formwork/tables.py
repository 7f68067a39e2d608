"""tf.lookup's hash tables and their counterparts on the server.

The server has no requests for what a table holds: functions that are registered for it make one,
import and export what is in it, insert and remove.
"""
import hashlib
import typing

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import gen_lookup_ops
from tensorflow.python.ops import lookup_ops

from formwork import errors
from formwork import mirror
from formwork import resources
from formwork import tracing
from formwork import types
from formwork.v1 import variables_pb2

_FUNCTIONS = "formwork.table"  # What the names of the functions begin with.
_CHANGES = {"import": gen_lookup_ops.lookup_table_import_v2,
            "initialize": gen_lookup_ops.initialize_table_v2,
            "insert": gen_lookup_ops.lookup_table_insert_v2,
            "remove": gen_lookup_ops.lookup_table_remove_v2}


class Type(typing.NamedTuple):
  """Dtypes of keys and values, and a value's shape: () or (n,).

  static: it is initialized once. dense: its empty and deleted key, which are tuples where keys are
  vectors, and its number of buckets; None of other tables.
  """

  key: tf.DType
  value: tf.DType
  shape: tuple
  static: bool = False
  dense: tuple = None

  @property
  def key_shape(self):
    """() or (n,)."""
    return np.shape(self.dense[0]) if self.dense else ()

  def contents(self, handle):
    """What a table here holds: arrays of keys and values. None: it is not initialized."""
    try:
      return tuple(_array(t) for t in gen_lookup_ops.lookup_table_export_v2(
          handle, self.key, self.value))
    except tf.errors.AbortedError:
      return None

  def set_contents(self, handle, contents):
    keys, values = contents
    if self.dense:  # TensorFlow takes the array as it is, where each key has its place.
      gen_lookup_ops.lookup_table_import_v2(
          handle, tf.broadcast_to(tf.constant(self.dense[0], self.key), keys.shape),
          tf.zeros(values.shape, self.value))
      rows = keys.reshape((len(keys), -1))
      # As objects: numpy's own strings do not tell b"\0" from b"".
      held = ~np.logical_or(*((rows == np.array(key, keys.dtype)).all(1)
                              for key in self.dense[:2]))
      keys = rows[held].reshape((-1, *self.key_shape))
      values = values.reshape((-1, *self.shape))[held]
      gen_lookup_ops.lookup_table_insert_v2(
          handle, tf.constant(keys, self.key, keys.shape),
          tf.constant(values, self.value, values.shape))
      return
    change = _CHANGES["initialize" if self.static else "import"]
    change(handle, tf.constant(keys, self.key, keys.shape),
           tf.constant(values, self.value, values.shape))

  def make(self, server, name):
    """Makes the table `name` on a server, or checks that the one that is there is of this type."""
    with tf.Graph().as_default() as graph:
      same = dict(shared_name=name, value_dtype=self.value, name="table")
      if self.static:
        table = gen_lookup_ops.hash_table_v2(key_dtype=self.key, **same)
      elif self.dense:
        empty, deleted, buckets = self.dense
        table = gen_lookup_ops.mutable_dense_hash_table_v2(
            tf.constant(empty, self.key), tf.constant(deleted, self.key), value_shape=self.shape,
            initial_num_buckets=buckets, **same)
      elif self.shape:
        table = gen_lookup_ops.mutable_hash_table_of_tensors_v2(
            key_dtype=self.key, value_shape=self.shape, **same)
      else:
        table = gen_lookup_ops.mutable_hash_table_v2(key_dtype=self.key, **same)
      size = gen_lookup_ops.lookup_table_size_v2(table)
    # It is made as the function is registered; a dense one gets its keys as it runs.
    made = server.register("%s.make/%s" % (_FUNCTIONS, name),
                           graph.as_graph_def().SerializeToString(), [], [size.name])
    try:
      if self.dense:
        made()
    finally:
      made.delete()

  def read(self, server, remote):
    """As contents(), of a table on a server."""
    try:
      return tuple(self._function(server, "export")(remote))
    except errors.Error as e:
      if e.code != "ABORTED":
        raise
      return None

  def write(self, server, remote, contents):
    if contents is not None and (len(contents[0]) or not self.static):
      keys, values = contents
      self._function(server, "initialize" if self.static else "import")(
          remote, keys.reshape((-1, *self.key_shape)), values.reshape((-1, *self.shape)))

  def insert(self, server, remote, keys, values):
    self._function(server, "insert")(
        remote, _array(tf.reshape(keys, [-1, *self.key_shape])),
        _array(tf.reshape(values, [-1, *self.shape])))

  def remove(self, server, remote, keys):
    self._function(server, "remove")(remote, _array(tf.reshape(keys, [-1, *self.key_shape])))

  def _function(self, server, what):
    known = server._table_functions
    if (what, self) not in known:
      known[what, self] = self._register(server, what)
    return known[what, self]

  def _register(self, server, what):
    with tf.Graph().as_default() as graph:
      inputs = [tf.compat.v1.placeholder(tf.resource, [], "table")]
      outputs, targets = [], []
      if what == "export":
        outputs = gen_lookup_ops.lookup_table_export_v2(inputs[0], self.key, self.value)
      else:
        # That keys may be vectors is not what TensorFlow's shape function of an import says.
        keys = None if what == "import" and self.key_shape else [None, *self.key_shape]
        inputs.append(tf.compat.v1.placeholder(self.key, keys, "keys"))
        if what != "remove":
          inputs.append(tf.compat.v1.placeholder(self.value, [None, *self.shape], "values"))
        targets = [_CHANGES[what](*inputs).name]
    name = "%s.%s/%s%s/%s%s" % (
        _FUNCTIONS, what, self.key.name, "".join("/%d" % n for n in self.key_shape),
        self.value.name, "/%d" % self.shape if self.shape else "")
    specs = [types.TensorSpec(t.name, t.dtype.name, tracing.shape_list(t.shape)) for t in inputs]
    return server.register(name, graph.as_graph_def().SerializeToString(), specs,
                           [t.name for t in outputs], targets=targets)


def _array(t):
  array = t.numpy()
  return array if isinstance(array, np.ndarray) else np.asarray(array)


class Local:
  """A table of this process, as Bindings know tf.Variables: by its handle, which is its own."""

  def __init__(self, handle, name, table_type):
    self._handle = handle
    self.name = name
    self.type = table_type

  def bound(self, bindings, name, there):
    return Bound(bindings, self, name, there)


_KINDS = (lookup_ops.MutableHashTable, lookup_ops.DenseHashTable, lookup_ops.StaticHashTable)


def _type_of(handle, owner):
  """Name and Type of a table; None where it cannot be sent."""
  key, value, name = owner.key_dtype, owner.value_dtype, owner._name
  if isinstance(owner, lookup_ops.StaticHashTable):
    of_static = Type(key, value, (), static=True)
    # What it holds is a part of its name: two of one name need not hold the same.
    entries = [a.tolist() for a in of_static.contents(handle) or ()]
    digest = hashlib.sha256(repr((key, value, sorted(zip(*entries)))).encode())
    return "%s_%s" % (name, digest.hexdigest()[:16]), of_static
  shape = tuple(owner._value_shape.as_list())
  if isinstance(owner, lookup_ops.MutableHashTable):
    return name, Type(key, value, shape)
  keys = [tf.convert_to_tensor(k, key).numpy() for k in (owner._empty_key, owner._deleted_key)]
  return name, Type(key, value, shape, dense=(
      *(tuple(k.tolist()) if np.ndim(k) else k for k in keys), owner._initial_num_buckets))


def local(handle, owner):
  """The Local of a handle; None where it is not that of a table that can be sent.

  owner: the object that it belongs to, or None where that is gone.
  """
  known = getattr(handle, "_formwork_table", None)
  if known is None and isinstance(owner, _KINDS):
    known = handle._formwork_table = _type_of(handle, owner)
  return None if known is None else Local(handle, *known)


class Bound(mirror.Bound):
  """A table of this process and the server's: as a variable's."""

  def __init__(self, bindings, table, name, there):
    self._type = table.type
    super().__init__(bindings, table._handle, self._remote(bindings, table._handle, name, there))
    owner = getattr(table._handle, "_parent_trackable", lambda: None)()
    if owner is not None and not self._type.static:
      _follow(owner)

  def look_up(self, there):
    return self._remote(self.bindings, self.handle(), self.remote.name, there)

  def _remote(self, bindings, handle, name, there):
    server = bindings.server
    self._type.make(server, name)
    request = variables_pb2.GetVariableRequest(namespace=server.namespace)
    request.variable.name = name
    answer = server._request("GetVariable", request)
    remote = resources.from_info(server, answer.variable, answer.epoch, existed=name in there)
    if not remote.existed and handle is not None:
      self._type.write(server, remote, self._type.contents(handle))
    return remote

  def follow_dataset(self):
    if not self._type.static:  # Which never changes.
      super().follow_dataset()

  def value_of(self, handle):
    return self._type.contents(handle)

  def set_value(self, handle, value):
    if value is not None:
      self._type.set_contents(handle, value)

  def read(self):
    """What the server has."""
    return self._type.read(self.bindings.server, self.remote)

  def write(self, value):
    self._type.write(self.bindings.server, self.remote, value)

  def insert(self, keys, values):
    self._type.insert(self.bindings.server, self.remote, keys, values)

  def remove(self, keys):
    self._type.remove(self.bindings.server, self.remote, keys)

  def note_same(self):
    """The same was changed here and on the server."""
    if self._seen is not None:
      self._seen = self.value()

  def same(self, a, b):
    return (a is None) == (b is None) and (a is None or all(map(super().same, a, b)))


# ----------------------------------------------------------------------------- eager reads, writes
class Mirror:
  """What a bound table does besides. Everything eager asks for its `resource_handle`."""

  @property
  def resource_handle(self):
    handle = super().resource_handle
    if context.executing_eagerly():
      for bound in mirror.bounds_of(handle):
        if bound.stale():
          bound.bindings.refresh([bound])
    return handle

  def insert(self, keys, values, name=None):
    if context.executing_eagerly():
      keys = tf.convert_to_tensor(keys, self._key_dtype)
      values = tf.convert_to_tensor(values, self._value_dtype)
      # Else TensorFlow says what it is.
      if values.shape == keys.shape[:keys.shape.rank - _key_rank(self)] + self._value_shape:
        return self._change(lambda bound: bound.insert(keys, values),
                            lambda: super(Mirror, self).insert(keys, values, name))
    return super().insert(keys, values, name)

  def remove(self, keys, name=None):
    if context.executing_eagerly() and keys.dtype == self._key_dtype:
      return self._change(lambda bound: bound.remove(keys),
                          lambda: super(Mirror, self).remove(keys, name))
    return super().remove(keys, name)

  def _change(self, there, here):
    """Makes the same change on the server, where what other clients change meanwhile stays."""
    bounds = mirror.bounds_of(self._resource_handle)
    for bound in bounds:
      if bound not in bound.bindings.changed:  # Else it goes as a whole with the next call.
        bound.bindings.again_if_lost([bound], lambda: there(bound))
    if bounds and all(bound.stale() for bound in bounds):
      return None  # What is read here is fetched first.
    result = here()
    for bound in bounds:
      bound.note_same()
    return result

  def _restore_from_tensors(self, restored_tensors):
    result = super()._restore_from_tensors(restored_tensors)
    if context.executing_eagerly():
      for bound in mirror.bounds_of(self._resource_handle):
        bound.mark_changed()
    return result


def _key_rank(table):
  return np.ndim(getattr(table, "_empty_key", 0))


_MIRRORS = {}


def _follow(table):
  cls = type(table)
  if issubclass(cls, Mirror):
    return
  if cls not in _MIRRORS:
    _MIRRORS[cls] = type(cls)(cls.__name__, (Mirror, cls), {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__})
  table.__class__ = _MIRRORS[cls]
