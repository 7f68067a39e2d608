"""Graphs that nobody would trace: each is refused or served soon, in little memory.

Others go on meanwhile.
"""
import threading
import time

import formwork
import harness
import memory
import numpy as np
import tensorflow as tf

GIB = 1 << 30
FLOAT = tf.float32.as_datatype_enum


def _node(nodes, name, op, *inputs, **attrs):
  """Adds a NodeDef; attrs as in the proto's fields: T=dict(type=1)."""
  node = nodes.add(name=name, op=op, input=inputs)
  for key, value in attrs.items():
    node.attr[key].MergeFrom(tf.compat.v1.AttrValue(**value))


def _placeholder(graph):
  _node(graph.node, "x", "Placeholder", dtype=dict(type=FLOAT), shape=dict(shape={}))


def _function(graph, name):
  """A FunctionDef of a float to a float, y = its input, without nodes."""
  function = graph.library.function.add()
  function.signature.name = name
  function.signature.input_arg.add(name="x", type=FLOAT)
  function.signature.output_arg.add(name="y", type=FLOAT)
  function.ret["y"] = "x"
  return function


def _call(nodes, name, function, argument):
  _node(nodes, name, "PartitionedCall", argument, f=dict(func=dict(name=function)),
        Tin=dict(list=dict(type=[FLOAT])), Tout=dict(list=dict(type=[FLOAT])))


def many_nodes():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  last = "x"
  for i in range(200_000):
    name = "n%d" % i
    graph.node.add(name=name, op="Neg", input=[last]).attr["T"].type = FLOAT
    last = name
  return graph, last + ":0"


def many_into_one():
  """A chain whose nodes are all inputs of one."""
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  names = ["x"]
  for i in range(300_000):
    _node(graph.node, "n%d" % i, "Neg", names[-1], T=dict(type=FLOAT))
    names.append("n%d" % i)
  _node(graph.node, "y", "AddN", *names, T=dict(type=FLOAT), N=dict(i=len(names)))
  return graph, "y:0"


def wide_node():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  n = 1_000_000
  _node(graph.node, "y", "AddN", *["x"] * n, T=dict(type=FLOAT), N=dict(i=n))
  return graph, "y:0"


def deep_functions(count=100_000):
  """Each negates what the one below makes of its input."""
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  for i in range(count):
    function = _function(graph, "f%d" % i)
    if i:
      _call(function.node_def, "c", "f%d" % (i - 1), "x")
      _node(function.node_def, "n", "Neg", "c:output:0", T=dict(type=FLOAT))
      function.ret["y"] = "n:y:0"
  _call(graph.node, "y", "f%d" % (count - 1), "x")
  return graph, "y:0"


def doubling_functions():
  """Each calls the one below twice: 2^100 calls of the last."""
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  for i in range(100):
    function = _function(graph, "f%d" % i)
    if i:
      _call(function.node_def, "c", "f%d" % (i - 1), "x")
      _call(function.node_def, "d", "f%d" % (i - 1), "c:output:0")
      function.ret["y"] = "d:output:0"
  _call(graph.node, "y", "f99", "x")
  return graph, "y:0"


def recursion():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  function = _function(graph, "f")
  _call(function.node_def, "c", "f", "x")
  function.ret["y"] = "c:output:0"
  _call(graph.node, "y", "f", "x")
  return graph, "y:0"


def many_branches():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  branches = []
  for i in range(100_000):
    name = "b%d" % i
    _node(_function(graph, name).node_def, "n", "Neg", "x", T=dict(type=FLOAT))
    branches.append(dict(name=name))
  _node(graph.node, "i", "Const", dtype=dict(type=3),
        value=dict(tensor=tf.make_tensor_proto(7, tf.int32)))
  _node(graph.node, "y", "Case", "i", "x", Tin=dict(list=dict(type=[FLOAT])),
        Tout=dict(list=dict(type=[FLOAT])), branches=dict(list=dict(func=branches)))
  return graph, "y:0"


def handles_between_loops(count=4000):
  """Each handle that comes out of the first loop may be any that went in."""
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  resource = tf.resource.as_datatype_enum
  types = dict(list=dict(type=[FLOAT] + [resource] * count))
  for name in ("cond", "body"):
    function = graph.library.function.add()
    function.signature.name = name
    function.signature.input_arg.add(name="x", type=FLOAT)
    for i in range(count):
      function.signature.input_arg.add(name="v%d" % i, type=resource)
    if name == "cond":
      _node(function.node_def, "l", "Less", "x", "x", T=dict(type=FLOAT))
      function.signature.output_arg.add(name="go", type=tf.bool.as_datatype_enum)
      function.ret["go"] = "l:z:0"
      continue
    for argument in list(function.signature.input_arg):
      function.signature.output_arg.add(name="new_" + argument.name, type=argument.type)
      function.ret["new_" + argument.name] = argument.name
  handles = []
  for i in range(count):
    handles.append("v%d" % i)
    _node(graph.node, handles[-1], "VarHandleOp", dtype=dict(type=FLOAT), shape=dict(shape={}),
          shared_name=dict(s=handles[-1].encode()))
  functions = dict(cond=dict(func=dict(name="cond")), body=dict(func=dict(name="body")), T=types)
  _node(graph.node, "a", "While", "x", *handles, **functions)
  _node(graph.node, "y", "While", "a", *["a:%d" % (i + 1) for i in range(count)], **functions)
  return graph, "y:0"


def cycle():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  _node(graph.node, "m", "Merge", "x", "s:1", T=dict(type=FLOAT), N=dict(i=2))
  _node(graph.node, "p", "Const", dtype=dict(type=10),
        value=dict(tensor=tf.make_tensor_proto(True)))
  _node(graph.node, "s", "Switch", "m", "p", T=dict(type=FLOAT))
  return graph, "s:0"


def plain_cycle():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  _node(graph.node, "a", "AddV2", "x", "b", T=dict(type=FLOAT))
  _node(graph.node, "b", "Neg", "a", T=dict(type=FLOAT))
  return graph, "b:0"


def long_name():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  name = "n" * (1 << 20)
  for i in range(50):
    _node(graph.node, "%s%d" % (name, i), "Neg", "x" if i == 0 else "%s%d" % (name, i - 1),
          T=dict(type=FLOAT))
  return graph, "%s49:0" % name


def long_list():
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  _node(graph.node, "y", "Bucketize", "x", T=dict(type=FLOAT),
        boundaries=dict(list=dict(f=list(range(10_000_000)))))
  return graph, "y:0"


def large_shapes():
  graph = tf.compat.v1.GraphDef()
  shape = dict(dim=[dict(size=1 << 62)] * 200)
  _node(graph.node, "x", "Placeholder", dtype=dict(type=FLOAT), shape=dict(shape=shape))
  _node(graph.node, "y", "EnsureShape", "x", T=dict(type=FLOAT), shape=dict(shape=shape))
  return graph, "y:0"


def large_constants():
  """A thousand constants of 256 MB, of a few bytes each."""
  graph = tf.compat.v1.GraphDef()
  _placeholder(graph)
  tensor = dict(dtype=FLOAT, tensor_shape=dict(dim=[dict(size=1 << 26)]), float_val=[1.0])
  names = []
  for i in range(1000):
    names.append("c%d" % i)
    _node(graph.node, names[-1], "Const", dtype=dict(type=FLOAT), value=dict(tensor=tensor))
  _node(graph.node, "y", "AddN", *names, T=dict(type=FLOAT), N=dict(i=len(names)))
  return graph, "y:0"


GRAPHS = [many_nodes, many_into_one, wide_node, deep_functions, doubling_functions, recursion,
          many_branches, handles_between_loops, cycle, plain_cycle, long_name, long_list,
          large_shapes, large_constants]


class Meanwhile:
  """Tiny calls in another namespace; `slowest`: seconds of the slowest."""

  def __init__(self, attack, server):
    client = attack.client(server, "other")
    self._tiny = client.register("tiny", *harness.graph(
        lambda x: x + 1, tf.TensorSpec([], tf.float32)))
    self.slowest = 0
    self._ends = False
    self._thread = threading.Thread(target=self._run)
    self._thread.start()
    attack.callback(self.end)

  def end(self):
    self._ends = True
    self._thread.join()

  def _run(self):
    while not self._ends:
      started = time.monotonic()
      self._tiny(np.float32(1), timeout=30)
      self.slowest = max(self.slowest, time.monotonic() - started)
      time.sleep(0.01)


@harness.attack("a dozen graphs made to hang, crash or bloat a registration; tiny calls meanwhile")
def registrations(attack):
  # Made before, so that the attacker's Python does not hold up the tiny calls.
  made = []
  for make in GRAPHS:
    graph, output = make()
    made.append((make.__name__, graph.SerializeToString(), output))
  server = attack.server()
  client = attack.client(server, timeout=60)
  meanwhile = Meanwhile(attack, server)
  before = server.resident_bytes()
  figures, failures = [], []
  for name, data, output in made:
    started = time.monotonic()
    try:
      call = client.register(name, data, [formwork.TensorSpec("x:0", "float32", None)],
                             [output])
      call(np.float32(1), timeout=5)
      said = "OK"
    except formwork.Error as error:
      said = error.code
    seconds = time.monotonic() - started
    grown = server.resident_bytes() - before
    figures.append((seconds, name))
    if seconds > 30 or grown > GIB:
      failures.append("%s: %s after %.1f s, %d MB more" % (name, said, seconds, grown >> 20))
    client.clear()
  meanwhile.end()
  attack.check(not failures, "; ".join(failures))
  attack.check(meanwhile.slowest < 2, "a tiny call took %.1f s meanwhile" % meanwhile.slowest)
  return "at most %.1f s (%s); tiny calls meanwhile at most %.0f ms" % (
      *max(figures), 1000 * meanwhile.slowest)


@harness.attack("a chain of 100,000 functions that call each other")
def deep_nest(attack):
  graph, output = deep_functions()
  data = graph.SerializeToString()
  server = attack.server()
  client = attack.client(server, timeout=60)
  before = memory.peak(server)
  started = time.monotonic()
  call = client.register("deep", data, [formwork.TensorSpec("x:0", "float32", [])], [output])
  registered = time.monotonic() - started
  started = time.monotonic()
  attack.check(float(call(np.float32(3))[0]) == -3, "a wrong result")
  seconds = time.monotonic() - started
  grown = memory.peak(server) - before
  attack.check(grown < GIB, "it took %s" % memory.mib(grown))
  return "%s of graph, registered in %.1f s, ran in %.0f ms, %s more" % (
      memory.mib(len(data)), registered, 1000 * seconds, memory.mib(grown))
