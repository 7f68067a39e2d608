"""tf.lookup's hash tables and their counterparts on the server."""
import hashlib

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import lookup_ops
from tensorflow.python.trackable import resource as trackable_resource

from formwork import mirror
from formwork import resources
from formwork import table_types
from formwork.v1 import variables_pb2


class Local:
  """A table of this process, as Bindings know tf.Variables: by its handle, which is its own."""

  def __init__(self, handle, name, table_type):
    self._handle = handle
    self.name = name
    self.type = table_type

  def bound(self, bindings, name, there):
    return Bound(bindings, self, name, there)


_KINDS = (lookup_ops.MutableHashTable, lookup_ops.DenseHashTable, lookup_ops.StaticHashTable)


def _type_of(owner):
  """Name and Type of a table; None where it cannot be sent."""
  if isinstance(owner, trackable_resource.RestoredResource):
    return table_types.of_restored(owner)
  key, value, name = owner.key_dtype, owner.value_dtype, owner._name
  if isinstance(owner, lookup_ops.StaticHashTable):
    return name, table_types.Type(key, value, (), static=True)
  shape = tuple(owner._value_shape.as_list())
  if isinstance(owner, lookup_ops.MutableHashTable):
    return name, table_types.Type(key, value, shape)
  keys = [tf.convert_to_tensor(k, key).numpy() for k in (owner._empty_key, owner._deleted_key)]
  return name, table_types.Type(key, value, shape,
                                dense=table_types.dense(keys, owner._initial_num_buckets))


def named(handle, name, table_type):
  """The Local of the table that this handle has."""
  known = getattr(handle, "_formwork_table", None)
  if known is None:
    if table_type.static:
      # What it holds is a part of its name: two of one name need not hold the same.
      entries = [a.tolist() for a in table_type.contents(handle) or ()]
      digest = hashlib.sha256(
          repr((table_type.key, table_type.value, sorted(zip(*entries)))).encode())
      name = "%s_%s" % (name, digest.hexdigest()[:16])
    known = handle._formwork_table = name, table_type
  return Local(handle, *known)


def local(handle, owner):
  """The Local of a handle; None where it is not that of a table that can be sent.

  owner: the object that it belongs to, or None where that is gone.
  """
  known = getattr(handle, "_formwork_table", None)
  if known is None and isinstance(owner, (*_KINDS, trackable_resource.RestoredResource)):
    known = _type_of(owner)
  if known is None and owner is None:
    known = table_types.of_orphan(handle)
  return None if known is None else named(handle, *known)


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
class _Followed:
  """What a bound table does besides. Everything eager asks for its `resource_handle`."""

  @property
  def resource_handle(self):
    handle = super().resource_handle
    if context.executing_eagerly():
      for bound in mirror.bounds_of(handle):
        if bound.stale():
          bound.bindings.refresh([bound])
    return handle


class Mirror(_Followed):
  """The same, of a table that has methods to change it; one of a SavedModel has functions alone."""

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
  if issubclass(cls, _Followed):
    return
  if cls not in _MIRRORS:
    added = _Followed if issubclass(cls, trackable_resource.RestoredResource) else Mirror
    _MIRRORS[cls] = type(cls)(cls.__name__, (added, cls), {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__})
  table.__class__ = _MIRRORS[cls]
