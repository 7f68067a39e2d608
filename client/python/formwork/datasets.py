"""tf.data's datasets and iterators of this process, and their counterparts on the server.

A dataset goes there as the graph that TensorFlow makes of it, once, and stays as a kept tensor; so
what belongs to it (its cache, where its shuffles' seeds are) goes on from call to call. An iterator
begins there at the beginning and lives there from then on, as a variable does.
"""
import gc
import math
import weakref

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.data.ops import iterator_ops
from tensorflow.python.data.util import structure
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.ops import gen_dataset_ops

from formwork import data
from formwork import eager
from formwork import errors
from formwork import intermediates
from formwork import mirror
from formwork import tracing
from formwork import types

_IGNORE_STATE = 1  # Of TensorFlow's ExternalStatePolicy.
# What has a handle that TensorFlow's graph of a dataset only stands in for. The server keeps what
# is behind it with the dataset, so that there any will do.
_HANDLES = {"ShuffleDatasetV3": "DummySeedGenerator", "CacheDatasetV2": "DummyMemoryCache",
            "RandomDatasetV2": "DummySeedGenerator",
            "ShuffleAndRepeatDatasetV2": "DummySeedGenerator"}
# What the graph of a dataset begins with that functions of the dataset have captured, and its kind.
_CAPTURED = {"VarHandleOp": "a tf.Variable", "HashTableV2": "a lookup table",
             "MutableHashTableV2": "a lookup table", "MutableDenseHashTableV2": "a lookup table",
             "MutableHashTableOfTensorsV2": "a lookup table",
             "AnonymousHashTable": "a lookup table", "AnonymousMutableHashTable": "a lookup table"}
_GONE = ("TENSOR_NOT_FOUND", "EPOCH_MISMATCH")


# --------------------------------------------------------------------------------------- datasets
def is_one(t):
  """Whether an EagerTensor is a dataset's."""
  if t.dtype != tf_dtypes.variant:
    return False
  if not hasattr(t, "_formwork_datasets"):
    try:
      gen_dataset_ops.dataset_cardinality(t)
    except tf.errors.InvalidArgumentError:  # An Optional, a list.
      return False
    t._formwork_datasets = weakref.WeakKeyDictionary()
  return True


def is_gone(error):
  """Whether an error of the server says that it no longer has a dataset."""
  return error.reason in _GONE


def remote(bindings, variant, anew=False):
  """The formwork.Dataset of an EagerTensor that is_one(): what is there, or a new one.

  anew: the server may have lost it.
  Errors: UNIMPLEMENTED where it cannot be sent.
  """
  server = bindings.server
  with bindings.lock:
    known = variant._formwork_datasets
    generation, there = known.get(bindings, (None, None))
    if anew or generation != bindings.generation or (
        there.kept._key[0] != server._channel.epoch):
      graph_def, output = _graph_of(variant)
      there = intermediates.Intermediate(server._do(data.keeping_graphs_dataset(
          server, graph_def, output, None, None, keep_for=intermediates.KEEP_FOR)))
      known[bindings] = bindings.generation, there
    return there.kept


def _graph_of(variant):
  """What makes a dataset: the serialized GraphDef, and the name of the output."""
  try:
    made = gen_dataset_ops.dataset_to_graph_v2(
        variant, external_state_policy=_IGNORE_STATE, strip_device_assignment=True)
  except tf.errors.OpError as e:
    raise errors.Error("UNIMPLEMENTED", "a dataset that is captured or an argument cannot be sent, "
                       "make it inside the function: " + e.message) from None
  graph_def = graph_pb2.GraphDef.FromString(made.numpy())
  nodes = {n.name: n for n in graph_def.node}
  output = None
  for node in graph_def.node:
    if node.op == "_Retval":
      output = node.input[0]
    elif node.op in _CAPTURED:
      raise errors.Error("UNIMPLEMENTED", "a dataset that is captured or an argument has a function "
                         "that uses %s: make the dataset inside the function" % _CAPTURED[node.op])
    elif node.op in _HANDLES:
      handle = nodes[node.input[-1]]
      handle.Clear()
      handle.name, handle.op = node.input[-1], _HANDLES[node.op]
  kept = [n for n in graph_def.node if n.op != "_Retval"]
  del graph_def.node[:]
  graph_def.node.extend(kept)
  return tracing.normal_bytes(graph_def), output if ":" in output else output + ":0"


# -------------------------------------------------------------------------------------- iterators
class Local:
  """An iterator of this process, as Bindings know tf.Variables: by its handle."""

  name = "Iterator"

  def __init__(self, iterator):
    self._handle = iterator._iterator_resource
    self.iterator = iterator

  def bound(self, bindings, name, there):
    return Bound(bindings, self, "%s_%s" % (name, bindings.server._channel.origin.client_id[:8]))


def local(handle):
  """The Local of a handle; None where it is not an iterator's that can be sent."""
  for holder in gc.get_referrers(handle):
    owners = gc.get_referrers(holder) if isinstance(holder, dict) else [holder]
    for owner in owners:
      if isinstance(owner, iterator_ops.OwnedIterator) and (
          getattr(owner, "_dataset", None) is not None):
        return Local(owner)
  return None


class Bound(mirror.Bound):
  """An iterator of this process and the server's: from now on the server's is the one that moves.

  Attributes:
    variant: the EagerTensor of its dataset.
  """

  def __init__(self, bindings, iterator, name):
    owner = iterator.iterator
    if getattr(owner._iterator_resource, "_formwork_used_here", False):
      raise errors.Error("FAILED_PRECONDITION", "elements of an iterator were taken in this process "
                         "before a function on the server used it: where it is cannot be sent, "
                         "make another by iter()")
    if mirror.bounds_of(owner._iterator_resource):
      raise errors.Error("FAILED_PRECONDITION", "an iterator is on another server already")
    self.bindings = bindings
    self.variant = owner._dataset._variant_tensor
    assert is_one(self.variant)
    self._spec = [types.TensorSpec("", t.name, tracing.shape_list(s)) for t, s in zip(
        owner._flat_output_types, owner._flat_output_shapes)]
    super().__init__(bindings, owner._iterator_resource, self._made(name))

  def look_up(self, there):
    """As that of a variable; one that the server has lost begins anew."""
    return there.get(self.remote.name) or self._made(self.remote.name)

  def _made(self, name):
    server = self.bindings.server
    made = lambda anew: server._do(data.making_iterator(
        server, name, remote(self.bindings, self.variant, anew), None, self._spec))
    try:
      iterator = made(False)
    except errors.Error as e:
      if not is_gone(e):
        raise
      iterator = made(True)
    iterator.existed = False
    return iterator

  def next(self):
    """The server's next element: an EagerTensor for each component."""
    try:
      values = self.bindings.again_if_lost([self], lambda: self.remote.next(timeout=math.inf))
    except errors.Error as e:
      raise errors.for_tensorflow(e) from None
    if any(value is None for value in values):
      raise errors.for_tensorflow(errors.Error(
          "UNIMPLEMENTED", "an element has a variant (of a ragged or sparse tensor), which cannot "
          "leave the server: take it in a function"))
    return [eager.from_value(value, tf.as_dtype(s.dtype)) for value, s in zip(values, self._spec)]

  def refuse_here(self):
    raise errors.for_tensorflow(errors.Error(
        "FAILED_PRECONDITION", "an iterator that a function on the server uses is there: a "
        "tf.function that runs in this process cannot take elements of it"))

  # It has no value that could be here, too.
  def stale(self):
    return False

  def value_of(self, handle):
    return None

  def take(self, value, asked):
    pass

  def read(self):
    return None

  def differs(self):
    return False

  def give_out(self):
    pass

  def mark_changed(self):
    pass


def taken(iterator, here):
  """The next element of an OwnedIterator, eagerly: of where it is. here(): takes it in this process."""
  for bound in mirror.bounds_of(iterator._iterator_resource):
    return structure.from_compatible_tensor_list(iterator._element_spec, bound.next())
  iterator._iterator_resource._formwork_used_here = True
  return here()


def taken_as_optional(iterator, here):
  """As taken(), as an Optional."""
  if not mirror.bounds_of(iterator._iterator_resource):
    return taken(iterator, here)
  try:
    return tf.experimental.Optional.from_value(taken(iterator, None))
  except tf.errors.OutOfRangeError:
    return tf.experimental.Optional.empty(iterator._element_spec)
