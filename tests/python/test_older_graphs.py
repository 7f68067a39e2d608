"""Graphs with the control flow and the tensor arrays of TensorFlow 1: Switch, Merge, Enter, Exit.

Each is run by a Session and by the server: what they give must agree.
"""
import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.ops import data_flow_ops

import formwork

v1 = tf.compat.v1
GRAPHS = {}
WITH_REFERENCES = {}


@contextlib.contextmanager
def _older_control_flow():
  v1.disable_control_flow_v2()
  try:
    yield
  finally:
    v1.enable_control_flow_v2()


def graph(*feeds):
  """Adds a graph that is run once for each of the feeds: lists of the placeholders' values."""
  def add(build):
    GRAPHS[build.__name__] = build, feeds
    return build
  return add


def of_references(*feeds):
  """The same of a graph whose handles are references, which functions cannot have."""
  def add(build):
    WITH_REFERENCES[build.__name__] = build, feeds
    return build
  return add


def _ops(graph_def):
  nodes = list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]
  return {n.op for n in nodes}


def _dtype(x):
  with tf.init_scope():
    return tf.constant(x).dtype


def _built(build, feeds):
  """(graph, placeholders, tensors) of a build(placeholders...)."""
  made = tf.Graph()
  with made.as_default(), _older_control_flow():
    inputs = [v1.placeholder(_dtype(x), [None] * np.ndim(x), name="x%d" % i)
              for i, x in enumerate(feeds)]
    outputs = [tf.identity(y) for y in tf.nest.flatten(build(*inputs))]
  return made, inputs, outputs


def _registered(server, name, graph_def, inputs, outputs):
  specs = [formwork.TensorSpec(x.name, x.dtype.name, x.shape.as_list()) for x in inputs]
  return server.register(name, graph_def.SerializeToString(), specs, [y.name for y in outputs])


def _agree(got, want):
  assert len(got) == len(want)
  for a, b in zip(got, want):
    if np.asarray(b).dtype.kind in "fc":
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    else:
      np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------------ branches
@graph([2.], [-3.])
def one_branch(x):
  return tf.cond(x > 0., lambda: (x * 2., tf.constant(1)), lambda: (-x, tf.constant(2)))


@graph([2.], [-3.], [20.])
def branches_in_branches(x):
  inner = lambda: tf.cond(x > 10., lambda: x / 10., lambda: tf.cond(x > 1., lambda: x, lambda: x + 7.))
  return tf.cond(x > 0., inner, lambda: tf.constant(-1.)), tf.cond(x > 10., lambda: x, inner)


@graph([2.], [-3.])
def branches_of_one_predicate_behind_each_other(x):
  p = x > 0.
  a = tf.cond(p, lambda: x * 2., lambda: x * 3.)
  b = tf.cond(p, lambda: a + 1., lambda: a - 1.)
  c = tf.cond(tf.logical_not(p), lambda: b, lambda: a * b)
  return a, b, c


@graph([2., True], [2., False])
def a_branch_gives_what_it_was_given(x, p):
  return tf.cond(p, lambda: x, lambda: tf.zeros([])), tf.cond(p, lambda: p, lambda: p)


@graph([2], [0], [1], [7])
def cases(i):
  return tf.case([(tf.equal(i, k), lambda k=k: tf.constant(10. * k)) for k in range(3)],
                 default=lambda: tf.constant(-1.), exclusive=True)


@graph([[1., 2.]], [[5.]])
def what_is_checked(x):
  checks = [v1.assert_less(x, 10.), v1.assert_rank(x, 1)]
  with tf.control_dependencies(checks):
    return tf.reduce_sum(x)


@graph([b"a"], [b""])
def texts_in_branches(x):
  return tf.cond(tf.equal(x, ""), lambda: tf.constant("none"), lambda: tf.strings.join([x, x]))


# --------------------------------------------------------------------------------------- loops
@graph([5, 1.5], [0, 1.5])
def one_loop(n, x):
  return tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * x), [0, x])


@graph([4, 3])
def loops_in_loops(n, m):
  def outer(i, total):
    inner = tf.while_loop(lambda j, t: j < m + i, lambda j, t: (j + 1, t + i * j), [0, total])
    return i + 1, inner[1]
  return tf.while_loop(lambda i, total: i < n, outer, [0, 0])


@graph([6, 1.5], [1, -1.5])
def branches_in_loops(n, x):
  def body(i, a):
    a = tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: tf.cond(a > 2., lambda: a - 1., lambda: a))
    return i + 1, a
  return tf.while_loop(lambda i, a: tf.logical_and(i < n, a < 100.), body, [0, x])


@graph([6, 1.5], [1, -1.5])
def loops_in_branches(n, x):
  return tf.cond(x > 0., lambda: tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * x),
                                               [0, x])[1],
                 lambda: tf.while_loop(lambda a, b: a < 3., lambda a, b: (a + 1., b), [x, n])[0])


@graph([[1., 2., 3.]])
def a_loop_of_another_shape_each_time(x):
  return tf.while_loop(lambda a: tf.size(a) < 20, lambda a: tf.concat([a, a * 2.], 0), [x],
                       shape_invariants=[tf.TensorShape([None])])


@graph([3])
def a_loop_that_decides_by_what_it_prints(n):
  def body(i):
    with tf.control_dependencies([tf.print("older graphs:", i)]):
      return i + 1
  return tf.while_loop(lambda i: i < n, body, [0])


@graph([[1., 2., 3., 4.]])
def sums_by_scan(x):
  return (tf.scan(lambda a, y: a * 0.5 + y, x), tf.map_fn(lambda y: y * y, x),
          tf.foldl(lambda a, y: a - y, x), tf.foldr(lambda a, y: a * y + 1., x))


@graph([[[1., 2.], [3., 4.], [5., 6.]]])
def arrays(x):
  a = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False, clear_after_read=False)
  a = a.unstack(x)
  a = a.write(3, x[0] * 2.)
  b = tf.TensorArray(tf.float32, size=2, infer_shape=False, clear_after_read=False,
                     element_shape=[None, 2]).split(x, [1, 2])
  return a.stack(), a.size(), a.gather([3, 1]), b.concat(), b.read(1), b.size()


@graph([np.float32(np.arange(24).reshape(2, 4, 3) / 24), [4, 2]])
def a_recurrent_layer(x, lengths):
  cell = lambda x, state: (tf.tanh(x @ tf.ones([3, 3]) * .1 + state), ) * 2
  state = tf.zeros([2, 3])
  arrays = tf.TensorArray(tf.float32, 4).unstack(tf.transpose(x, [1, 0, 2]))
  out = tf.TensorArray(tf.float32, 4)

  def step(i, state, out):
    y, new = cell(arrays.read(i), state)
    alive = (i < lengths)[:, None]
    y = tf.where(alive, y, tf.zeros_like(y))
    return i + 1, tf.where(alive, new, state), out.write(i, y)

  _, state, out = tf.while_loop(lambda i, *_: i < 4, step, [0, state, out])
  return out.stack(), state


# ------------------------------------------------------------------------- queues and barriers
@of_references([[1., 2., 3.]])
def barriers(x):
  barrier = data_flow_ops.Barrier((tf.float32, tf.string), shapes=((), ()), name="barrier")
  steps = []

  def then(make):
    with tf.control_dependencies(tf.nest.flatten(steps[-1:])):
      steps.append(make())

  keys = tf.constant(["a", "b", "c"])
  then(lambda: barrier.insert_many(0, keys, x))
  then(lambda: [barrier.incomplete_size(), barrier.ready_size()])
  then(lambda: barrier.insert_many(1, keys[1:], ["of b", "of c"]))
  then(lambda: barrier.take_many(1))
  then(lambda: barrier.insert_many(0, ["d", "b"], x[:2]))
  then(lambda: barrier.insert_many(1, ["d", "a"], ["of d", "of a"]))
  then(barrier.close)
  then(lambda: barrier.take_many(2, allow_small_batch=True))
  then(lambda: [barrier.ready_size(), barrier.incomplete_size()])
  then(lambda: barrier.take_many(5, allow_small_batch=True))
  return [s for s in steps if not isinstance(s, tf.Operation)]


@of_references([[1., 2., 3.]])
def queues_of_references(x):
  queue = tf.raw_ops.FIFOQueue(component_types=[tf.float32], shapes=[[]])
  put = tf.raw_ops.QueueEnqueueMany(handle=queue, components=[x])
  with tf.control_dependencies([put]):
    size = tf.raw_ops.QueueSize(handle=queue)
  with tf.control_dependencies([size]):
    taken = tf.raw_ops.QueueDequeueMany(handle=queue, n=2, component_types=[tf.float32])
  return size, taken


@of_references([["a", "b", "?"]])
def tables_of_references(words):
  raw, steps = tf.raw_ops, []

  def then(make):
    with tf.control_dependencies(tf.nest.flatten(steps[-1:])):
      steps.append(make())

  kinds = dict(key_dtype=tf.string, value_dtype=tf.int64)
  static = raw.HashTable(**kinds)
  mutable = raw.MutableHashTable(**kinds)
  rows = raw.MutableHashTableOfTensors(**kinds, value_shape=[2])
  none, two = tf.constant(-1, tf.int64), tf.constant([-1, -1], tf.int64)
  find = lambda table, keys, default: lambda: raw.LookupTableFind(
      table_handle=table, keys=keys, default_value=default)
  then(lambda: raw.InitializeTable(table_handle=static, keys=["a", "b"],
                                   values=tf.constant([1, 2], tf.int64)))
  then(find(static, words, none))
  then(lambda: raw.LookupTableInsert(table_handle=mutable, keys=words,
                                     values=tf.constant([4, 5, 6], tf.int64)))
  then(find(mutable, ["b", "c"], none))
  then(lambda: raw.LookupTableImport(table_handle=mutable, keys=["c"],
                                     values=tf.constant([7], tf.int64)))
  then(lambda: list(raw.LookupTableExport(table_handle=mutable, Tkeys=tf.string, Tvalues=tf.int64)))
  then(lambda: raw.LookupTableInsert(table_handle=rows, keys=words[:1],
                                     values=tf.constant([[8, 9]], tf.int64)))
  then(find(rows, words, two))
  then(lambda: raw.LookupTableSize(table_handle=mutable))
  return [s for s in tf.nest.flatten(steps) if not isinstance(s, tf.Operation)]


@pytest.mark.parametrize("name", sorted(GRAPHS) + sorted(WITH_REFERENCES))
def test_graphs_agree(live, name):
  build, feeds = GRAPHS.get(name) or WITH_REFERENCES[name]
  made, inputs, outputs = _built(build, feeds[0])
  assert _ops(made.as_graph_def()) & {"Merge", "TensorArrayV3", "Barrier", "FIFOQueue", "HashTable"}
  f = _registered(live, name, made.as_graph_def(), inputs, outputs)
  with v1.Session(graph=made) as session:
    for values in feeds:
      values = [np.asarray(x, y.dtype.as_numpy_dtype) for x, y in zip(values, inputs)]
      _agree(f(*values), session.run(outputs, dict(zip(inputs, values))))


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_functions_of_them_agree(live, name):
  """As the bodies of functions, whose edges have other names."""
  build, feeds = GRAPHS[name]
  made, inputs, outputs = _built(build, feeds[0])
  wrapped = v1.wrap_function(
      lambda: v1.import_graph_def(made.as_graph_def(), name=""), []).prune(
          [x.name for x in inputs], [y.name for y in outputs])
  call = tf.function(lambda *args: wrapped(*args), autograph=False)
  f = live.function(call)
  for values in feeds:
    values = [tf.constant(x, y.dtype) for x, y in zip(values, inputs)]
    _agree(tf.nest.flatten(f(*values)), tf.nest.flatten(call(*values)))


# -------------------------------------------------------------------------------------- effects
@pytest.mark.parametrize("resource", [True, False])
def test_variables_change_in_branches_and_loops(live, resource):
  made = tf.Graph()
  with made.as_default(), _older_control_flow():
    x = v1.placeholder(tf.float32, [], name="x")
    v = v1.get_variable("v", [], use_resource=resource, initializer=v1.zeros_initializer())
    w = v1.get_variable("w", [], use_resource=resource, initializer=v1.ones_initializer())
    start = [op.name for op in (v.initializer, w.initializer)]
    def neither():
      with tf.control_dependencies([v.assign(-x)]):
        return w.assign(x)
    chosen = tf.cond(x > 1., lambda: v.assign_add(x), neither).op
    def body(i):
      with tf.control_dependencies([w.assign_add(x)]):
        return i + 1
    with tf.control_dependencies([chosen]):
      count = tf.identity(tf.while_loop(lambda i: i < 3, body, [0]))
    with tf.control_dependencies([count]):
      seen = [tf.negative(v.read_value()), tf.negative(w.read_value())]
    seen_now = tf.negative(v.read_value())
  graph_def = made.as_graph_def().SerializeToString()
  begin = live.register("begin", graph_def, [], [], targets=start)
  spec = [formwork.TensorSpec("x:0", "float32", [])]
  step = live.register("step", graph_def, spec, [y.name for y in [count] + seen])
  with v1.Session(graph=made) as session:
    session.run(start)
    begin()
    for value in [2., .5, 3., 0.]:
      _agree(step(np.float32(value)), session.run([count] + seen, {x: value}))
  # As targets, of which nothing is fetched.
  choose = live.register("choose", graph_def, spec, [], targets=[chosen.name])
  choose(np.float32(.25))
  look = live.register("look", graph_def, [], [seen_now.name])
  assert look()[0] == .25


def test_only_what_is_in_the_branch_fails(live):
  made = tf.Graph()
  with made.as_default(), _older_control_flow():
    x = v1.placeholder(tf.int32, [], name="x")
    y = tf.cond(x > 0, lambda: 7 // x, lambda: x)
    with tf.control_dependencies([v1.assert_less(x, 5, message="too much")]):
      y = tf.identity(y)
  f = _registered(live, "f", made.as_graph_def(), [x], [y])
  assert f(np.int32(0))[0] == 0 and f(np.int32(3))[0] == 2
  with pytest.raises(formwork.Error, match="too much"):
    f(np.int32(6))


# --------------------------------------------------------------------------------- frozen graphs
def _frozen(f, *specs):
  frozen = convert_to_constants.convert_variables_to_constants_v2(
      tf.function(f).get_concrete_function(*specs))
  assert "Merge" in _ops(frozen.graph.as_graph_def())
  return frozen


def test_what_was_frozen_agrees(live):
  v = tf.Variable(2.)

  def f(x, n):
    def body(i, a):
      return i + 1, tf.cond(a > 10., lambda: a * .5, lambda: a * x)
    i, a = tf.while_loop(lambda i, a: i < n, body, [0, x])
    b = tf.switch_case(n, [lambda: x, lambda: -a, lambda: tf.zeros([])])
    return i, a, b, tf.cond(x > 1., lambda: v * a, lambda: v + 2.)

  frozen = _frozen(f, tf.TensorSpec([]), tf.TensorSpec([], tf.int32))
  made = _registered(live, "f", frozen.graph.as_graph_def(), frozen.inputs, frozen.outputs)
  for x, n in [(1.5, 7), (.5, 2), (3., 0), (3., 1), (3., -1)]:
    want = tf.nest.flatten(f(tf.constant(x), tf.constant(n)))
    _agree(made(np.float32(x), np.int32(n)), [y.numpy() for y in want])


def test_a_frozen_recurrent_model_agrees(live):
  keras.utils.set_random_seed(1)
  model = keras.Sequential([keras.layers.Input([5, 3]),
                            keras.layers.LSTM(4, return_sequences=True),
                            keras.layers.GRU(3)])
  frozen = _frozen(lambda x: model(x), tf.TensorSpec([None, 5, 3]))
  made = _registered(live, "f", frozen.graph.as_graph_def(), frozen.inputs, frozen.outputs)
  x = np.random.default_rng(1).random([4, 5, 3], np.float32)
  _agree(made(x), [model(x).numpy()])


# ------------------------------------------------------------------------------------- bad input
def _node(name, op, *inputs, **attrs):
  node = v1.NodeDef(name=name, op=op, input=inputs)
  for key, value in attrs.items():
    if isinstance(value, tf.DType):
      node.attr[key].type = value.as_datatype_enum
    elif isinstance(value, bool):
      node.attr[key].b = value
    elif isinstance(value, int):
      node.attr[key].i = value
    else:
      node.attr[key].s = value
  return node


def _nodes(*nodes):
  f, p = dict(dtype=tf.float32), dict(dtype=tf.bool)
  return v1.GraphDef(node=[_node("x", "Placeholder", **f), _node("p", "Placeholder", **p),
                           _node("q", "Placeholder", **p), *nodes])


T = dict(T=tf.float32)
SWITCH = _node("s", "Switch", "x", "p", **T)
ENTER = _node("e", "Enter", "x", frame_name=b"l", **T)
LOOP = [ENTER, _node("m", "Merge", "e", "n", N=2, **T), _node("c", "LoopCond", "less"),
        _node("less", "Less", "m", "m", **T),
        _node("s", "Switch", "m", "c", **T), _node("n", "NextIteration", "s:1", **T),
        _node("y", "Exit", "s", **T)]
BAD = {
    "a Switch's value": ([SWITCH, _node("y", "Neg", "s:1", **T)], "'y'"),
    "a Merge of one branch": ([SWITCH, _node("y", "Merge", "s:1", "s:1", N=2, **T)],
                              "node 'y': Merge: its inputs are not those of a predicate's branches"),
    "a Merge without branches": ([_node("y", "Merge", "x", "x", N=2, **T)], "node 'y': Merge"),
    "a Merge of three": ([SWITCH, _node("y", "Merge", "s", "s:1", "s", N=3, **T)], "of a predicate's branches"),
    "a Switch without predicate": ([_node("s", "Switch", "x", **T),
                                    _node("y", "Merge", "s", "s:1", N=2, **T)], "number of inputs"),
    "a Switch without T": ([_node("s", "Switch", "x", "p"),
                            _node("y", "Merge", "s", "s:1", N=2, **T)], "'s': Switch: attr 'T'"),
    "predicates beside each other": (
        [SWITCH, _node("r", "Switch", "x", "q", **T), _node("a", "AddV2", "s:1", "r:1", **T),
         _node("y", "Merge", "s", "a", N=2, **T)], "two predicates"),
    "a predicate that is no truth value": (
        [_node("s", "Switch", "x", "x", **T), _node("y", "Merge", "s", "s:1", N=2, **T)], ""),
    "an Enter without Exit": ([ENTER, _node("y", "Neg", "e", **T)], "LoopCond"),
    "an Exit without Enter": ([_node("y", "Exit", "x", **T)], "it stands in no loop"),
    "an Exit of another value": (LOOP[:-1] + [_node("y", "Exit", "m", **T)], "what ends the loop"),
    "an Enter without name": ([_node("e", "Enter", "x", **T)] + LOOP[1:], "frame_name"),
    "a loop without condition": ([ENTER, _node("m", "Merge", "e", "n", N=2, **T),
                                  _node("n", "NextIteration", "m", **T),
                                  _node("y", "Exit", "m", **T)], "LoopCond"),
    "other dtypes": (LOOP[:5] + [_node("z", "Cast", "s:1", SrcT=tf.float32, DstT=tf.int32),
                                 _node("n", "NextIteration", "z", T=tf.int32), LOOP[6]], "dtype"),
    "a circle": ([_node("s", "Switch", "y", "p", **T), _node("y", "Merge", "s", "s:1", N=2, **T)],
                 ""),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_graphs_are_refused(live, name):
  nodes, text = BAD[name]
  specs = [formwork.TensorSpec("x:0", "float32", []), formwork.TensorSpec("p:0", "bool", []),
           formwork.TensorSpec("q:0", "bool", [])]
  with pytest.raises(formwork.Error, match=text) as raised:
    live.register("f", _nodes(*nodes).SerializeToString(), specs, ["y:0"])
  assert raised.value.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED")


def test_deep_nests_are_refused(live):
  nodes = [_node("p", "Placeholder", dtype=tf.bool), _node("x0", "Placeholder", **T)]
  x = "x0"
  for i in range(200):
    nodes.append(_node("p%d" % i, "IsFinite", x, **T))
    nodes.append(_node("s%d" % i, "Switch", x, "p%d" % i, **T))
    x = "s%d:1" % i
  nodes.append(_node("y", "Neg", x, **T))
  graph_def = v1.GraphDef(node=nodes)
  with pytest.raises(formwork.Error, match="more than 64 others"):
    live.register("f", graph_def.SerializeToString(), [formwork.TensorSpec("x0:0", "float32", [])],
                  ["y:0"])


def test_stacks_of_handles_are_refused(live):
  v = tf.Variable(1.)

  @live.function
  def f():
    stack = tf.raw_ops.StackV2(max_size=-1, elem_type=tf.resource)
    tf.raw_ops.StackPushV2(handle=stack, elem=v.handle)
    handle = tf.raw_ops.StackPopV2(handle=stack, elem_type=tf.resource)
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

  with pytest.raises(tf.errors.UnimplementedError, match="a stack of handles"):
    f()
