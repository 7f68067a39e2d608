"""tf.Variables here and variables on the server."""
import gc
import time
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.dtensor.python import d_variable

import formwork
from formwork import handles
from formwork import state


def _adds(server, v, **options):
  @server.function(**options)
  def f(x):
    v.assign_add(x)
  return f


def _names(server):
  return [v.name for v in server.variables()]


def test_variables_are_named_by_scope_and_name_and_never_shared(either):
  a, b, c = (tf.Variable(float(k), name="v") for k in range(3))
  for v in (b, a):
    _adds(either, v)(1.)
  _adds(either, c, scope="s")(1.)
  assert sorted(_names(either)) == ["s/v", "v", "v_1"]
  assert [v.numpy() for v in (a, b, c)] == [1, 2, 3]


def test_keras_variables_are_named_by_path(either):
  keras.backend.clear_session()
  model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, name="d")], name="m")
  optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

  @either.function
  def step(x):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(model(x))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

  step(tf.ones([1, 2]))
  assert {v.path for v in model.variables} < set(_names(either))
  assert set(_names(either)) - {v.path for v in model.variables} <= {
      v.path for v in optimizer.variables}


def test_a_second_process_attaches_and_says_so_once(fake, server, caplog):
  _adds(server, tf.Variable(5., name="v"))(1.)
  with formwork.connect(fake.target, namespace=server.namespace) as other:
    v, w = tf.Variable(0., name="v"), tf.Variable(0., name="w")
    f = _adds(other, v)
    f(1.)
    _adds(other, w)(1.)
    assert v.numpy() == 7 and len(other.variables()) == 2
  assert len([r for r in caplog.records if "attached to 1" in r.getMessage()]) == 1


def test_a_second_process_sends_no_graph_twice_and_finds_the_function(fake, server):
  def run(s):
    v = tf.Variable(tf.zeros([3]), name="v")

    @s.function
    def f(x):
      for _ in tf.range(3):
        v.assign_add(x)
      return v

    f(tf.ones([3]))
    return s.functions()

  first = run(server)
  for _ in range(5):  # What TensorFlow keeps in sets comes in another order now and then.
    with formwork.connect(fake.target, namespace=server.namespace) as other:
      assert [f.id for f in run(other)] == [f.id for f in first]


def test_another_shape_than_the_servers_is_refused(either):
  either.variable("v", initial_value=np.zeros([2], np.float32))
  with pytest.raises(formwork.Error) as e:
    _adds(either, tf.Variable([1., 2., 3.], name="v"))(tf.ones([3]))
  assert e.value.code == "INVALID_ARGUMENT" and "'v'" in e.value.message


def test_reads_and_assignments_here_follow_the_server(either):
  v = tf.Variable([1., 2.])
  f = _adds(either, v)
  f(tf.ones([2]))
  assert (v + 0.).numpy().tolist() == [2, 3]
  assert tf.reduce_sum(v).numpy() == 5
  f(tf.ones([2]))
  assert v.assign_add([1., 1.]).numpy().tolist() == [4, 5]
  f(tf.ones([2]))
  assert v.numpy().tolist() == [5, 6] and "5., 6." in repr(v)
  assert isinstance(v, tf.Variable) and type(v).__name__ == "ResourceVariable"


def test_push_overwrites_and_pull_fetches(fake, server):
  v = tf.Variable(1.)
  f = _adds(server, v)
  f(1.)
  server.push([v])
  assert server.variables()[0].read() == 1
  server.variables()[0].assign(9.)  # As another process would.
  assert v.numpy() == 1
  server.pull({"any": [v]})
  assert v.numpy() == 9
  with pytest.raises(formwork.Error) as e:
    server.pull(tf.Variable(0., name="unknown"))
  assert e.value.code == "NOT_FOUND"


def test_many_are_pushed_and_pulled_by_one_request(fake, server):
  many = [tf.Variable(float(k), name="v%d" % k) for k in range(5)]
  server.push(many)
  fake.log.clear()
  server.push(many)
  server.push()
  server.pull(many)
  sent = [m for m in fake.methods() if m != "ListVariables"]
  assert sent == ["AssignVariables", "AssignVariables", "ReadVariables"]


def test_push_creates_and_another_model_pulls(either):
  def model():
    keras.backend.clear_session()
    made = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3)], name="m")
    made.optimizer = None
    return made

  a = model()
  either.push(a)
  with formwork.connect(either._channel.target, namespace=either.namespace) as other:
    b = model()
    other.pull(b)
  for x, y in zip(a.get_weights(), b.get_weights()):
    assert (x == y).all()


def test_clear_starts_afresh(either):
  v = tf.Variable(1., name="v")
  f = _adds(either, v)
  f(1.)
  either.clear()
  assert _names(either) == []
  f(1.)
  assert _names(either) == ["v"] and v.numpy() == 2


def test_uninitialised_and_partly_unknown_variables(either):
  v = tf.Variable([1.], shape=[None], name="wide")

  @either.function
  def f(x):
    v.assign(x)
    return tf.shape(v)

  assert f(tf.ones([3])).numpy() == [3]
  assert either.variables()[0].shape == [None] and v.numpy().tolist() == [1, 1, 1]


def _trained(server):
  """A variable whose value here is old: 1 for 4 there."""
  v = tf.Variable(1., name="v")
  f = server.function(lambda x: v.assign_add(x))
  for _ in range(3):
    f(1.)
  return v, f


def test_a_call_whose_variables_the_server_lost_says_so(fake, server, caplog):
  v, f = _trained(server)
  w = tf.Variable(5., name="w")
  _adds(server, w)(1.)
  fake.restart()
  uses = (f, f, lambda x: v.numpy(), v.assign, tf.function(lambda x: v + x))
  for use in uses:  # It does not go away by trying again.
    with pytest.raises(formwork.Error) as e:
      use(tf.constant(1.))
    assert e.value.code == "FAILED_PRECONDITION"
    for words in ("lost 2 variable(s)", "(v, w)", "server.push()", "on_restart=\"push\""):
      assert words in e.value.message
  assert _names(server) == []
  assert len([r for r in caplog.records if "has lost 2" in r.getMessage()]) == 1


def test_push_goes_on_with_the_values_here(fake, server):
  v, f = _trained(server)
  assert v.numpy() == 4
  f(1.)
  fake.restart()
  with pytest.raises(formwork.Error):
    f(1.)
  server.push()
  assert f(1.).numpy() == 5 and v.numpy() == 5


def test_a_checkpoint_is_restored_after_a_push(fake, server, tmp_path):
  v, f = _trained(server)
  path = tf.train.Checkpoint(v=v).save(str(tmp_path / "c"))
  fake.restart()
  with pytest.raises(formwork.Error):
    f(1.)
  server.push(v)
  tf.train.Checkpoint(v=v).restore(path)
  assert f(1.).numpy() == 5


def test_variables_are_pushed_after_a_restart_where_that_is_asked_for(fake, server, caplog):
  with formwork.connect(fake.target, namespace=server.namespace, on_restart="push") as other:
    v, f = _trained(other)
    fake.restart()
    assert f(1.).numpy() == 2
    assert [r.getMessage() for r in caplog.records if "which may be old" in r.getMessage()]
    with formwork.connect(fake.target, namespace=server.namespace) as third:
      third.clear()  # By another process.
    assert f(2.).numpy() in (3, 4)
  with pytest.raises(ValueError, match="on_restart"):
    formwork.connect(fake.target, on_restart="ignore")


def test_a_variable_that_is_an_argument_is_lost_as_one_that_is_captured(fake, server):
  def add(v, x):
    return v.assign_add(x)

  v, w = tf.Variable(1., name="v"), tf.Variable(1., name="w")
  f = server.function(add)
  assert f(v, 1.).numpy() == 2
  fake.restart()
  for _ in range(2):
    with pytest.raises(formwork.Error, match=r"lost 1 variable.*\(v\).*server.push\(\)"):
      f(v, 1.)
  with formwork.connect(fake.target, namespace=server.namespace, on_restart="push") as other:
    g = other.function(add)
    assert g(w, 1.).numpy() == 2 and w.numpy() == 2
    fake.restart()
    assert g(w, 1.).numpy() == 3 and w.numpy() == 3
    fake.variables.clear()  # By another process.
    assert g(w, 1.).numpy() == 4


def test_what_another_process_has_pushed_is_attached_to(fake, server):
  v, f = _trained(server)
  fake.restart()
  with formwork.connect(fake.target, namespace=server.namespace) as other:
    other.variable("v", initial_value=np.float32(10))
  assert f(1.).numpy() == 11 and v.numpy() == 11


def test_what_is_no_variable_is_named(server):
  queue = tf.queue.FIFOQueue(3, [tf.float32])
  with pytest.raises(tf.errors.UnimplementedError, match="QueueInterface; tf.queue.s queues stay here"):
    server.function(queue.size)()
  with pytest.raises(tf.errors.UnimplementedError, match="is a variant"):
    server.function(lambda optional: 1)(tf.experimental.Optional.from_value(1))


def test_each_process_draws_its_own_seeded_numbers(live):
  def draw():
    return tf.random.normal([2])

  tf.random.set_seed(5)
  local = tf.function(draw)
  want = [local().numpy() for _ in range(3)]
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    here, there = live.function(draw), other.function(draw)
    got = [f().numpy() for f in (here, here, there, here, there, there)]
  np.testing.assert_allclose(got, [want[i] for i in (0, 1, 0, 2, 1, 2)], rtol=1e-5)
  assert sorted(f.name.partition("_")[0] for f in live.functions()) == ["draw", "draw"]


def _use_new_variable(server, **options):
  v = tf.Variable(1., **options)
  server.function(lambda x: v.assign_add(x), scope="f")(tf.constant(1.))


def _settled(server, names, functions=None):
  """Whether these are its variables, and as many its functions, soon: deleting is not waited for."""
  def settled():
    return sorted(_names(server)) == names and functions in (None, len(server.functions()))

  deadline = time.monotonic() + 10
  while not settled() and time.monotonic() < deadline:
    time.sleep(0.02)
  return settled()


def test_variables_without_names_are_deleted_after_they_were_dropped(live):
  for _ in range(5):
    _use_new_variable(live)
    gc.collect()
  assert _settled(live, ["f/Variable_4"], functions=1)


def test_what_is_in_a_scope_can_be_deleted(live):
  for scope in ("trial1", "trial10"):
    layer = keras.layers.Dense(2, name="d")
    live.function(lambda x: layer(x), scope=scope)(tf.ones([1, 3]))
  for x in live.functions("trial1/*") + live.variables("trial1/*"):
    x.delete()
  assert sorted(_names(live)) == ["trial10/d/bias", "trial10/d/kernel"]
  assert [f.name for f in live.functions()] == ["trial10/lambda"]


def test_dropped_variables_that_others_may_mean_stay(live):
  _use_new_variable(live, name="v")
  _use_new_variable(live)
  live.call("f/lambda_1", [np.float32(1)])  # As another client would.
  argument = live.function(lambda v, x: v.assign_add(x))
  for _ in range(2):  # The trace keeps the first one's handle, as TensorFlow has it.
    argument(tf.Variable(1.), 1.)
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    w = tf.Variable(7.)
    other.function(lambda: w + 1, scope="f")()  # Attaches to f/Variable.
  gc.collect()
  _use_new_variable(live)
  assert _settled(live, ["Variable", "f/Variable", "f/Variable_1", "f/v"])


def test_a_value_that_a_call_changes_while_it_is_read_is_read_again(server):
  v, f = _trained(server)
  read = server.read

  def call_meanwhile(variables):
    values = read(variables)
    server.read = read
    f(1.)
    return values

  f(1.)
  server.read = call_meanwhile
  before = v.numpy()
  assert v.numpy() == before + 1


def test_functions_that_are_dropped_are_collected_and_leave_what_they_changed(server):
  v = tf.Variable(0.)
  graphs = []
  for _ in range(3):
    f = server.function(lambda: v.assign_add(1.))
    f()
    graphs.append(weakref.ref(f.get_concrete_function().graph))
    del f
  gc.collect()
  assert [ref() for ref in graphs] == [None] * 3 and v.numpy() == 3


def test_names_are_taken_once_each():
  names = {}
  assert [state._take(n, names) for n in ("v", "v_1", "v", "v", "v_1", "w", "v")] == [
      "v", "v_1", "v_2", "v_3", "v_1_1", "w", "v_4"]


def test_a_variable_of_dtensor_is_refused():
  class Handle:
    owner = d_variable.DVariable.__new__(d_variable.DVariable)

    def _parent_trackable(self):
      return self.owner

  with pytest.raises(formwork.Error, match="not a DVariable"):
    handles.variable_of(Handle())


def test_a_generator_of_a_strategy(server):
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    ours, theirs = (tf.random.Generator.from_seed(1) for _ in range(2))
  f, g = server.function(lambda: ours.normal([2])), tf.function(lambda: theirs.normal([2]))
  for _ in range(2):
    assert f().numpy().tolist() == g().numpy().tolist()
    assert ours.normal([]).numpy() == theirs.normal([]).numpy()
