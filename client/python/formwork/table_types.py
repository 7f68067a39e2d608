"""What kind a hash table is, and functions on the server for those of a kind.

The server has no requests for what a table holds: functions that are registered for it make one,
import and export what is in it, insert and remove.
"""
import re
import typing

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_lookup_ops

from formwork import errors
from formwork import tracing
from formwork import types

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

  def handle(self, **names):
    """The handle of the table of a shared_name, here or in a graph, with further attributes."""
    same = dict(value_dtype=self.value, **names)
    if self.static:
      return gen_lookup_ops.hash_table_v2(key_dtype=self.key, **same)
    if self.dense:
      empty, deleted, buckets = self.dense
      return gen_lookup_ops.mutable_dense_hash_table_v2(
          tf.constant(empty, self.key), tf.constant(deleted, self.key), value_shape=self.shape,
          initial_num_buckets=buckets, **same)
    if self.shape:
      return gen_lookup_ops.mutable_hash_table_of_tensors_v2(
          key_dtype=self.key, value_shape=self.shape, **same)
    return gen_lookup_ops.mutable_hash_table_v2(key_dtype=self.key, **same)

  def make(self, server, name):
    """Makes the table `name` on a server, or checks that the one that is there is of this type."""
    with tf.Graph().as_default() as graph:
      table = self.handle(shared_name=name, name="table")
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


def dense(keys, buckets):
  """A Type's `dense`, of arrays."""
  return (*(tuple(k.tolist()) if np.ndim(k) else k for k in keys), buckets)


# --------------------------------------------------------------------------- what nodes of graphs make
# What tf.saved_model.load puts after each shared_name: no two loads share anything.
OF_LOAD = re.compile(r"(_load_\d+(_\d+)?)+$")
_OPS = re.compile(r"Anonymous(Mutable(Dense)?)?HashTable(OfTensors)?|"
                  r"(Mutable(Dense)?)?HashTable(OfTensors)?V2")
_NO_ATTR = attr_value_pb2.AttrValue()
_CREATOR = "_creator"  # In the name of a function of a SavedModel that makes a table.
_NAME = re.compile(r'name="(.+?)", device=')  # In the text of a handle.


def makes_one(node):
  """Whether a NodeDef makes a table."""
  return _OPS.fullmatch(node.op) is not None


def attr_of(node, name):
  """An AttrValue of a NodeDef; where it has none an empty one, which is not added to it."""
  return node.attr.get(name, _NO_ATTR)


def of_node(node, nodes):
  """The Type of the table that a NodeDef makes, which is one of `nodes`; None: it is not known."""
  key, value = (tf.as_dtype(attr_of(node, name).type) for name in ("key_dtype", "value_dtype"))
  if "Mutable" not in node.op:
    return Type(key, value, (), static=True)
  shape = tuple(d.size for d in attr_of(node, "value_shape").shape.dim)
  if "Dense" not in node.op:
    return Type(key, value, shape)
  constants = {n.name: attr_of(n, "value").tensor for n in nodes if n.op == "Const"}
  inputs = [name.partition(":")[0] for name in node.input[:2]]
  if not all(name in constants for name in inputs):
    return None
  keys = [tensor_util.MakeNdarray(constants[name])[()] for name in inputs]
  return Type(key, value, shape, dense=dense(keys, attr_of(node, "initial_num_buckets").i))


def of_restored(owner):
  """Name and Type of a table that tf.saved_model.load made; None where it cannot be sent."""
  for traced in getattr(owner._create_resource, "concrete_functions", ()):
    graph_def = traced.graph.as_graph_def()
    # In a function of the library where what was loaded has been saved again.
    for nodes in [graph_def.node] + [f.node_def for f in graph_def.library.function]:
      for node in filter(makes_one, nodes):
        return _name_and_type(node, nodes)
  return None


def of_orphan(handle):
  """The same where its object is gone: TensorFlow keeps the functions that made what was loaded."""
  name = _NAME.search(str(handle))
  if name is None or not OF_LOAD.search(name.group(1)):
    return None
  ctx = context.context()
  for function in ctx.list_function_names():
    if _CREATOR in function:
      nodes = ctx.get_function_def(function).node_def
      for node in filter(makes_one, nodes):
        if attr_of(node, "shared_name").s.decode() == name.group(1):
          return _name_and_type(node, nodes)
  return None


def _name_and_type(node, nodes):
  found = of_node(node, nodes)
  return None if found is None else (node.name, found)
