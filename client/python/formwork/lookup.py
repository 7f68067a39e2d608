"""Hash tables on the server, made, read and changed without TensorFlow.

The server has no requests for what a table holds: functions of one node each, registered here as
they are needed, make one, find and change what is in it.
"""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from formwork import dtypes
from formwork import errors
from formwork import resources
from formwork import small_functions
from formwork import types
from formwork.v1 import variables_pb2

_TYPE = re.compile(r"(?:static |dense )?table (\w+)\[\] -> (\w+)\[(\d*)\]$")


class Table(resources.Resource, of=["table", "static table", "dense table"]):
  """A hash table on the server: a mutable one, or a static one, which is only read.

  Attributes:
    default_value: what lookup gives for a key that is not there; None: zero, or an empty string.
    key_shape: of a dense one, whose type does not say it: () or (n,).
  """

  __slots__ = ("default_value", "key_shape")
  kind = "table"
  default_value: Any
  key_shape: tuple[int, ...]

  def __init__(self, server, info, epoch, existed=True):
    self.default_value = None
    self.key_shape = ()
    super().__init__(server, info, epoch, existed)

  def lookup(self, keys: Any, default_value: Any = None,
             timeout: float | None = None) -> np.ndarray:
    """The values of keys of any shape, one for each; default_value: one, or one for each key.

    Where keys are vectors, the last dimension is theirs.
    """
    return self._server._do(finding(self, keys, default_value, timeout))

  def insert(self, keys: Any, values: Any, timeout: float | None = None) -> None:
    """Sets the values of keys. Errors: UNIMPLEMENTED of a static table."""
    return self._server._do(changing(self, "insert", [keys, values], timeout))

  def remove(self, keys: Any, timeout: float | None = None) -> None:
    """Removes keys; those that are not there are passed over. Errors: as insert."""
    return self._server._do(changing(self, "remove", [keys], timeout))

  def export(self, timeout: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All keys, and their values, in no order."""
    return self._server._do(exporting(self, timeout))

  def size(self, timeout: float | None = None) -> int:
    """How many keys it has."""
    return self._server._do(sizing(self, timeout))


class Type:
  """Dtypes of keys and values by their names, and a value's and a key's shape: () or (n,)."""

  def __init__(self, key, value, shape, key_shape=()):
    self.key, self.value, self.shape, self.key_shape = key, value, shape, key_shape

  @classmethod
  def of(cls, table):
    """Of a Table; the server writes "table string[] -> int64[]"."""
    key, value, n = _TYPE.match(table.type).groups()
    return cls(key, value, (int(n),) if n else (), table.key_shape)

  def path(self):
    return "/".join([self.key, *map(str, self.key_shape), self.value, *map(str, self.shape)])

  def keys(self, given, name):
    keys = _array(given, self.key, "table '%s': keys" % name)
    return self._checked_keys(keys, name)

  def _checked_keys(self, keys, name):
    rank = len(self.key_shape)
    if keys.size == 0 and keys.ndim < 1 + rank:
      return keys.reshape((0, *self.key_shape))
    if rank and keys.shape[-1:] != self.key_shape:
      raise errors.invalid("table '%s': expected keys of %d elements, got shape %s" % (
          name, self.key_shape[0], list(keys.shape)))
    return keys

  def each(self, keys):
    """The shape that keys have beside that of one."""
    return keys.shape[:keys.ndim - len(self.key_shape)]

  def values(self, given, shapes, name):
    """shapes: that it may have."""
    values = _array(given, self.value, "table '%s': values" % name)
    if values.shape not in shapes:
      raise errors.invalid("table '%s': expected values of shape %s, got %s" % (
          name, " or ".join(str(list(s)) for s in shapes), list(values.shape)))
    return values


def _array(given, dtype, what):
  array = np.asarray(given, object if dtype == "string" else dtypes.to_numpy(dtypes.number(dtype)))
  if dtype == "string" and not all(isinstance(x, (bytes, str)) for x in array.flat):
    raise errors.invalid("%s: expected strings" % what)
  return array


def making(server, name, kind, table_type, keys, values, default, dense_keys, timeout):
  """The Table `name`: the one that is there, or a new one that holds these.

  dense_keys: an array of the empty and the deleted key of a dense one.
  """
  request = variables_pb2.GetVariableRequest(namespace=server.namespace)
  request.variable.name = name
  existed = True
  try:
    yield "request", "GetVariable", request, timeout
  except errors.Error as e:
    if e.code != "NOT_FOUND":
      raise
    existed = False
  # It is made as the function is registered, which finds one of another type.
  same = dict(shared_name=name, key_dtype=dtypes.number(table_type.key),
              value_dtype=dtypes.number(table_type.value))
  graph, specs = small_functions.Graph(), []
  if kind == "static":
    handle = graph.node("HashTableV2", **same)
  elif kind == "dense":
    dense = [graph.node("Placeholder", dtype=same["key_dtype"]) for _ in dense_keys]
    specs = [types.TensorSpec(key + ":0", table_type.key, list(table_type.key_shape))
             for key in dense]
    handle = graph.node("MutableDenseHashTableV2", *dense, value_shape=table_type.shape, **same)
  elif table_type.shape:
    handle = graph.node("MutableHashTableOfTensorsV2", value_shape=table_type.shape, **same)
  else:
    handle = graph.node("MutableHashTableV2", **same)
  size = graph.node("LookupTableSizeV2", handle)
  made = yield from small_functions.registering(
      server, "table.make/" + name, graph, specs, [size + ":0"], [], timeout)
  try:
    answer = yield "request", "GetVariable", request, timeout
    table = resources.from_info(server, answer.variable, answer.epoch, existed)
    table.default_value = default
    table.key_shape = table_type.key_shape
    if existed:
      return table
    try:
      if kind == "dense":  # It gets these keys as the function runs.
        yield from small_functions.calling(
            server, made, [(key, same["key_dtype"]) for key in dense_keys], "table '%s'" % name,
            timeout)
      if len(keys):
        change = "initialize" if kind == "static" else "insert"
        yield from changing(table, change, [keys, values], timeout)
    except errors.Error:
      yield from resources.deleting(table, timeout)  # All of it is made, or nothing.
      raise
    return table
  finally:
    yield from small_functions.forgetting(server, made, timeout)


def finding(table, keys, default, timeout):
  kind = Type.of(table)
  keys = kind.keys(keys, table.name)
  if default is None:
    default = table.default_value
  if default is None:
    default = np.full(kind.shape, b"", object) if kind.value == "string" else np.zeros(kind.shape)
  values = kind.values(default, [kind.shape, kind.each(keys) + kind.shape], table.name)
  return (yield from _running(table, kind, "find", [keys, values], timeout,
                              "/each" if values.shape != kind.shape else ""))[0]


def changing(table, what, given, timeout):
  kind = Type.of(table)
  arrays = [kind.keys(given[0], table.name)]
  if len(given) > 1:
    arrays.append(kind.values(given[1], [kind.each(arrays[0]) + kind.shape], table.name))
  arrays = [np.ascontiguousarray(arrays[0].reshape((-1, *kind.key_shape)))] + [
      np.ascontiguousarray(a.reshape((-1,) + kind.shape)) for a in arrays[1:]]
  yield from _running(table, kind, what, arrays, timeout)


def exporting(table, timeout):
  kind = Type.of(table)
  keys, values = yield from _running(table, kind, "export", [], timeout)
  # A dense one's scalars are rows.
  return keys.reshape((-1, *kind.key_shape)), values.reshape((-1,) + kind.shape)


def sizing(table, timeout):
  return int((yield from _running(table, Type.of(table), "size", [], timeout))[0])


_OPS = {
    # op, attrs of key's and value's dtype, inputs besides the table, outputs
    "find": ("LookupTableFindV2", "Tin", "Tout", ["keys", "values"], 1),
    "insert": ("LookupTableInsertV2", "Tin", "Tout", ["keys", "values"], 0),
    "initialize": ("InitializeTableV2", "Tkey", "Tval", ["keys", "values"], 0),
    "remove": ("LookupTableRemoveV2", "Tin", None, ["keys"], 0),
    "export": ("LookupTableExportV2", "Tkeys", "Tvalues", [], 2),
    "size": ("LookupTableSizeV2", None, None, [], 1),
}


def _running(table, kind, what, arrays, timeout, suffix=""):
  """Runs the function that does it; its outputs."""
  server = table._server
  name = "table.%s/%s%s" % (what, kind.path(), suffix)
  known = server._small_functions
  if name not in known:
    known[name] = yield from _one_op(server, name, kind, what, timeout)
  numbers = [dtypes.RESOURCE, dtypes.number(kind.key), dtypes.number(kind.value)]
  try:
    return (yield from small_functions.calling(
        server, known[name], zip([table, *arrays], numbers), "table '%s'" % table.name, timeout))
  except errors.Error as e:
    raise resources.named(e, [table])


def _one_op(server, name, kind, what, timeout):
  op, key_attr, value_attr, inputs, outputs = _OPS[what]
  graph = small_functions.Graph()
  nodes = [graph.node("Placeholder", dtype=dtypes.RESOURCE)]
  specs = [types.TensorSpec(nodes[0] + ":0", "resource", [])]
  for tensor in inputs:
    dtype = kind.key if tensor == "keys" else kind.value
    # Keys of any shape are found; what is found instead has the shape of one value, or of all.
    shape = [None, *kind.key_shape] if what != "find" else None
    if tensor == "values":
      shape = list(kind.shape) if what == "find" and not name.endswith("/each") else (
          None if what == "find" else [None, *kind.shape])
    nodes.append(graph.node("Placeholder", dtype=dtypes.number(dtype)))
    specs.append(types.TensorSpec(nodes[-1] + ":0", dtype, shape))
  attrs = {}
  if key_attr:
    attrs[key_attr] = dtypes.number(kind.key)
  if value_attr:
    attrs[value_attr] = dtypes.number(kind.value)
  made = graph.node(op, *nodes, **attrs)
  return (yield from small_functions.registering(
      server, name, graph, specs, ["%s:%d" % (made, i) for i in range(outputs)],
      [] if outputs else [made], timeout))
