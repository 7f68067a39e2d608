"""What this package changes in TensorFlow's and Keras's classes is there, and is asked for."""
import gc
import inspect

import keras
import pytest
import tensorflow as tf
from tensorflow.python.data.ops import structured_function
from tensorflow.python.eager import backprop
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.ops import gen_summary_ops

from formwork import mirror
from formwork import state
from formwork import summaries


@pytest.fixture
def bound(server):
  """A tf.Variable, its counterpart and a function that adds to it there."""
  v = tf.Variable(1., name="v")
  add = server.function(v.assign_add)
  add(1.)
  return v, server.variables()[0], add


def _counted(fake, method, run):
  fake.log.clear()
  result = run()
  return result, fake.methods().count(method)


def test_what_is_replaced_has_the_signature_that_is_relied_on():
  def parameters(method):
    return list(inspect.signature(method).parameters)

  assert parameters(concrete_function.ConcreteFunction._call_flat) == [
      "self", "tensor_inputs", "captured_inputs"]
  assert parameters(tf.random.Generator._skip_single_var) == ["self", "var", "delta"]
  assert parameters(structured_function.StructuredFunctionWrapper.__init__)[:3] == [
      "self", "func", "transformation_name"]
  assert parameters(backprop._handle_or_self) == ["x"]
  for op in summaries.OPS:
    assert parameters(getattr(gen_summary_ops, op))[0] == "writer"
  assert "_value" not in keras.Variable.__dict__ or isinstance(
      inspect.getattr_static(keras.Variable, "_value"), property)


def test_a_local_function_sees_the_servers_value_and_its_change_goes_there(fake, bound):
  v, there, add = bound

  @tf.function
  def twice(x):
    return v.assign(v * 2 + x)

  for call in (twice, twice.get_concrete_function(1.)):
    before = there.read()
    result, reads = _counted(fake, "ReadVariables", lambda: call(tf.constant(1.)).numpy())
    assert result == before * 2 + 1 and reads == 1
    assert add(1.).numpy() == before * 2 + 2
  value = add(1.).numpy()
  with tf.GradientTape() as tape:  # Its gradient's functions as well.
    y = tf.function(lambda: v * v)()
  assert y.numpy() == value ** 2 and tape.gradient(y, v).numpy() == 2 * value


def test_calls_of_functions_whose_variables_were_traced_here_fetch_nothing(fake, server):
  v = tf.Variable(tf.ones([3]))

  def once():
    return tf.function(lambda: v * 2)()

  gc.disable()
  try:
    once()  # Its graph, in a cycle, is still there.
    add = server.function(lambda x: v.assign_add(x))
    add(tf.ones([3]))
    fake.log.clear()
    for _ in range(5):
      add(tf.ones([3]))
    assert fake.methods() == ["Call"] * 5
    assert once().numpy().tolist() == [14, 14, 14]
    assert fake.methods().count("ReadVariables") == 1
  finally:
    gc.enable()


def test_no_object_of_the_process_is_walked(server, monkeypatch):
  def walked(*unused):
    raise AssertionError("the heap is walked")

  monkeypatch.setattr(gc, "get_objects", walked)
  monkeypatch.setattr(gc, "get_referrers", walked)
  layer, generator = keras.layers.Dense(1), tf.random.Generator.from_seed(1)
  layer.build((None, 2))
  server.function(lambda x: layer(x) + generator.normal([1]))(tf.ones([1, 2]))
  assert {w.path for w in layer.weights} < {v.name for v in server.variables()}


def test_a_function_of_tf_data_sees_what_a_call_changed(bound):
  v, _, add = bound
  data = tf.data.Dataset.range(1).map(lambda x: v + 0.)
  add(5.)
  assert [x.numpy() for x in data] == [7]


def test_a_generator_that_is_used_here_goes_on_there(server):
  ours, theirs = (tf.random.Generator.from_seed(3) for _ in range(2))
  f, g = server.function(lambda: ours.normal([2])), tf.function(lambda: theirs.normal([2]))
  for _ in range(2):
    assert f().numpy().tolist() == g().numpy().tolist()
    assert ours.uniform([]).numpy() == theirs.uniform([]).numpy()


def test_a_gradient_of_a_variable_fetches_no_value(fake, server):
  v = tf.Variable(2.)
  f = server.function(lambda: v * v)
  step = server.function(lambda g: v.assign_sub(g / 4))

  def train():
    with tf.GradientTape() as tape:
      y = f()
    step(tape.gradient(y, v))

  train()
  _, reads = _counted(fake, "ReadVariables", train)
  assert reads == 0 and v.numpy() == 0.5


def test_an_optimizer_passes_all_on_in_one_request(fake, server):
  variables = [tf.Variable(float(i)) for i in range(4)]
  add = server.function(lambda: tf.add_n(variables))
  assert add() == 6
  optimizer = keras.optimizers.SGD(1.)
  apply = lambda: optimizer.apply_gradients([(tf.ones([]), v) for v in variables])
  for _ in range(2):
    _, writes = _counted(fake, "AssignVariables", apply)
    assert writes == 1
  assert add() == -2
  with pytest.raises(tf.errors.InvalidArgumentError):
    optimizer.apply_gradients([(tf.ones([]), variables[0]), (tf.ones([7]), variables[1])])
  assert add() == sum(v.numpy() for v in variables)
  _, writes = _counted(fake, "AssignVariables", lambda: [v.assign(1.) for v in variables])
  assert writes == 4 and add() == 4


def test_whoever_else_gets_a_handle_may_write_by_it(fake, bound, tmp_path):
  v, _, add = bound
  tf.train.Checkpoint(v=v).restore(tf.train.Checkpoint(v=v).save(str(tmp_path / "c")))
  v.assign_sub(v)
  with tf.GradientTape() as tape, tf.autodiff.ForwardAccumulator(v, tf.ones([])):
    tape.watch(v)
  keras.optimizers.SGD(0.).apply_gradients([(tf.ones([]), v)])
  bindings = mirror.bounds_of(mirror.raw_handle(v))[0].bindings
  assert not bindings.given_out  # All these are TensorFlow's own ways.
  v.handle
  _, writes = _counted(fake, "AssignVariables", lambda: add(1.))
  assert writes == 0 and not bindings.given_out
  tf.raw_ops.AssignVariableOp(resource=v.handle, value=10.)
  result, writes = _counted(fake, "AssignVariables", lambda: add(1.))
  assert writes == 1 and result.numpy() == 11


def test_keras_variables_tell_their_paths():
  state.patches.install()
  layer = keras.layers.Dense(1, name="d")
  layer.build((None, 2))
  kernel = layer.kernel.value
  assert kernel.__dict__["_formwork_path"] == layer.kernel.path == "d/kernel"
  with pytest.raises(AttributeError):
    keras.Variable.__new__(keras.Variable)._value  # As where it is a plain attribute.


def test_a_function_that_uses_no_bound_variable_runs_as_before():
  f = tf.function(lambda x: x + 1)
  assert mirror.call_here(f.get_concrete_function(1.), [], [], lambda: "ran") == "ran"
