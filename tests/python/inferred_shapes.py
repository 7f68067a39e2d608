"""The shapes that are inferred of every tensor of the graphs that a program traces, against TensorFlow's.

formwork_infer_shapes (tests/ops/infer_shapes.cc) tells ours. They may not contradict TensorFlow's; and
where TensorFlow's shape functions know more of an op's results, of inputs of which we know as much, the
op stands here with the reason.
"""
import collections
import contextlib
import subprocess

import tensorflow as tf
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import importer
from tensorflow.python.ops import handle_data_util

# {op: why TensorFlow's shapes are wrong}.
CONTRADICTS = {
    "Eig": "without vectors TensorFlow says [0] of them, and its kernel gives a scalar",
    "FractionalAvgPool": "a sequence of borders has one more than there are regions",
    "FractionalMaxPool": "the same",
    "FusedBatchNormGradV3": "TensorFlow says [0] of two results that are scalars where oneDNN computes",
    "SelfAdjointEigV2": "the same as Eig",
    "Svd": "the same as Eig",
}
# {op: why less is known of its results than TensorFlow knows}.
KNOWS_LESS = {
    "Equal": "TensorFlow sees that two unknown dimensions are the same one, so that they broadcast",
    "TensorListElementShape": "a list may declare less than what is known of its items",
}


class ShapeInference:
  """formwork_infer_shapes as a process, and what has been compared with it."""

  def __init__(self, folder):
    self.graphs = self.tensors = 0
    self.ops = set()  # Of the graphs.
    self.excepted = collections.Counter()  # By op.
    self._process = subprocess.Popen([str(folder / "formwork_infer_shapes")],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    printed = subprocess.run([str(folder / "formwork_print_ops")], capture_output=True, text=True,
                             check=True).stdout
    self._ops = {line.split("\t")[0] for line in printed.splitlines()}

  def close(self):
    self._process.stdin.close()
    assert self._process.wait(10) == 0

  def check(self, graph):
    """Fails where what is inferred of a FuncGraph's tensors is wrong, or too little."""
    self.ops.update(op.type for op in graph.get_operations())
    tensors = self._comparable(graph)
    if not tensors:
      return
    ours = self._infer(graph, tensors)
    self.graphs += 1
    self.tensors += len(tensors)
    wrong = [(t, t.shape) for t in tensors if not ours[t.name].is_compatible_with(t.shape)]
    wrong = [(t, want) for t, want in wrong if not self._is_excepted(t, CONTRADICTS)]
    # What follows from an input of which less is known is not the op's fault.
    less = {t.name for t in tensors if _knows_less(ours[t.name], t.shape)}
    less = [t for t in tensors if t.name in less and not any(i.name in less for i in t.op.inputs)]
    if less:
      theirs = _inferred_by_tensorflow(graph)
      wrong += [(t, theirs[t.name]) for t in less if _knows_less(ours[t.name], theirs[t.name]) and
                not self._is_excepted(t, KNOWS_LESS)]
    assert not wrong, "\n".join(
        "%s of %s: %s, not %s; inputs: %s" % (
            t.op.type, t.name, ours[t.name], want,
            ", ".join("%s %s" % (i.op.type, ours.get(i.name, i.shape)) for i in t.op.inputs))
        for t, want in wrong)

  def _is_excepted(self, tensor, exceptions):
    self.excepted[tensor.op.type] += 1
    return tensor.op.type in exceptions

  def _comparable(self, graph):
    """The tensors of which all that they are computed from can be imported."""
    made, without = [], set()
    fed = {t.op for t in graph.inputs}
    for op in graph.get_operations():
      if op in fed:
        continue
      if op.type == "Placeholder" or op.type not in self._ops or (
          any(t.op in without for t in op.inputs)):
        without.add(op)
      else:
        made += [t for t in op.outputs if t.dtype != tf.resource]
    return made

  def _infer(self, graph, tensors):
    graph_def = graph.as_graph_def().SerializeToString()
    lines = ["feed %s %d %s" % (t.name, t.dtype.as_datatype_enum, _text(_shape_of_feed(t)))
             for t in graph.inputs]
    lines += ["fetch " + t.name for t in tensors] + ["infer\n"]
    self._process.stdin.write(b"graph %d\n" % len(graph_def) + graph_def)
    self._process.stdin.write("\n".join(lines).encode())
    self._process.stdin.flush()
    answer = self._process.stdout.readline().decode().strip()
    assert not answer.startswith("error"), answer
    return dict(zip((t.name for t in tensors), map(_shape, answer.split(" "))))


@contextlib.contextmanager
def traced():
  """The FuncGraphs that are made meanwhile, of functions and of what loops and branches run."""
  made = []
  init = func_graph_lib.FuncGraph.__init__

  def noting(self, *args, **kwargs):
    init(self, *args, **kwargs)
    made.append(self)

  func_graph_lib.FuncGraph.__init__ = noting
  try:
    yield made
  finally:
    func_graph_lib.FuncGraph.__init__ = init


def _shape_of_feed(tensor):
  """What is known of a graph's input; of a handle, the shape of its variable."""
  if tensor.dtype != tf.resource:
    return tensor.shape
  handle = handle_data_util.get_resource_handle_data(tensor)
  if handle.is_set and len(handle.shape_and_type) == 1:
    return tf.TensorShape(handle.shape_and_type[0].shape)
  return tf.TensorShape(None)


def _text(shape):
  return "?" if shape.rank is None else "[%s]" % ",".join(
      "?" if d is None else str(d) for d in shape)


def _shape(text):
  if text == "?":
    return tf.TensorShape(None)
  return tf.TensorShape([None if d == "?" else int(d) for d in text[1:-1].split(",") if d])


def _knows_less(ours, theirs):
  if theirs.rank is None or ours.rank is None:
    return theirs.rank is not None
  return any(a is None and b is not None for a, b in zip(ours, theirs))


def _inferred_by_tensorflow(graph):
  """{name of a tensor: shape}, by TensorFlow's shape functions: without what Python code has set,
  and of lists that are fed without their elements' shapes, which nobody tells a server."""
  anew = func_graph_lib.FuncGraph("anew")
  with anew.as_default():
    feeds = {}
    for t in graph.inputs:
      feeds[t.name] = tf.raw_ops.Placeholder(dtype=t.dtype, shape=t.shape)
      if t.dtype == tf.resource:
        handle_data_util.copy_handle_data(t, feeds[t.name])
    importer.import_graph_def(graph.as_graph_def(), input_map=feeds, name="")
  return {t.name: t.shape for op in anew.get_operations() for t in op.outputs}
