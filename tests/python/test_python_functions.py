"""tf.py_function and tf.numpy_function: the server asks, and they run here."""
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import formwork
from formwork import python_functions


def _same(ours, theirs):
  tf.nest.map_structure(np.testing.assert_array_equal, tf.nest.map_structure(np.asarray, ours),
                        tf.nest.map_structure(np.asarray, theirs))


def _both(live, body, *args):
  """What a function gives, which is what it gives in TensorFlow."""
  ours = live.function(body)(*args)
  _same(ours, tf.function(body)(*args))
  return ours


@pytest.mark.parametrize("api", [tf.py_function, tf.numpy_function], ids=["py", "numpy"])
@pytest.mark.parametrize("value", [
    1.5, [1, 2, 3], [True, False], np.float64(2), np.arange(6, dtype=np.int8).reshape(2, 3),
    ["a", "bc", ""], "one", tf.bfloat16, np.complex64(1 + 2j),
    np.zeros((0, 3), np.float16)], ids=str)
def test_values_go_there_and_back(live, api, value):
  value = tf.cast([1.5, -2], value) if isinstance(value, tf.DType) else tf.constant(value)

  def body(x):
    same = api(lambda a: a, [x], x.dtype)
    two = api(lambda a, b: (b, a), [x, tf.constant(7)], [tf.int32, x.dtype])
    return same, two

  _both(live, body, value)


def test_none_and_nothing(live):
  seen = []

  def body(x):
    with tf.control_dependencies([tf.py_function(lambda a: seen.append(float(a)), [x], [])]):
      return x + tf.numpy_function(lambda: np.float32(3), [], tf.float32)

  assert float(live.function(body)(tf.constant(1.))) == 4 and seen == [1.0]


def test_a_function_of_numpy_may_return_nothing(live):
  seen = []

  def body(x):
    with tf.control_dependencies([tf.numpy_function(lambda a: seen.append(float(a)), [x], [])]):
      return x + 1.

  _both(live, body, tf.constant(2.))
  assert seen == [2.0, 2.0]


@pytest.mark.parametrize("value,words", [
    ({"a": 1}, "Unsupported object type dict"),
    (np.array([], [("a", np.float32)]), "Unsupported numpy data type")], ids=["dict", "records"])
def test_what_is_no_tensor_is_named(live, value, words):
  def body():
    return tf.numpy_function(lambda: value, [], tf.float32)

  for wrap in (tf.function, live.function):
    with pytest.raises(tf.errors.InternalError, match=words):
      wrap(body)()


def test_what_is_asked_in_order_with_variables(live):
  v = tf.Variable(1.)
  seen = []

  @live.function
  def f(x):
    v.assign_add(x)
    tf.py_function(lambda a: seen.append(float(a)), [v], [])
    v.assign_add(x)
    tf.py_function(lambda a: seen.append(float(a)), [v], [])
    return v.read_value()

  assert float(f(tf.constant(1.))) == 3 and seen == [2, 3]


def test_in_loops_branches_and_calls(live):
  called = tf.function(lambda j: tf.py_function(lambda a: a + 1, [j], tf.int32))

  def body(n):
    total = tf.constant(0)
    for i in tf.range(n):
      if i % 2 == 0:
        total += tf.ensure_shape(tf.numpy_function(lambda a: a * a, [i], tf.int32), [])
      else:
        total -= tf.ensure_shape(called(i), [])
    return total

  _both(live, body, tf.constant(7))


def test_gradients(live):
  def body(x):
    y = tf.py_function(lambda a: a * a * a, [x], tf.float32)
    return tf.reduce_sum(y * 2.)

  f = live.function(body)
  x = tf.constant([1., 2.])
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = f(x)
  np.testing.assert_allclose(tape.gradient(y, x), [6, 24])

  def inside(x):
    return tf.gradients(body(x), x)[0]

  np.testing.assert_allclose(live.function(inside)(x), [6, 24])


@pytest.mark.parametrize("raised, kind", [
    (ValueError("no"), tf.errors.InvalidArgumentError),
    (TypeError("no"), tf.errors.InvalidArgumentError),
    (StopIteration("no"), tf.errors.OutOfRangeError),
    (MemoryError("no"), tf.errors.ResourceExhaustedError),
    (NotImplementedError("no"), tf.errors.UnimplementedError),
    (KeyError("no"), tf.errors.UnknownError),
    (tf.errors.NotFoundError(None, None, "no"), tf.errors.UnknownError)], ids=lambda e: str(e)[:20])
def test_exceptions_are_those_that_tensorflow_makes_of_them(live, raised, kind):
  def fails(a):
    raise raised

  def body(x):
    return tf.py_function(fails, [x], tf.float32)

  for function in (live.function(body), tf.function(body)):
    with pytest.raises(kind) as caught:
      function(tf.constant(1.))
    assert type(raised).__name__ in str(caught.value) and "in fails" in str(caught.value)


def test_results_are_held_against_the_declaration(live):
  for results, words in [(lambda a: np.float64(a), "is double, but expects float"),
                         (lambda a: (a, a), "returns 2 values, but expects to see 1 values")]:
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
      live.function(lambda x: tf.numpy_function(results, [x], tf.float32))(tf.constant(1.))


def test_a_function_may_call_the_server(live):
  inner = live.function(lambda a: a + 1)
  deeper = live.function(lambda a: tf.py_function(inner, [a], tf.float32) * 2)
  f = live.function(lambda x: tf.py_function(deeper, [x], tf.float32))
  for i in range(5):
    assert float(f(tf.constant(float(i)))) == 2 * (i + 1)


def test_datasets_call_python(live):
  def body(n):
    d = tf.data.Dataset.range(n).map(
        lambda i: tf.numpy_function(lambda a: a * 10, [i], tf.int64))
    return d.reduce(np.int64(0), lambda a, b: a + b)

  assert int(_both(live, body, tf.constant(5, tf.int64))) == 100


def test_generators(live):
  seen = []

  def count(n):
    seen.append("begun")
    for i in range(n):
      yield i, [float(i)] * i
    seen.append("done")

  def body(n):
    d = tf.data.Dataset.from_generator(count, args=[n], output_signature=(
        tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32)))
    d = d.padded_batch(2).take(100)
    return d.reduce(tf.zeros([]), lambda total, e: total + tf.cast(
        tf.reduce_sum(e[0]), tf.float32) + 10 * tf.reduce_sum(e[1]))

  assert float(_both(live, body, tf.constant(5))) == 10 + 10 * (1 + 4 + 9 + 16)
  assert seen == ["begun", "done"] * 2

  def fails():
    yield 1
    raise ValueError("no more")

  with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
    live.function(lambda: tf.data.Dataset.from_generator(fails, tf.int32).reduce(
        0, lambda a, b: a + b))()


def test_many_wait_at_once(live):
  here = threading.Barrier(24)

  @live.function
  def f(x):
    return tf.numpy_function(lambda a: (here.wait(20), a + 1)[1], [x], tf.float32)

  results = [None] * here.parties
  f.get_concrete_function(tf.constant(0.))

  def call(i):
    results[i] = float(f(tf.constant(float(i))))

  threads = [threading.Thread(target=call, args=(i,)) for i in range(here.parties)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  assert results == [i + 1. for i in range(here.parties)]


def test_a_deadline_ends_the_wait(live):
  wakes = threading.Event()
  v = tf.Variable(1.)

  @live.function
  def f(x):
    v.assign(x)
    return tf.py_function(lambda a: (wakes.wait(3), a)[1], [x], tf.float32)

  g = live.function(lambda: v + 0.)
  started = time.monotonic()
  with pytest.raises(formwork.Error) as caught:
    f.with_timeout(0.3)(tf.constant(2.))
  assert caught.value.code == "DEADLINE_EXCEEDED"
  wakes.set()
  assert float(g()) == 2 and time.monotonic() - started < 10


def test_another_process_is_told_that_the_function_is_not_there(live, monkeypatch):
  f = live.function(lambda x: tf.py_function(lambda a: a, [x], tf.float32))
  f(tf.constant(1.))
  name = live.functions()[0].name
  with pytest.raises(formwork.Error, match="client that traced this one") as caught:
    live.call(name, [np.float32(1)])
  assert caught.value.code == "FAILED_PRECONDITION"
  monkeypatch.setattr(python_functions, "_PROCESS", "@another")
  with pytest.raises(formwork.Error, match="'pyfunc_.*' is not in this process") as caught:
    f(tf.constant(1.))
  assert caught.value.code == "UNIMPLEMENTED"


_LEAVES = """
import os, sys, tensorflow as tf, formwork
with formwork.connect(sys.argv[1], namespace=sys.argv[2]) as server:
  w = tf.Variable(1.)
  @server.function
  def f(x):
    w.assign_add(x)
    return tf.py_function(lambda a: os._exit(7), [w], tf.float32)
  f(tf.constant(1.))
"""


def test_a_client_that_goes_away_holds_nothing(live, live_target):
  gone = subprocess.run([sys.executable, "-c", _LEAVES, live_target, live.namespace], timeout=60,
                        check=False)
  assert gone.returncode == 7
  (left,) = live.variables()
  assert float(left.read(timeout=10)) == 2
