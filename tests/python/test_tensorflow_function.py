"""What programs do with a tf.function besides calling it: copies, pickles, strategies, errors."""
import copy
import pickle
import subprocess
import sys

import pytest
import tensorflow as tf


def halve(x):
  return x / 2


class Scale(tf.Module):

  def __init__(self, server):
    self.factor = tf.Variable(2.)
    self.apply = server.function(lambda x: self.factor * x)


def test_importing_and_decorating_leaves_tensorflow_to_be_configured(live_target):
  program = """
import formwork, tensorflow as tf
server = formwork.connect(%r)
f = server.function(lambda x: x + 1)
class Model(tf.Module):
  @server.function
  def method(self, x):
    return x
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
assert len(tf.config.list_logical_devices("CPU")) == 2
print(f(tf.constant(1)).numpy())
server.clear()
""" % live_target
  ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
  assert ran.stdout == "2\n", ran.stderr


def test_an_error_names_the_lines_that_made_its_node(live):
  @tf.function
  def called(x, by):
    return x // by  # called here

  @live.function
  def f(x, by):
    if x > 0:
      for _ in tf.range(2):
        x = called(x, by)
    return x

  @live.function
  def straight(x, by):
    return x // by  # straight here

  for function, line in ((f, "called here"), (straight, "straight here")):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
      function(tf.constant(1), tf.constant(0))
    text = str(caught.value)
    number = next(i for i, s in enumerate(open(__file__), 1) if s.endswith("# %s\n" % line))
    assert "Graph execution error:\n\nDetected at node floordiv defined at (most" in text
    assert 'File "%s", line %d, in ' % (__file__, number) in text
    assert "formwork/" not in text
    assert "\nInteger division by zero\n\t [[{{node floordiv}}]] [Op:__inference_" in text


def test_functions_are_copied_and_pickled(live):
  f, x = live.function(halve), tf.constant(3.)
  f(x)
  for made in (copy.deepcopy(f), copy.copy(f), pickle.loads(pickle.dumps(f))):
    assert made(x).numpy() == 1.5 and made.experimental_get_tracing_count() == 1
  assert f.experimental_get_tracing_count() == 1


def test_a_module_that_holds_a_function_is_copied(live):
  module, x = Scale(live), tf.constant(3.)
  module.apply(x)
  made = copy.deepcopy(module)
  made.factor.assign(5.)
  assert module.apply(x).numpy() == 6 and made.factor.numpy() == 5


def test_a_clone_runs_on_the_server(live):
  f = live.function(halve)
  made = f._clone(lambda x: x * 10)
  assert made(tf.constant(3.)).numpy() == 30


@pytest.mark.parametrize("make", [lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
                                  lambda: tf.distribute.MirroredStrategy(["/cpu:0"])])
def test_a_strategy_runs_it(live, make):
  strategy = make()
  with strategy.scope():
    v = tf.Variable(5.)
  f = live.function(lambda x: v.assign_add(x))
  assert strategy.run(f, (tf.constant(3.),)).numpy() == 8 and v.numpy() == 8


def test_flat_calls_look_at_no_shapes(live):
  c = tf.constant(2.)
  concrete = live.function(lambda y: y * c).get_concrete_function(tf.TensorSpec([2]))
  assert concrete(tf.ones([3])).shape == [3]
  assert concrete(y=tf.ones([2, 1])).shape == [2, 1]
  assert concrete(tf.ones([2])).shape == [2]
  with pytest.raises(tf.errors.InvalidArgumentError):
    concrete(tf.ones([2], tf.int32))


def test_a_symbolic_tensor_that_leaked_is_tensorflows_error(live):
  leaked = []
  tf.function(lambda x: leaked.append(x))(tf.constant(1.))
  with pytest.raises(TypeError, match="is out of scope and cannot be used here"):
    live.function(lambda: leaked[0] + 1)()


def test_conditions_that_would_be_compiled_have_gradients(live):
  f = live.function(lambda x: tf.cond(x > 0, lambda: tf.exp(x) * x, lambda: tf.sin(x)),
                    jit_compile=True)

  @live.function(jit_compile=True)
  def inside(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = f(x)
    return tape.gradient(y, x)

  for value in (2., -1.):
    x = tf.constant(value)
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = f(x)
    want = (value + 1) * tf.exp(x) if value > 0 else tf.cos(x)
    assert abs(tape.gradient(y, x) - want) < 1e-5 and abs(inside(x) - want) < 1e-5
