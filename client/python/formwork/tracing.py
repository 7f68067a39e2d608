"""From what TensorFlow traced to what the server takes: graph bytes, the cut, the signature."""
import collections
import itertools
import json
import math
import re
import threading
import uuid
import weakref

from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.function.trace_type import default_types
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.framework import type_spec
from tensorflow.python.ops import resource_variable_ops

from formwork import python_functions
from formwork import types

# Attributes that hold names for TensorFlow's own gradient machinery, different in each process.
_OF_GRADIENTS = ("forward_function_name", "backward_function_name")
_PROCESS_ATTRS = ("_gradient_op_type",) + _OF_GRADIENTS
_NO_ATTR = attr_value_pb2.AttrValue()
_NUMBER = re.compile(r"_\d+(?=_|$)")
# Inputs that a loop's condition does not use carry the number of its function.
_REDUNDANT = re.compile(r"_\d+___redundant_placeholder")


# ------------------------------------------------------------------------------------------ graph
class Effects:
  """What a serialized GraphDef does besides its results, as far as the client has to know.

  Attributes:
    prints_to_stdout: all that tf.print writes is for stdout.
    random: it draws numbers that differ from call to call, without a variable.
    seeded: some of these come from seeds, so that tf.random.set_seed starts them afresh.
  """

  def __init__(self, graph_def):
    streams, self.random, self.seeded = set(), False, False
    parsed = graph_pb2.GraphDef.FromString(graph_def)
    for nodes in [parsed.node] + [f.node_def for f in parsed.library.function]:
      for node in nodes:
        if node.op == "PrintV2":
          streams.add(node.attr["output_stream"].s)
        elif node.op in python_functions.OPS:
          self.random = True  # What it does nobody knows.
        elif "seed2" in node.attr:
          self.random = True
          self.seeded |= bool(node.attr["seed"].i or node.attr["seed2"].i)
    self.prints_to_stdout = streams == {b"stdout"}


def graph_bytes(graph):
  """The serialized GraphDef of a FuncGraph, the same in every process that runs the same code.

  TensorFlow numbers library functions by what the process traced before; here they are numbered
  in the order in which the graph reaches them, and what it does not reach is left out.
  """
  return normal_bytes(graph.as_graph_def())


def normal_bytes(graph_def):
  """As graph_bytes(), of a GraphDef, which is changed."""
  library = {f.signature.name: f for f in graph_def.library.function}
  implementations = _Implementations(graph_def.library)
  gradients = {g.function_name: g.gradient_func for g in graph_def.library.gradient}
  renamed, taken, reached = {}, collections.Counter(), []
  waiting = collections.deque([graph_def.node])

  def reach(name):
    base = _NUMBER.sub("", name)
    renamed[name] = "%s_%d" % (base, taken[base])
    taken[base] += 1
    reached.append(name)
    waiting.append(library[name].node_def)

  while waiting:
    for node in waiting.popleft():
      for attr in _PROCESS_ATTRS:
        if attr in node.attr:
          del node.attr[attr]
      _call_gradient(node, gradients)
      if node.op in python_functions.OPS:
        python_functions.name_process(node)
      _sort_control_inputs(node)
      for holder in _function_names(node):
        name = holder.name
        if name not in library:
          continue
        if name not in renamed:
          reach(name)
          for other in implementations.besides(library[name]):
            if other not in renamed:
              reach(other)
        holder.name = renamed[name]
  functions = []
  for name in reached:
    function = library[name]
    function.signature.name = renamed[name]
    control_outputs = sorted(function.signature.control_output)
    function.signature.control_output[:] = control_outputs
    for arg in function.signature.input_arg:
      if _REDUNDANT.search(arg.name):
        _rename_input(function, arg, _REDUNDANT.sub("___redundant_placeholder", arg.name))
    implementations.name(function)
    for attr in _PROCESS_ATTRS:
      if attr in function.attr:
        del function.attr[attr]
    copy = type(function)()
    copy.CopyFrom(function)
    functions.append(copy)
  del graph_def.library.function[:]
  del graph_def.library.gradient[:]
  graph_def.library.function.extend(functions)
  return graph_def.SerializeToString(deterministic=True)


class _Implementations:
  """Functions that do the same on different devices, of which a server takes its device's."""

  def __init__(self, library):
    self._of_api = collections.defaultdict(list)
    self._names = {}  # APIs' names are random; they get others.
    for function in library.function:
      if api := self._api(function):
        device = function.attr.get("api_preferred_device", _NO_ATTR).s
        self._of_api[api].append((device, function.signature.name))

  @staticmethod
  def _api(function):
    """Empty where there is none. What is part of a gradient has another's types, and stays."""
    if any(attr in function.attr for attr in _OF_GRADIENTS):
      return b""
    return function.attr.get("api_implements", _NO_ATTR).s

  def besides(self, function):
    """The names of those that do what a function does."""
    return [name for _, name in sorted(self._of_api.get(self._api(function), ()))]

  def name(self, function):
    """Gives what a function implements a name that is the same in every process."""
    api = self._api(function)
    if api:
      function.attr["api_implements"].s = self._names.setdefault(api, b"%d" % len(self._names))
    elif "api_implements" in function.attr:
      del function.attr["api_implements"]


def _call_gradient(node, gradients):
  """Makes a SymbolicGradient a call of the gradient that the library names."""
  if node.op == "SymbolicGradient" and node.attr["f"].func.name in gradients:
    node.op = "PartitionedCall"
    node.attr["f"].func.name = gradients[node.attr["f"].func.name]


def _sort_control_inputs(node):
  """Their order means nothing, and comes from a set."""
  control = [i for i in node.input if i.startswith("^")]
  if len(control) > 1:
    node.input[:] = [i for i in node.input if not i.startswith("^")] + sorted(control)


def _rename_input(function, arg, name):
  for node in function.node_def:
    for i, used in enumerate(node.input):
      if used == arg.name:
        node.input[i] = name
  for key, used in function.ret.items():
    if used == arg.name:
      function.ret[key] = name
  arg.name = name


class _OpName:
  """A node whose op may be a library function, seen as something that has a name."""

  def __init__(self, node):
    self._node = node

  @property
  def name(self):
    return self._node.op

  @name.setter
  def name(self, value):
    self._node.op = value


def _function_names(node):
  """What names a function in a node: its op, and its function attributes in a fixed order."""
  yield _OpName(node)
  for key in sorted(node.attr):
    value = node.attr[key]
    kind = value.WhichOneof("value")
    if kind == "func":
      yield value.func
    elif kind == "list":
      yield from value.list.func


def function_name(concrete):
  """The name that a tf.data function has in graphs."""
  name = concrete.name
  return name.decode() if isinstance(name, bytes) else name


# -------------------------------------------------------------------------------------- signature
_CLIENT = uuid.uuid4().hex


class _Objects:
  """Counters for opaque Python objects: the same object has the same one as long as it lives."""

  def __init__(self):
    self._counters = itertools.count()
    self._known = {}  # id -> (weak reference, counter)
    self._lock = threading.Lock()

  def counter(self, value):
    with self._lock:
      known = self._known.get(id(value))
      if known is None or known[0]() is not value:
        known = (weakref.ref(value), next(self._counters))
        self._known[id(value)] = known
      return known[1]


_OBJECTS = _Objects()


def signature(function_type):
  """The formwork.FunctionType of TensorFlow's."""
  flat = _Flat()
  # Keyword-only parameters come last among the flat inputs, in the order of their names.
  made = {p.name: _type_json(p.type_constraint, flat)
          for p in function_type._sorted_parameters}
  parameters = [{"name": p.name, "kind": p.kind.name.lower(), "optional": p.optional,
                 "type": made[p.name]} for p in function_type.parameters.values()]
  j = {"parameters": parameters}
  if function_type.output is not None:
    j["result"] = _type_json(function_type.output, _Flat())
  return types.FunctionType.from_json(j)


class _Flat:
  """Places among the flat inputs; a variable that occurs again keeps its first one."""

  def __init__(self):
    self._next, self._aliases = 0, {}

  def take(self, alias=None):
    if alias is not None and alias in self._aliases:
      return self._aliases[alias]
    place = self._next
    self._next += 1
    if alias is not None:
      self._aliases[alias] = place
    return place


def shape_list(shape):
  """A tf.TensorShape as a list with None where unknown; None for unknown rank."""
  return None if shape.rank is None else shape.as_list()


def _tensor_json(spec):
  return {"dtype": spec.dtype.name, "shape": shape_list(spec.shape)}


def _literal_json(value):
  if value is default_types.NanMarker:
    return {"kind": "literal", "py": "float", "value": "nan"}
  plain = value is None or isinstance(value, (bool, int, str)) or (
      isinstance(value, float) and math.isfinite(value))
  if plain:
    try:
      json.dumps(value)
    except TypeError:
      plain = False
  return {"kind": "literal", "py": type(value).__name__, "value": value if plain else repr(value)}


def _composite_json(spec, flat):
  j = {"kind": "composite", "class": type(spec).__qualname__.split("<locals>.")[-1],
       "spec": repr(spec)}
  components = spec.flatten()
  j["components"] = [_tensor_json(c) for c in components]
  j["flat"] = [flat.take() for _ in components]
  if type(spec).__name__ in ("RaggedTensorSpec", "SparseTensorSpec"):
    j.update(_tensor_json(spec))
    if type(spec).__name__ == "RaggedTensorSpec":
      j["ragged_rank"] = spec.ragged_rank
      j["row_splits_dtype"] = spec.row_splits_dtype.name
  return j


def _type_json(t, flat):
  if isinstance(t, tensor_lib.TensorSpec):
    return {"kind": "tensor", "flat": flat.take(), **_tensor_json(t)}
  if isinstance(t, resource_variable_ops.VariableSpec):
    return {"kind": "variable", "trainable": bool(t.trainable), "alias_id": t.alias_id or 0,
            "flat": flat.take(("variable", t.alias_id)), **_tensor_json(t)}
  if isinstance(t, default_types.Literal):
    return _literal_json(t.value)
  if isinstance(t, default_types.Weakref):
    value = t._ref()
    return {"kind": "object", "class": type(value).__name__, "client": _CLIENT,
            "id": _OBJECTS.counter(value)}
  if isinstance(t, (default_types.Tuple, default_types.List)):
    inner = t if isinstance(t, default_types.Tuple) else t.components_tuple
    return {"kind": "list" if isinstance(t, default_types.List) else "tuple",
            "items": [_type_json(c, flat) for c in inner.components]}
  if isinstance(t, default_types.Dict):
    keys = sorted(t.mapping)
    return {"kind": "dict", "keys": [k if isinstance(k, (str, int, bool)) else repr(k)
                                     for k in keys],
            "items": [_type_json(t.mapping[k], flat) for k in keys]}
  if isinstance(t, default_types.NamedTuple):
    return {"kind": "namedtuple", "name": t.type_name, "fields": list(t.attribute_names),
            "items": [_type_json(c, flat) for c in t.attributes.components]}
  if isinstance(t, default_types.Attrs):
    return {**_type_json(t.named_attributes, flat), "kind": "attrs"}
  if isinstance(t, type_spec.TypeSpec):
    return _composite_json(t, flat)
  for _ in t.flatten():
    flat.take()
  return {"kind": "other", "text": repr(t)}
