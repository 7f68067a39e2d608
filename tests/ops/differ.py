"""Runs ops on TensorFlow and on a server, and tells where they differ.

  FORMWORK_BIN=build/dev/bin build/venv/bin/python tests/ops/differ.py [--seed N] [--rounds N] [--op OP] [FAMILY...]

The calls are those of cases/<family>.py (no name: all), changed at random: dtypes that TensorFlow's
CPU kernels take, dimensions, ranks, values at which loops and conversions go wrong, attrs. Each is a
graph of one op; TensorFlow runs it in a process of its own, because some end it. What is printed
is a difference in values, or that one side fails and the other does not. EXPECTED names those
that are looked at no more, and why.
"""
import argparse
import collections
import importlib.util
import multiprocessing
import os
import pathlib
import resource
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import generate

Call = collections.namedtuple("Call", "op inputs attrs")  # inputs: for each arg a list of arrays

# {op: why it is not compared}; of ops in SHAPES only dtypes and shapes are.
EXPECTED = {
    "Round": "TensorFlow's kernel gives 0 for integers, which tf.round never hands to it",
    "CTCBeamSearchDecoder": "TensorFlow's doubles are as exact as floats",
    "CTCLoss": "TensorFlow's doubles are as exact as floats",
    "ResizeBicubicGrad": "TensorFlow's doubles are as exact as floats",
    "SparseSegmentMeanGrad": "TensorFlow does not write rows of gradients without segments",
    "SparseSegmentSqrtNGrad": "TensorFlow does not write rows of gradients without segments",
    "SparseSegmentSumGrad": "TensorFlow does not write rows of gradients without segments",
    "SparseAdd": "TensorFlow reads a threshold of another dtype as if it were of the values'",
    "Cholesky": "TensorFlow does not write the upper half of what has no decomposition",
    "LRN": "TensorFlow's sums of halves overflow",
}
SHAPES = {"Empty", "ExtractGlimpse", "ExtractGlimpseV2", "FakeParam"}

TOLERANCES = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 1e-4, "float64": 1e-9,
              "complex64": 1e-4, "complex128": 1e-9}
DIMS = (0, 1, 2, 3, 4, 5, 8, 17, 33)
# No denormals: TensorFlow's threads take them for 0.
FINITE = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 0.25, 7.0)
FLOATS = FINITE + (float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 65504.0, 1e-5)
# Families whose algorithms take infinities and NaNs each its way.
OF_FINITE = {"fft", "linalg", "conv", "conv3d", "batch_norm", "image", "image_color", "crop", "matmul"}
# What TensorFlow's CPU kernels do not do, and ours do.
LIMITS = ("NHWC", "NDHWC", "not yet support", "not support", "not supported", "only supports")


# ------------------------------------------------------------------------------------- calls
def recorded(family):
  """The calls of cases/<family>.py, whose inputs are plain values."""
  calls = []

  def record(op, *inputs, **attrs):
    for name in ("tolerance", "values", "comment", "text", "code"):
      attrs.pop(name, None)
    arrays = []
    for given in inputs:
      several = isinstance(given, (list, tuple)) and _is_list_arg(op, len(arrays))
      values = [generate._value(x) for x in (given if several else [given])]
      if any(not isinstance(x, generate.Value) or _quantized(x.array) for x in values):
        return
      arrays.append([_array(x) for x in values])
    if sum(x.size for given in arrays for x in given) <= 20000:
      calls.append(Call(op, arrays, attrs))

  generate.case = generate.error = record
  sys.modules["generate"] = generate
  spec = importlib.util.spec_from_file_location("cases_of_" + family,
                                                HERE / "cases" / (family + ".py"))
  spec.loader.exec_module(importlib.util.module_from_spec(spec))
  return calls


def _op_def(op):
  from tensorflow.python.framework import op_def_registry
  return op_def_registry.get(op)


def _is_list_arg(op, i):
  arg = _op_def(op).input_arg[i]
  return bool(arg.number_attr or arg.type_list_attr)


def _quantized(array):
  return array.dtype.fields is not None


def _array(value):
  return np.asarray(value.array)


def dtypes_of(op):
  """{attr: dtypes} that one of TensorFlow's CPU kernels takes, for each of them."""
  from tensorflow.python.framework import kernels
  found = []
  for kernel in kernels.get_registered_kernels_for_op(op).kernel:
    if kernel.device_type in ("CPU", "DEFAULT") and not kernel.label:
      found.append({c.name: list(c.allowed_values.list.type) for c in kernel.constraint})
  return found


class Changes:
  """Draws calls near one that is given."""

  def __init__(self, rng, floats):
    self.rng, self.floats = rng, floats
    self.kernels = {}

  def one_of(self, items):
    return items[int(self.rng.integers(len(items)))]

  def draw(self, call):
    inputs = [[x.copy() for x in given] for given in call.inputs]
    call = Call(call.op, inputs, dict(call.attrs))
    if self.rng.random() < 0.4:
      self.dtypes(call)
    for _ in range(int(self.rng.integers(0, 3))):
      self.one_of((self.dims, self.dims, self.one_dim, self.rank, self.elements, self.elements,
                   self.attr, self.attr))(call)
    return call

  def dtypes(self, call):
    import tensorflow as tf
    op_def = _op_def(call.op)
    known = self.kernels.setdefault(call.op, dtypes_of(call.op))
    if not known:
      return
    chosen = {name: tf.as_dtype(self.one_of(types))
              for name, types in self.one_of(known).items() if types}
    for name in list(chosen):
      if chosen[name].is_quantized or chosen[name] in (tf.resource, tf.variant):
        return
    for arg, given in zip(op_def.input_arg, call.inputs):
      if arg.type_attr in chosen:
        given[:] = [self.cast(x, chosen[arg.type_attr]) for x in given]
    inferred = {arg.type_attr for arg in op_def.input_arg}
    for attr in op_def.attr:
      if attr.name in chosen and attr.name not in inferred and attr.type == "type":
        call.attrs[attr.name] = chosen[attr.name]

  def cast(self, array, dtype):
    to = np.dtype(dtype.as_numpy_dtype)
    if array.dtype == to:
      return array
    if array.dtype == object:
      return self.rng.integers(0, 3, array.shape).astype(to)
    if to == object:
      return np.array([str(x).encode() for x in array.reshape(-1)],
                      object).reshape(array.shape)
    with np.errstate(all="ignore"):
      if array.dtype.kind == "c" and to.kind != "c":
        array = array.real
      return array.astype(to)

  def arrays(self, call):
    return [(given, i) for given in call.inputs for i in range(len(given))]

  @staticmethod
  def resized(array, axis, to):
    size = array.shape[axis]
    if size == 0:
      shape = list(array.shape)
      shape[axis] = to
      return np.full(shape, b"" if array.dtype == object else 0, array.dtype)
    return np.take(array, np.arange(to) % size, axis)

  def dims(self, call):
    """All dimensions of one size get another."""
    sizes = sorted({d for given, i in self.arrays(call) for d in given[i].shape})
    if not sizes:
      return
    size, to = self.one_of(sizes), self.one_of(DIMS)
    for given, i in self.arrays(call):
      for axis, d in enumerate(given[i].shape):
        if d == size and given[i].size // max(d, 1) * to <= 40000:
          given[i] = self.resized(given[i], axis, to)

  def one_dim(self, call):
    choices = [(given, i) for given, i in self.arrays(call) if given[i].ndim]
    if choices:
      given, i = self.one_of(choices)
      given[i] = self.resized(given[i], int(self.rng.integers(given[i].ndim)), self.one_of(DIMS))

  def rank(self, call):
    choices = self.arrays(call)
    if not choices:
      return
    every = self.rng.random() < 0.3
    one = self.one_of(choices)
    for given, i in choices if every else [one]:
      if given[i].ndim and self.rng.random() < 0.4 and given[i].shape[0]:
        given[i] = given[i][0]
      else:
        given[i] = np.stack([given[i]] * int(self.rng.integers(1, 3)))
      given[i] = np.asarray(given[i])

  def elements(self, call):
    choices = [(given, i) for given, i in self.arrays(call) if given[i].size]
    if not choices:
      return
    given, i = self.one_of(choices)
    flat = given[i].reshape(-1).copy()
    for _ in range(int(self.rng.integers(1, 4))):
      flat[int(self.rng.integers(flat.size))] = self.element(flat)
    given[i] = flat.reshape(given[i].shape)

  def element(self, flat):
    dtype = flat.dtype
    if dtype == object:
      return self.one_of((b"", b"a", b"-1", b"\xff\xfe", b"1e3", "\u4e2d".encode(), b" 7 "))
    if dtype.kind == "b":
      return bool(self.rng.integers(2))
    if dtype.kind in "iu":
      info = np.iinfo(dtype)
      top = int(flat.max())
      if self.rng.random() < 0.1 and flat.size > 4:
        return self.one_of((info.min, info.max))
      return int(np.clip(self.one_of((-2, -1, 0, 1, 2, 3, top, top + 1, -top, -top - 1)),
                         info.min, info.max))
    with np.errstate(all="ignore"):
      return np.asarray(self.one_of(self.floats)).astype(dtype)

  def attr(self, call):
    op_def = _op_def(call.op)
    inferred = {name for arg in op_def.input_arg
                for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    choices = [a for a in op_def.attr if a.name not in inferred and "type" not in a.type]
    if not choices:
      return
    attr = self.one_of(choices)
    old = call.attrs.get(attr.name)
    if old is None and attr.HasField("default_value"):
      old = generate._python(attr.type, attr.default_value)
    if attr.type == "bool":
      call.attrs[attr.name] = not old
    elif attr.type == "string" and attr.allowed_values.list.s:
      call.attrs[attr.name] = self.one_of([s.decode() for s in attr.allowed_values.list.s])
    elif attr.type == "int" and old is not None:
      call.attrs[attr.name] = self.one_of((old + 1, old - 1, 0, 1, -1, 2, 3))
    elif attr.type == "float" and old is not None:
      call.attrs[attr.name] = self.one_of((0.0, 1.0, -1.0, old * 2, old / 2, float("nan"), 1e-7))
    elif attr.type == "list(int)" and old:
      values = list(old)
      values[int(self.rng.integers(len(values)))] = self.one_of((0, 1, 2, 3, -1))
      call.attrs[attr.name] = values


# ------------------------------------------------------------------------------- TensorFlow
def _answer(call, send):
  """Sends the graph, and then what TensorFlow makes of it."""
  import tensorflow as tf
  from tensorflow.python.framework import op_def_library
  op_def = _op_def(call.op)
  feeds, arguments = {}, dict(call.attrs)
  graph = tf.Graph()
  try:
    with graph.as_default(), tf.device("/CPU:0"):
      for i, (arg, given) in enumerate(zip(op_def.input_arg, call.inputs)):
        nodes = []
        for array in given:
          known = array.shape if generate.NEEDS_SHAPE & {arg.name, call.op} else None
          node = tf.compat.v1.placeholder(tf.as_dtype(array.dtype), known)
          feeds[node] = array
          nodes.append(node)
        arguments[arg.name] = nodes if _is_list_arg(call.op, i) else nodes[0]
      inferred = {name for arg in op_def.input_arg
                  for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
      for attr in op_def.attr:
        if attr.HasField("default_value") and attr.name not in inferred:
          arguments.setdefault(attr.name, generate._python(attr.type, attr.default_value))
      op_def_library.apply_op(call.op, name="case", **arguments)
  except (NotImplementedError, TypeError, ValueError, tf.errors.OpError) as error:
    return send(("no call", str(error)))
  node = graph.get_operation_by_name("case")
  if not node.outputs or any(x.dtype in (tf.variant, tf.resource) or x.dtype.is_quantized
                             for x in node.outputs):
    return send(("no call", "of no plain results"))
  send((graph.as_graph_def().SerializeToString(), [x.name for x in feeds], list(feeds.values()),
        [x.name for x in node.outputs]))
  config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1,
                                    intra_op_parallelism_threads=1)
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  with tf.compat.v1.Session(graph=graph, config=config) as session:
    try:
      return send([_as_array(x) for x in session.run(list(node.outputs), feeds)])
    except (tf.errors.OpError, ValueError, MemoryError) as error:
      return send(generate._clean(getattr(error, "message", str(error)) or str(error)))


def _tensorflow_process(pipe):
  resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
  generate._tensorflow()
  while True:
    _answer(pipe.recv(), pipe.send)


class TensorFlow:
  """TensorFlow in a process that is started again where a call has ended it."""

  def __init__(self):
    self.process = None

  def start(self):
    context = multiprocessing.get_context("spawn")
    self.pipe, theirs = context.Pipe()
    self.process = context.Process(target=_tensorflow_process, args=(theirs,), daemon=True)
    self.process.start()
    theirs.close()

  def stop(self):
    if self.process is not None:
      self.process.kill()
      self.process.join()
      self.process = None

  def run(self, call, timeout=60):
    """(graph, feeds' names, feeds, fetches) or None, and its results, an error's text, or None
    where it ended the process."""
    if self.process is None:
      self.start()
    self.pipe.send(call)
    made = None
    try:
      if not self.pipe.poll(timeout):
        raise EOFError
      made = self.pipe.recv()
      if made[0] == "no call":
        return None, None
      if not self.pipe.poll(timeout):
        raise EOFError
      return made, self.pipe.recv()
    except (EOFError, ConnectionError):
      self.stop()
      return made, None


# ---------------------------------------------------------------------------------- the server
class Server:
  def __init__(self, folder):
    self.folder, self.process, self.count = folder, None, 0

  def start(self):
    import conftest
    import formwork
    self.count += 1
    self.log = os.path.join(self.folder, "log%d" % self.count)
    self.process, target = conftest.start_server(conftest.find_server(), self.log)
    self.client = formwork.connect(target, namespace="differ", timeout=60)
    self.calls = 0

  def stop(self):
    if self.process is not None:
      self.process.kill()
      self.process.wait()
      self.process = None

  def run(self, made):
    """Its results, or an error as "CODE: text"."""
    import formwork
    if self.process is None:
      self.start()
    graph, names, arrays, fetches = made
    self.calls += 1
    try:
      function = self.client.register(
          "f%d" % self.calls, graph_def=graph, outputs=fetches,
          inputs=[formwork.TensorSpec(name, _name(x.dtype), None)
                  for name, x in zip(names, arrays)])
      result = function(*arrays)
      result = [_as_array(x) for x in (result if isinstance(result, (list, tuple)) else [result])]
    except formwork.Error as error:
      result = "%s: %s" % (error.code, error)
    if self.process.poll() is not None:
      result = "CRASH: %s" % pathlib.Path(self.log).read_text()[-600:]
      self.process = None
    elif self.calls % 200 == 0:
      self.client.clear()
    return result


def _as_array(x):
  return np.array(x, object) if isinstance(x, bytes) else np.asarray(x)


def _name(dtype):
  return "string" if dtype == object else dtype.name


# -------------------------------------------------------------------------------- comparison
def difference(got, want):
  """None, or in what they differ."""
  if want.dtype == object:
    if got.shape != want.shape:
      return "shape %s for %s" % (got.shape, want.shape)
    same = [a == b for a, b in zip(got.reshape(-1), want.reshape(-1))]
    return None if all(same) else "strings differ"
  if got.dtype != want.dtype or got.shape != want.shape:
    return "%s%s for %s%s" % (got.dtype, list(got.shape), want.dtype, list(want.shape))
  tolerance = TOLERANCES.get(want.dtype.name)
  if tolerance is None:
    if want.dtype.kind == "V":  # Those of one byte and less.
      got, want = got.astype(np.float32), want.astype(np.float32)
    bad = np.flatnonzero((got != want) & ~((got != got) & (want != want)))
  else:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
      g, w = (x.astype(wide).reshape(-1) for x in (got, want))
      if wide is np.complex128:
        g, w = (x.view(np.float64) for x in (g, w))
      finite = np.abs(w[np.isfinite(w)])
      slack = tolerance * (np.abs(w) + max(1.0, finite.max() if finite.size else 1.0))
      same = (g == w) | (np.isnan(g) & np.isnan(w)) | (
          np.isfinite(g) & np.isfinite(w) & (np.abs(g - w) <= slack))
    bad = np.flatnonzero(~same)
  if not bad.size:
    return None
  flat = (got.reshape(-1), want.reshape(-1))
  at = int(bad[0]) // (2 if want.dtype.kind == "c" else 1)
  return "%d of %d differ, at %d: %r for %r" % (bad.size, want.size, at, flat[0][at], flat[1][at])


def judged(call, ours, theirs):
  """(kind, text) of a difference, or None."""
  if isinstance(ours, str) and ours.startswith("CRASH"):
    return "crash", ours
  if theirs is None:
    return None  # TensorFlow is gone; ours is not.
  if isinstance(ours, str) and isinstance(theirs, str):
    return None
  if isinstance(ours, str):
    return "refused", ours
  if isinstance(theirs, str):
    if any(limit in theirs for limit in LIMITS):
      return None
    return "accepted", "TensorFlow: " + theirs
  for i, (got, want) in enumerate(zip(ours, theirs)):
    if call.op in SHAPES or _op_def(call.op).is_stateful:
      got, want = np.zeros(got.shape), np.zeros(want.shape)
    told = difference(got, want)
    if told:
      return "values", "output %d: %s" % (i, told)
  return None


def shown(call):
  def text(array):
    flat = array.reshape(-1)
    items = ", ".join(str(x) for x in flat[:12]) + (", ..." if flat.size > 12 else "")
    return "%s%s(%s)" % (_name(array.dtype), list(array.shape), items)
  inputs = [text(g[0]) if len(g) == 1 else "[%s]" % ", ".join(map(text, g)) for g in call.inputs]
  attrs = ["%s=%r" % (name, value) for name, value in call.attrs.items()]
  return "%s(%s)" % (call.op, ", ".join(inputs + attrs))


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("families", nargs="*")
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--rounds", type=int, default=1, help="how often each call is changed")
  parser.add_argument("--op", action="append")
  parser.add_argument("--kinds", default="values,refused,accepted,crash")
  parser.add_argument("--most", type=int, default=3, help="differences that are shown of an op")
  args = parser.parse_args()
  families = args.families or sorted(x.stem for x in (HERE / "cases").glob("*.py"))
  if not generate.ONEDNN_FAMILIES.isdisjoint(families) and len(families) == 1:
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"  # As tests/ops/generate.py has it.
  tensorflow, counts, ran = TensorFlow(), collections.Counter(), 0
  with tempfile.TemporaryDirectory() as folder:
    server = Server(folder)
    for family in families:
      rng = np.random.default_rng([args.seed, *family.encode()])
      changes = Changes(rng, FINITE if family in OF_FINITE else FLOATS)
      calls = recorded(family)
      for call in [x for x in calls for _ in range(args.rounds)]:
        if (args.op and call.op not in args.op) or call.op in EXPECTED:
          continue
        call = changes.draw(call)
        made, theirs = tensorflow.run(call)
        if made is None:
          continue
        ran += 1
        found = judged(call, server.run(made), theirs)
        if found and found[0] in args.kinds:
          counts[call.op, found[0]] += 1
          if counts[call.op, found[0]] <= args.most:
            print("%s\n  %s: %s" % (shown(call)[:1500], *found), flush=True)
    server.stop()
  tensorflow.stop()
  print("%d calls of %s; differences:" % (ran, " ".join(families)))
  for (op, kind), count in sorted(counts.items()):
    print("  %-40s %-9s %d" % (op, kind, count))


if __name__ == "__main__":
  main()
