"""What is behind the names in graphs that tf.saved_model.load made of a SavedModel of TensorFlow 1.

Functions of such a model do not capture all of its variables and tables: their graphs have nodes that
name these. What this process has by such a name goes to the server as what functions capture, and
the graphs get the names that it has there.
"""
import tensorflow as tf
from tensorflow.python.ops import gen_resource_variable_ops
from tensorflow.python.ops import gen_state_ops

from formwork import table_types
from formwork import tables

_REFERENCES = ("Variable", "VariableV2")


class Variable:
  """A variable that nodes name, as Bindings know tf.Variables."""

  def __init__(self, node, name):
    shape = node.attr["shape"].shape
    self.name = name
    self.dtype = tf.as_dtype(node.attr["dtype"].type)
    # A scalar stands for any shape in the first version of the op.
    self.shape = tf.TensorShape(None if node.op == "Variable" and not shape.dim else shape)
    self._handle = _Reference(node) if node.op in _REFERENCES else (
        gen_resource_variable_ops.var_handle_op(self.dtype, self.shape, **_shared(node)))


class _Reference:
  """In the place of the handle of a variable that has none: a reference variable."""

  def __init__(self, node):
    self._attrs = dict(shape=node.attr["shape"].shape, dtype=tf.as_dtype(node.attr["dtype"].type),
                       **_shared(node))

  def local_value(self):
    """As mirror.local_value()."""
    @tf.function(autograph=False)
    def read():  # These live in graphs alone.
      return tf.identity(gen_state_ops.variable_v2(**self._attrs))
    try:
      return read()
    except tf.errors.FailedPreconditionError:
      return None


def _shared(node):
  return {attr: table_types.attr_of(node, attr).s.decode() for attr in ("container", "shared_name")}


def _table(node, nodes, name):
  """The tables.Local that a node names; None where it is not known what it is."""
  found = table_types.of_node(node, nodes)
  return None if found is None else tables.named(found.handle(**_shared(node)), name, found)


class Names:
  """What this process has behind the names in graphs, for one Server: the same always is the same."""

  def __init__(self):
    self._known = {}  # {the op's kind, container and shared_name: Variable or tables.Local}

  def of(self, graph_def):
    """[(Variable or tables.Local, the nodes that name it)] of a GraphDef."""
    found = {}
    for nodes in [graph_def.node] + [f.node_def for f in graph_def.library.function]:
      for node in nodes:
        one = self._of_node(node, nodes)
        if one is not None:
          found.setdefault(id(one), (one, []))[1].append(node)
    return list(found.values())

  def _of_node(self, node, nodes):
    variable = node.op == "VarHandleOp" or node.op in _REFERENCES
    if not variable and not table_types.makes_one(node):
      return None
    shared = _shared(node)
    name = table_types.OF_LOAD.sub("", shared["shared_name"])
    if name == shared["shared_name"]:
      return None
    key = (node.op == "VarHandleOp", *shared.values())
    if key not in self._known:
      with tf.init_scope():
        self._known[key] = Variable(node, name) if variable else _table(node, nodes, name)
    return self._known[key]


def rename(nodes, name):
  """Has nodes name what is on the server under this name."""
  for node in nodes:
    node.attr["container"].s = b""
    node.attr["shared_name"].s = name.encode()
