"""tf.data's datasets and iterators of this process, and their counterparts on the server.

A dataset goes there as the graph that TensorFlow makes of it, once, and stays as a kept tensor; so
what belongs to it (its cache, where its shuffles' seeds are) goes on from call to call. An iterator
begins there at the beginning and lives there from then on, as a variable does.
"""
import collections
import gc
import math
import weakref

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import types_pb2
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.ops import iterator_ops
from tensorflow.python.data.util import structure
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import op_def_registry
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
# What the graph of a dataset has in the place of what functions of the dataset have captured, and
# its kind.
_CAPTURED = {"VarHandleOp": "a tf.Variable", "HashTableV2": "a lookup table",
             "MutableHashTableV2": "a lookup table", "MutableDenseHashTableV2": "a lookup table",
             "MutableHashTableOfTensorsV2": "a lookup table",
             "AnonymousHashTable": "a lookup table", "AnonymousMutableHashTable": "a lookup table"}
_GONE = ("TENSOR_NOT_FOUND", "EPOCH_MISMATCH")
# Of what it uses, too.
_USE_GONE = ("VARIABLE_NOT_FOUND", "VARIABLE_DELETED")


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
  """Whether an error of the server says that it no longer has a dataset, or what that uses."""
  return error.reason in _GONE or error.reason in _USE_GONE


class _There:
  """A dataset on one server.

  Attributes:
    intermediate: of the formwork.Dataset.
    uses: [(Bound of what its functions use, whether they may change that)].
    generation: the bindings'.
  """

  def __init__(self, intermediate, uses, generation):
    self.intermediate = intermediate
    self.uses = uses
    self.generation = generation


def remote(bindings, variant, bind, anew=False):
  """The formwork.Dataset of an EagerTensor that is_one(): what is there, or a new one.

  Args:
    bind: gives the Bounds of the handles of what its functions use.
    anew: the server may have lost it.
  Errors: UNIMPLEMENTED where it cannot be sent.
  """
  server = bindings.server
  with bindings.lock:
    known = variant._formwork_datasets
    there = known.get(bindings)
    if there is not None and not anew and there.generation == bindings.generation and (
        there.intermediate.kept._key[0] == server._channel.epoch):
      return there.intermediate.kept
    graph_def, output, used = _graph_of(variant)
    bounds = bind([use.handle for use in used])
    if anew:
      bindings.reattach(bounds)
    made = server._do(data.keeping_graphs_dataset(
        server, graph_def, output, None, None, keep_for=intermediates.KEEP_FOR,
        resources={use.name + ":0": b.remote for use, b in zip(used, bounds)}))
    known[bindings] = _There(intermediates.Intermediate(made),
                             [(b, use.written) for use, b in zip(used, bounds)],
                             bindings.generation)
    return made


def uses(bindings, variant):
  """[(Bound, whether it may be changed)] of what functions of a dataset use that is remote()."""
  return variant._formwork_datasets[bindings].uses


def _graph_of(variant):
  """What makes a dataset: the serialized GraphDef, the name of the output, and its _Uses.

  Each _Use has a placeholder of its name.
  """
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
    elif node.op in _HANDLES:
      handle = nodes[node.input[-1]]
      handle.Clear()
      handle.name, handle.op = node.input[-1], _HANDLES[node.op]
  used = []
  if any(n.op in _CAPTURED or _is_handle(n) for n in graph_def.node):
    used = _feed_uses(graph_def, variant)
  kept = _reached(nodes, output)
  for node in kept:
    kind = _CAPTURED.get(node.op, "a resource" if _is_handle(node) else None)
    if kind:
      raise errors.Error("UNIMPLEMENTED", "a dataset that is captured or an argument has a function "
                         "that uses %s: make the dataset inside the function" % kind)
  cut = graph_pb2.GraphDef(node=kept, library=graph_def.library, versions=graph_def.versions)
  for use in used:
    placeholder = cut.node.add(name=use.name, op="Placeholder")
    placeholder.attr["dtype"].type = types_pb2.DT_RESOURCE
  return tracing.normal_bytes(cut), output if ":" in output else output + ":0", used


def _is_handle(node):
  """Whether it is what stands for a handle of which TensorFlow knows no more."""
  return node.op == "Const" and node.attr["dtype"].type == types_pb2.DT_RESOURCE


def _reached(nodes, output):
  """Those that a tensor is made of, in the order of {name: node}."""
  found, open_ = set(), [output]
  while open_:
    name = open_.pop().lstrip("^").partition(":")[0]
    if name in nodes and name not in found:
      found.add(name)
      open_.extend(nodes[name].input)
  return [node for name, node in nodes.items() if name in found]


class _Use:
  """What a function of a dataset has captured: its handle, whether it may change what is behind
  it, and the name of a placeholder for it."""

  def __init__(self, handle, written, name):
    self.handle, self.written, self.name = handle, written, name


def _feed_uses(graph_def, variant):
  """Feeds the captured handles to the functions of a dataset's graph. Returns their _Uses.

  TensorFlow's graph has copies of what is behind them. Whose they are is known by the functions'
  names: the Python objects of the datasets have the functions, and these what they have captured.
  """
  functions = _functions_of(variant)
  used = {}  # By the handle's id.
  for node in graph_def.node:
    names = [a.func.name for a in node.attr.values() if a.HasField("func")]
    if not names or any(name not in functions for name in names):
      continue
    handles = [captured for name in sorted(names, key=lambda n: functions[n].place)
               for captured in functions[name].handles]
    places = [i for i, t in enumerate(_input_types(node)) if t == types_pb2.DT_RESOURCE]
    if len(handles) != len(places):
      continue
    for i, (handle, written) in zip(places, handles):
      use = used.setdefault(id(handle), _Use(handle, False, "formwork_use_%d" % len(used)))
      use.written |= written
      node.input[i] = use.name
  return list(used.values())


# place: among the functions of its dataset; handles: [(handle, whether it may write by it)].
_Function = collections.namedtuple("_Function", ["place", "handles"])


def _functions_of(variant):
  """The functions of a dataset, and of those below it: {name: _Function}."""
  found, seen = {}, set()
  open_ = [_python_dataset(variant)]
  while open_:
    dataset = open_.pop()
    if dataset is None or id(dataset) in seen:
      continue
    seen.add(id(dataset))
    open_.extend(dataset._inputs())
    for place, wrapper in enumerate(dataset._functions()):
      traced = wrapper.function
      read_only = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(
          traced.graph))
      first = len(traced.graph.inputs) - len(traced.captured_inputs)
      found[tracing.function_name(traced)] = _Function(place, [
          (t, first + i not in read_only) for i, t in enumerate(traced.captured_inputs)
          if t.dtype == tf_dtypes.resource])
      open_.extend(_python_dataset(t) for t in traced.captured_inputs
                   if t.dtype == tf_dtypes.variant)
  return found


def _python_dataset(variant):
  """The tf.data.Dataset that has an EagerTensor; None where there is none."""
  for holder in gc.get_referrers(variant):
    for owner in gc.get_referrers(holder) if isinstance(holder, dict) else [holder]:
      if isinstance(owner, dataset_ops.DatasetV2) and (
          getattr(owner, "_variant_tensor_attr", None) is variant):
        return owner
  return None


def _input_types(node):
  """The dtypes of a node's inputs that carry data, by their numbers."""
  made = []
  for arg in op_def_registry.get(node.op).input_arg:
    if arg.type_list_attr:
      made.extend(node.attr[arg.type_list_attr].list.type)
    else:
      count = node.attr[arg.number_attr].i if arg.number_attr else 1
      made.extend([arg.type or node.attr[arg.type_attr].type] * count)
  return made


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
    uses: what functions of that use, as uses() has it.
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
        server, name, remote(self.bindings, self.variant, self._bind, anew), None, self._spec))
    try:
      iterator = made(False)
    except errors.Error as e:
      if not is_gone(e):
        raise
      iterator = made(True)
    iterator.existed = False
    self.uses = uses(self.bindings, self.variant)
    return iterator

  def _bind(self, handles):
    from formwork import handles as handles_lib  # Which knows iterators.
    return self.bindings.bind([handles_lib.variable_of(h) for h in handles], "") if handles else []

  def next(self):
    """The server's next element: an EagerTensor for each component."""
    self.bindings.before_call([b for b, _ in self.uses])
    try:
      values = self.bindings.again_if_lost([self], lambda: self.remote.next(timeout=math.inf))
    except errors.Error as e:
      raise errors.for_tensorflow(e) from None
    finally:
      changed = [b for b, written in self.uses if written]
      for b in changed:
        b.mark_stale()
      self.bindings.after_call(changed)
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
