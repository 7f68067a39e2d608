"""Writes tests/ops/<family>.optest: op cases whose outputs come from TensorFlow's CPU kernels.

  build/venv/bin/python tests/ops/generate.py FAMILY...     (no name: all families)

The calls are listed in tests/ops/cases/<family>.py:

  from generate import bits, case, error, tensor, uniform

  case("MatMul", [[1., 2.]], [[3.], [4.]])                   # inputs in the OpDef's order ...
  case("MatMul", uniform([64, 96]), uniform([96, 8], seed=2), transpose_b=False)   # ... then attrs
  case("AddN", [[1., 2.], [3., 4.]], tolerance="rel 1e-6")   # an input N*T is a list of values
  error("MatMul", [[1.]], [[1.], [2.]], text="Matrix size-incompatible")

  case("TensorListLength", tensor_list("float", [[1.], None]))          # None: not set
  case("OptionalHasValue", optional([1.], 2))                           # ... of two components
  case("SparseMatrixNNZ", csr([2, 3], [[0, 1], [1, 2]], [5., 6.]))      # where entries are, values
  case("AssignAddVariableOp", variable([1., 2.]), [10., 20.])           # ... and what it is after
  case("LookupTableSizeV2", table(["a", "b"], [1, 2]))

Python floats are float32, ints int32, bytes and str strings; tensor("half", [1, 2]) names a dtype.
"""
import importlib.util
import os
import re
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Plain kernels: their NaNs and ties are the rule. But for these families they take less than
# TensorFlow does as it is installed.
ONEDNN_FAMILIES = {"batch_norm", "conv"}
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1" if ONEDNN_FAMILIES & set(sys.argv) else "0")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
LARGE = 600  # Outputs of more elements are sampled.
SAMPLES = 48
# Ops of graphs before version 9.
OLD_OPS = {"BatchNormWithGlobalNormalization", "BatchNormWithGlobalNormalizationGrad"}
# Inputs, and ops, whose shapes TensorFlow wants to know when it builds the op.
NEEDS_SHAPE = {"block_shape", "ApproxTopK", "Dequantize", "ParallelConcat", "SparseTensorToCSRSparseMatrix",
               "DenseToCSRSparseMatrix", "CSRSparseMatrixComponents"}

_lines = []
_tf = None


def _tensorflow():
  global _tf
  if _tf is None:
    import tensorflow
    tensorflow.config.set_soft_device_placement(True)
    _tf = tensorflow
  return _tf


class Value:
  """An array, and how a case writes it (None: element by element)."""

  def __init__(self, dtype, array, text=None):
    self.dtype, self.array, self.text = dtype, array, text


def _numpy_dtype(name):
  return _tensorflow().as_dtype(name).as_numpy_dtype


def tensor(dtype, values, shape=None):
  """A value of the named dtype (TensorFlow's names; quantized ones from plain integers)."""
  np_dtype = np.dtype(_numpy_dtype(dtype)) if dtype != "string" else np.dtype(object)
  if np_dtype.fields:  # quantized: a record of one integer
    plain = np.asarray(values, np_dtype[0])
    array = plain.view(np_dtype).reshape(plain.shape)
  elif dtype == "string":
    array = np.asarray(values, object)
  else:
    array = np.asarray(values).astype(np_dtype)
  return Value(dtype, array if shape is None else array.reshape(shape))


def _splitmix(seed, n):
  with np.errstate(over="ignore"):
    z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def uniform(shape, low=-1, high=1, seed=1, dtype="float"):
  """Random values in [low, high), made alike by the C++ side; whole numbers where not floating."""
  tf_dtype = _tensorflow().as_dtype(dtype)
  n = int(np.prod(shape))
  draws = n * 2 if tf_dtype.is_complex else n
  numbers = low + (high - low) * ((_splitmix(seed, draws) >> np.uint64(11)) * 2.0**-53)
  if tf_dtype.is_complex:
    part = np.float32 if tf_dtype == _tf.complex64 else np.float64
    array = numbers.astype(part).view(tf_dtype.as_numpy_dtype)
  elif tf_dtype.is_floating:
    array = numbers if tf_dtype == _tf.float64 else numbers.astype(np.float32)
    array = array.astype(tf_dtype.as_numpy_dtype)
  else:
    array = tensor(dtype, np.floor(numbers).astype(np.int64)).array
  return Value(dtype, array.reshape(shape), "uniform(%r,%r) seed=%d" % (low, high, seed))


def _filled(maker, number):
  def make(shape, dtype="float"):
    return Value(dtype, tensor(dtype, np.full(shape, number)).array, maker)
  return make


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)


def bits(dtype, values):
  """A value of a dtype that cases write as raw bytes (the float8 kinds)."""
  raw = np.asarray(values, np.uint8)
  return Value(dtype, raw.view(_numpy_dtype(dtype)))


class TensorList:
  """A list; an item None is not set. `shape`: of its elements, None where it is unknown."""
  dtype, array = "variant", np.zeros([])

  def __init__(self, element_dtype, items, shape=None, limit=-1):
    self.element_dtype, self.shape, self.limit = element_dtype, shape, limit
    self.items = [None if x is None else tensor(element_dtype, x) for x in items]
    words = ["list", element_dtype]
    if shape is not None:
      words.append("shape=[%s]" % ",".join("?" if d is None else str(d) for d in shape))
    if limit >= 0:
      words.append("max=%d" % limit)
    words += ["none" if x is None else "(%s)" % _inner(x) for x in self.items]
    self.text = "(%s)" % " ".join(words)

  def node(self):
    raw, dtype = _tensorflow().raw_ops, _tf.as_dtype(self.element_dtype)
    shape = -1 if self.shape is None else np.int32([-1 if d is None else d for d in self.shape])
    if self.limit >= 0:
      made = raw.EmptyTensorList(element_shape=shape, max_num_elements=self.limit,
                                 element_dtype=dtype)
      for item in self.items:
        made = raw.TensorListPushBack(input_handle=made, tensor=_constant(item))
      return made
    made = raw.TensorListReserve(element_shape=shape, num_elements=len(self.items),
                                 element_dtype=dtype)
    for i, item in enumerate(self.items):
      if item is not None:
        made = raw.TensorListSetItem(input_handle=made, index=i, item=_constant(item))
    return made


tensor_list = TensorList


class Optional:
  """An optional of components; without any it has no value."""
  dtype, array = "variant", np.zeros([])

  def __init__(self, *components):
    self.components = [_value(x) for x in components]
    self.text = "(%s)" % " ".join(
        ["optional"] + ["(%s)" % (_inner(x) if isinstance(x, Value) else "variant " + x.text)
                        for x in self.components])

  def node(self):
    raw = _tensorflow().raw_ops
    if not self.components:
      return raw.OptionalNone()
    return raw.OptionalFromValue(components=[
        _constant(x) if isinstance(x, Value) else x.node() for x in self.components])


optional = Optional


class Csr:
  """A sparse matrix, or a batch of them."""
  dtype, array = "variant", np.zeros([])

  def __init__(self, shape, indices, values):
    self.shape = list(shape)
    self.indices = tensor("int64", np.asarray(indices, np.int64).reshape(-1, len(shape)))
    self.values = _value(values)
    self.text = "(csr [%s] (%s) (%s))" % (
        ",".join(map(str, self.shape)), _inner(self.indices), _inner(self.values))

  def node(self):
    raw = _tensorflow().raw_ops
    # TensorFlow wants to know the rank when it builds ops that take it, and may know no more.
    shape = raw.PlaceholderWithDefault(input=np.int64(self.shape), shape=[len(self.shape)])
    return raw.SparseTensorToCSRSparseMatrix(
        indices=_constant(self.indices), values=_constant(self.values), dense_shape=shape)


csr = Csr


class Variable:
  """A variable; `shape` as declared where that is not the value's; values None: no value."""
  dtype, array = "resource", np.zeros([])

  def __init__(self, values, dtype=None, shape=None):
    self.value = None if values is None else _value(values)
    self.element_dtype = dtype or self.value.dtype
    self.declared = shape
    self.shape = list(shape if shape is not None else self.value.array.shape)
    self.text = self._words(self.value)

  def _words(self, value):
    shape = "[%s]" % ",".join("?" if d is None else str(d) for d in self.shape)
    if value is None:
      return "(variable shape=%s %s none)" % (shape, self.element_dtype)
    declared = "shape=%s " % shape if self.declared is not None else ""
    return "(variable %s%s)" % (declared, _inner(value))

  def node(self):
    """The handle; `self.start` gives it its value."""
    raw, dtype = _tensorflow().raw_ops, _tf.as_dtype(self.element_dtype)
    self.handle = raw.VarHandleOp(dtype=dtype, shape=self.shape, shared_name="v%d" % id(self))
    self.start = self.handle.op if self.value is None else raw.AssignVariableOp(
        resource=self.handle, value=_constant(self.value))
    self.live = raw.VarIsInitializedOp(resource=self.handle)
    self.read = raw.ReadVariableOp(resource=self.handle, dtype=dtype)
    return self.handle

  def text_after(self, session):
    if not session.run(self.live):
      return self._words(None)
    return self._words(Value(self.element_dtype, np.asarray(session.run(self.read))))


variable = Variable


class Table:
  """A mutable hash table."""
  dtype, array = "resource", np.zeros([])

  def __init__(self, keys, values):
    self.keys, self.values = _value(keys), _value(values)
    self.text = self._words(self.keys, self.values)

  @staticmethod
  def _words(keys, values):
    return "(table %s -> %s)" % (_inner(keys), _inner(values))

  def node(self):
    raw = _tensorflow().raw_ops
    key, value = _tf.as_dtype(self.keys.dtype), _tf.as_dtype(self.values.dtype)
    shape, name = self.values.array.shape[1:], "t%d" % id(self)
    self.handle = raw.MutableHashTableV2(key_dtype=key, value_dtype=value, shared_name=name) \
        if not shape else raw.MutableHashTableOfTensorsV2(
            key_dtype=key, value_dtype=value, value_shape=shape, shared_name=name)
    self.start = raw.LookupTableInsertV2(
        table_handle=self.handle, keys=_constant(self.keys), values=_constant(self.values))
    self.read = raw.LookupTableExportV2(table_handle=self.handle, Tkeys=key, Tvalues=value)
    return self.handle

  def text_after(self, session):
    keys, values = session.run(list(self.read))
    order = np.argsort(keys, kind="stable")
    return self._words(Value(self.keys.dtype, keys[order]),
                       Value(self.values.dtype, values[order]))


table = Table


def _constant(value):
  return _tf.constant(value.array, _tf.as_dtype(value.dtype))


def _inner(value):
  """A value within parentheses."""
  head = value.dtype + ("[%s]" % ",".join(map(str, value.array.shape)) if value.array.ndim else "")
  return " ".join([head] + [_element(x, value.dtype) for x in value.array.reshape(-1)])


def _value(x):
  if isinstance(x, (Value, TensorList, Optional, Csr, Variable, Table)):
    return x
  array = np.asarray(x)
  if array.dtype == object or array.dtype.kind in "SU":
    return Value("string", np.asarray(x, object))
  if array.dtype == np.float64 and not isinstance(x, (np.ndarray, np.generic)):
    array = array.astype(np.float32)
  if array.dtype == np.int64 and not isinstance(x, (np.ndarray, np.generic)):
    array = array.astype(np.int32)
  return Value(_graph_name(_tensorflow().as_dtype(array.dtype)), array)


def _graph_name(tf_dtype):
  return _tf.dtypes.DType(tf_dtype.as_datatype_enum).name if tf_dtype.name not in (
      "float32", "float64", "float16") else {
          "float32": "float", "float64": "double", "float16": "half"}[tf_dtype.name]


def _quote(text):
  if isinstance(text, str):
    text = text.encode("utf-8", "surrogateescape")
  out = ""
  for byte in text:
    char = chr(byte)
    if char in '"\\':
      out += "\\" + char
    elif char == "\n":
      out += "\\n"
    elif char == "\t":
      out += "\\t"
    elif 32 <= byte < 127:
      out += char
    else:
      out += "\\x%02x" % byte
  return '"%s"' % out


def _number(x):
  x = float(x)
  if x != x:
    return "nan"
  if x in (float("inf"), float("-inf")):
    return "inf" if x > 0 else "-inf"
  return None


def _float(x, dtype):
  special = _number(x)
  if special:
    return special
  if dtype in ("half", "bfloat16", "float"):
    text = np.format_float_positional(np.float32(x), unique=True, trim="-")
    return text if len(text) < 12 else np.format_float_scientific(np.float32(x), trim="-")
  text = repr(float(x))
  return text[:-2] if text.endswith(".0") else text


def _element(x, dtype):
  if dtype == "string":
    return _quote(x)
  if dtype == "bool":
    return "true" if x else "false"
  if dtype == "complex64":
    return "(%s,%s)" % (_float(x.real, "float"), _float(x.imag, "float"))
  if dtype == "complex128":
    return "(%s,%s)" % (_float(x.real, "double"), _float(x.imag, "double"))
  if dtype.startswith("float8") or dtype.startswith("float4"):
    return "0x%02x" % np.asarray(x).view(np.uint8)
  if dtype in ("float", "double", "half", "bfloat16"):
    return _float(x, dtype)
  if isinstance(x, np.void):  # quantized
    x = x[0]
  return str(int(x))


def _wrap(line):
  if len(line) <= 100:
    return [line]
  out, current = [], ""
  for word in re.findall(r'"(?:\\.|[^"\\])*"\S*|\S+', line):
    if current and len(current) + 1 + len(word) > 100:
      out.append(current)
      current = "    " + word
    else:
      current = current + " " + word if current else word
  return out + [current]


def _text(keyword, dtype, array, maker=None):
  head = "%-3s %s%s" % (keyword, dtype,
                        "[%s]" % ",".join(map(str, array.shape)) if array.ndim else "")
  if maker:
    return _wrap("%s %s" % (head, maker))
  flat = array.reshape(-1)
  if keyword == "out" and flat.size > LARGE:
    at = _splitmix(flat.size, SAMPLES) % np.uint64(flat.size)
    flat = flat[at.astype(np.int64)]
    head += " sampled(%d)" % array.size
  line = " ".join([head] + [_element(x, dtype) for x in flat])
  return _wrap(line)


def _attr(kind, value):
  """An AttrValue as a case writes it; None where it is a function."""
  if kind.startswith("list("):
    inner = kind[5:-1]
    items = {"int": value.list.i, "float": value.list.f, "bool": value.list.b,
             "string": value.list.s, "type": value.list.type, "shape": value.list.shape,
             "tensor": value.list.tensor, "func": value.list.func}[inner]
    return "[%s]" % ",".join(_attr_scalar(inner, x) for x in items)
  field = {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type",
           "shape": "shape", "tensor": "tensor", "func": "func"}[kind]
  return _attr_scalar(kind, getattr(value, field))


def _attr_scalar(kind, x):
  if kind == "string":
    return _quote(x)
  if kind == "bool":
    return "true" if x else "false"
  if kind == "type":
    return _graph_name(_tf.as_dtype(x))
  if kind == "shape":
    if x.unknown_rank:
      return "?"
    return "[%s]" % ",".join("?" if d.size < 0 else str(d.size) for d in x.dim)
  if kind == "float":
    return _float(x, "float")
  if kind == "tensor":
    array = _tf.make_ndarray(x)
    return "(%s)" % " ".join(_text("", _graph_name(_tf.as_dtype(x.dtype)), array)).strip()
  if kind == "func":
    raise ValueError("op cases have no functions")
  return str(x)


def _python(kind, value):
  """A default value as apply_op takes it."""
  tf = _tensorflow()
  if kind.startswith("list("):
    lst, kind = value.list, kind[5:-1]
    items = {"int": lst.i, "float": lst.f, "bool": lst.b, "string": lst.s, "type": lst.type,
             "shape": lst.shape, "tensor": lst.tensor, "func": lst.func}[kind]
  else:
    items = [{"int": value.i, "float": value.f, "bool": value.b, "string": value.s,
              "type": value.type, "shape": value.shape, "tensor": value.tensor,
              "func": value.func}[kind]]
  if kind == "type":
    items = [tf.as_dtype(x) for x in items]
  return list(items) if value.HasField("list") else items[0]


def _clean(message):
  message = re.sub(r"\{\{[^}]*\}\}\s?", "", message)
  lines = [line for line in message.split("\n") if line.strip()]
  told = [line for line in lines if not re.match(
      r"Graph execution error|Node: |Detected at node|\t?Original stack|Errors may|\s*File |"
      r"\s*\[\[|<", line)]
  return (told or lines)[0].strip()


def _run(op, inputs, attrs):
  """(lines of op and inputs, outputs or None, the error or None)."""
  tf = _tensorflow()
  from tensorflow.python.framework import op_def_library, op_def_registry
  op_def = op_def_registry.get(op)
  if op_def is None:
    raise ValueError("no such op: %s" % op)
  if len(inputs) != len(op_def.input_arg):
    raise ValueError("%s takes %d inputs" % (op, len(op_def.input_arg)))
  feeds, flat, arguments = {}, [], dict(attrs)
  graph = tf.Graph()
  if op in OLD_OPS:
    from tensorflow.python.framework import test_util
    test_util.set_producer_version(graph, 8)
  with graph.as_default(), tf.device("/CPU:0"):
    for arg, given in zip(op_def.input_arg, inputs):
      several = bool(arg.number_attr or arg.type_list_attr)
      values = [_value(x) for x in given] if several else [_value(given)]
      flat += values
      nodes = []
      for value in values:
        if isinstance(value, Csr):
          nodes.append(value.node())
          continue
        if not isinstance(value, Value):
          # Through a placeholder, beyond which TensorFlow knows nothing when it builds the op.
          nodes.append(tf.raw_ops.PlaceholderWithDefault(input=value.node(), shape=[]))
          continue
        known = value.array.shape if NEEDS_SHAPE & {arg.name, op} else None
        node = tf.compat.v1.placeholder(tf.as_dtype(value.dtype), known)
        feeds[node] = value.array
        nodes.append(node)
      arguments[arg.name] = nodes if several else nodes[0]
    inferred = {name for arg in op_def.input_arg
                for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    for attr in op_def.attr:
      if attr.HasField("default_value") and attr.name not in inferred:
        arguments.setdefault(attr.name, _python(attr.type, attr.default_value))
    try:
      result = op_def_library.apply_op(op, name="case", **arguments)
    except ValueError as e:
      # So shapes are refused that have to be known when the op is built.
      words = ["%s=%s" % (name, str(x).lower().replace("none", "?").replace(" ", ""))
               for name, x in attrs.items()]
      lines = _wrap(" ".join(["op", op] + words))
      for value in flat:
        lines += _text("in", value.dtype, value.array, value.text)
      return lines, None, tf.errors.InvalidArgumentError(None, None, str(e))
  node = graph.get_operation_by_name("case")
  words = []
  for attr in op_def.attr:
    value = node.node_def.attr[attr.name]
    if attr.HasField("default_value") and value == attr.default_value:
      continue
    words.append("%s=%s" % (attr.name, _attr(attr.type, value)))
  lines = _wrap(" ".join(["op", op] + words))
  for value in flat:
    lines += _text("in", value.dtype, value.array, value.text)
  del result
  config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
  rewrites = config.graph_options.rewrite_options
  rewrites.disable_meta_optimizer = True
  resources = [value for value in flat if isinstance(value, (Variable, Table))]
  plain = [x for x in node.outputs if x.dtype != tf.variant]
  names = [_graph_name(tensor.dtype) for tensor in node.outputs]
  with tf.compat.v1.Session(graph=graph, config=config) as session:
    session.run([resource.start for resource in resources])
    try:
      fetched = iter(session.run(plain + [node], feeds)[:-1])  # Also where it has none.
      outputs = [next(fetched) if x.dtype != tf.variant else
                 _variant_of(graph, session, feeds, x, node, flat)
                 for x in node.outputs]
    except tf.errors.OpError as failure:
      return lines, None, failure
    after = [resource.text_after(session) for resource in resources]
  if after != [resource.text for resource in resources]:
    outputs += [Value("resource", np.zeros([]), text) for text in after]
    names += ["after"] * len(after)
  return lines, list(zip(names, outputs)), None


def _variant_of(graph, session, feeds, handle, node, inputs):
  """What a variant that the op makes holds: what its attrs say, or a list or an optional like the
  first of its inputs."""
  attrs = node.node_def.attr
  if "element_dtype" in attrs:
    return _list_of(graph, session, feeds, handle, node.get_attr("element_dtype"))
  if node.type.startswith("Optional"):
    dtypes = node.get_attr("Toutput_types") if "Toutput_types" in attrs else []
    return _optional_of(graph, session, feeds, handle, dtypes)
  if "SparseMatrix" in node.type:
    return _csr_of(graph, session, feeds, handle,
                   node.get_attr("type" if "type" in attrs else "T"))
  like = next(x for x in inputs if x.dtype == "variant")
  if isinstance(like, Optional):
    dtypes = [_tf.as_dtype(x.dtype) for x in like.components]
    return _optional_of(graph, session, feeds, handle, dtypes)
  return _list_of(graph, session, feeds, handle, _tf.as_dtype(like.element_dtype))


def _optional_of(graph, session, feeds, handle, dtypes):
  """What an optional that the graph makes holds."""
  raw = _tensorflow().raw_ops
  with graph.as_default(), _tf.device("/CPU:0"):
    if not session.run(raw.OptionalHasValue(optional=handle), feeds):
      return Optional()
    components = raw.OptionalGetValue(optional=handle, output_types=dtypes,
                                      output_shapes=[None] * len(dtypes))
    return Optional(*[Value(_graph_name(dtype), np.asarray(x))
                      for dtype, x in zip(dtypes, session.run(components, feeds))])


def _csr_of(graph, session, feeds, handle, dtype):
  """What a sparse matrix that the graph makes holds."""
  with graph.as_default(), _tf.device("/CPU:0"):
    parts = _tensorflow().raw_ops.CSRSparseMatrixToSparseTensor(sparse_matrix=handle, type=dtype)
    indices, values, shape = session.run(list(parts), feeds)
  return Csr(shape, indices, Value(_graph_name(dtype), values))


def _list_of(graph, session, feeds, handle, dtype):
  """What a list that the graph makes holds, item by item."""
  raw = _tensorflow().raw_ops
  with graph.as_default(), _tf.device("/CPU:0"):
    size, shape = session.run(
        [raw.TensorListLength(input_handle=handle),
         raw.TensorListElementShape(input_handle=handle, shape_type=_tf.int32)], feeds)
    items = []
    for i in range(size):
      item = raw.TensorListGetItem(input_handle=handle, index=i, element_shape=-1,
                                   element_dtype=dtype)
      try:
        items.append(session.run(item, feeds))
      except _tf.errors.InvalidArgumentError:  # Not set, and its shape is not known.
        items.append(None)
  dims = None if shape.ndim == 0 else [None if d < 0 else int(d) for d in shape]
  return TensorList(_graph_name(dtype), items, dims)


def case(op, *inputs, tolerance=None, values=True, comment=None, **attrs):
  """A call that TensorFlow answers. values=False: only dtypes and shapes are compared. A tolerance
  that is a number is the op's attr of that name."""
  if isinstance(tolerance, float):
    attrs["tolerance"], tolerance = tolerance, None
  lines, outputs, failure = _run(op, inputs, attrs)
  if failure is not None:
    raise ValueError("%s: TensorFlow fails: %s" % (lines, _clean(failure.message)))
  if comment:
    _lines.append("# " + comment)
  _lines.extend(lines)
  if tolerance:
    _lines.append("tolerance " + tolerance)
  for dtype, array in outputs:
    if dtype == "after":
      _lines.extend(_text("after", "resource", array.array, array.text))
    elif dtype == "variant":
      _lines.extend(_text("out", dtype, array.array, array.text))
    else:
      # As an object: NumPy's own strings end before their last zeros.
      array = np.array(array, object) if isinstance(array, bytes) else np.asarray(array)
      _lines.extend(_text("out", dtype, array, None if values else "any"))
  _lines.append("")


def documented(op, *inputs, outputs, **attrs):
  """A call of an op that TensorFlow has no kernel of the CPU for, and what it is to make."""
  lines, _, failure = _run(op, inputs, attrs)
  if failure is None:
    raise ValueError("%s: TensorFlow does not fail" % lines)
  _lines.extend(lines)
  for output in map(_value, outputs):
    _lines.extend(_text("out", output.dtype, output.array, getattr(output, "text", None)))
  _lines.append("")


def error(op, *inputs, text, code=None, comment=None, **attrs):
  """A call that fails. `text` is a part of our message; `code` only where it is not TensorFlow's
  or TensorFlow does not fail."""
  lines, _, failure = _run(op, inputs, attrs)
  if failure is None and code is None:
    raise ValueError("%s: TensorFlow does not fail" % lines)
  if failure is not None and text not in failure.message:
    print("%s: TensorFlow says: %s" % (lines[0], _clean(failure.message)), file=sys.stderr)
  if comment:
    _lines.append("# " + comment)
  _lines.extend(lines)
  if code is None:
    names = {3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 8: "RESOURCE_EXHAUSTED",
             9: "FAILED_PRECONDITION", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED", 13: "INTERNAL"}
    code = names[failure.error_code]
  _lines.append("error %s %s" % (code, _quote(text)))
  _lines.append("")


def _generate(family):
  _lines.clear()
  # By its path: "string" and "random" are names of Python's own modules.
  spec = importlib.util.spec_from_file_location(
      "cases_of_" + family, os.path.join(HERE, "cases", family + ".py"))
  spec.loader.exec_module(importlib.util.module_from_spec(spec))
  path = os.path.join(HERE, family + ".optest")
  with open(path, "w", encoding="ascii") as out:
    out.write("# Written by generate.py %s from cases/%s.py; expected: TensorFlow %s.\n\n" %
              (family, family, _tensorflow().__version__))
    out.write("\n".join(_lines))
  print("%s: %d cases" % (path, sum(line.startswith("op ") for line in _lines)))


if __name__ == "__main__":
  sys.modules["generate"] = sys.modules["__main__"]
  chosen = sys.argv[1:] or sorted(
      name[:-3] for name in os.listdir(os.path.join(HERE, "cases")) if name.endswith(".py"))
  if len(chosen) == 1:
    _generate(chosen[0])
  else:  # One process each: TensorFlow's settings are the process's.
    for name in chosen:
      subprocess.run([sys.executable, __file__, name], check=True)
