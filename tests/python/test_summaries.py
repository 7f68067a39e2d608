"""tf.summary in functions that run there: the event files are written here."""
import threading

import numpy as np
import pytest
import tensorflow as tf

import formwork


def _written(folder):
  """[(step, tag, value)] of the event files in a folder, in the order in which they were written."""
  events = []
  for path in sorted(tf.io.gfile.glob(str(folder / "*"))):
    for data in tf.data.TFRecordDataset(path):
      event = tf.compat.v1.Event.FromString(data.numpy())
      events += [(event.step, value.tag, tf.make_ndarray(value.tensor).tolist())
                 for value in event.summary.value]
  return events


@pytest.fixture
def writer(tmp_path):
  return tf.summary.create_file_writer(str(tmp_path))


def _both(live, tmp_path, body, *calls):
  """What the calls of a function write, which is what they write in TensorFlow."""
  found = []
  for name, function in ("there", live.function), ("here", tf.function):
    writer = tf.summary.create_file_writer(str(tmp_path / name))
    f = function(body(writer))
    results = [f(*arguments).numpy() for arguments in calls]
    writer.flush()
    found.append((results, _written(tmp_path / name)))
  np.testing.assert_equal(found[0], found[1])
  return found[0][1]


def test_values_of_each_call(live, tmp_path):
  raw = tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(
      tag="raw", tensor=tf.make_tensor_proto(7))]).SerializeToString()

  def body(writer):
    v = tf.Variable(1.)

    def f(x, step):
      v.assign_add(x)
      with writer.as_default(step=step):
        tf.summary.write("sum", v)
        tf.summary.write("square", x * x)
        tf.summary.write("text", tf.constant([["a"], ["b"]]))
        tf.summary.experimental.write_raw_pb(raw)
      v.assign(v * 2.)
      return v.read_value()
    return f

  calls = [(tf.constant(x), tf.constant(i, tf.int64)) for i, x in enumerate((1., -2., 3.))]
  events = _both(live, tmp_path, body, *calls)
  assert [e[:2] for e in events[:4]] == [(0, "sum"), (0, "square"), (0, "text"), (0, "raw")]
  assert len(events) == 12


def test_where_a_function_decides(live, tmp_path):
  """In a loop and a branch, at steps that a variable counts, and not where they are switched off."""
  def body(writer):
    steps = tf.Variable(0, dtype=tf.int64)

    def f(n):
      with writer.as_default(steps), tf.summary.record_if(lambda: steps % 2 == 0):
        for i in tf.range(n):
          steps.assign_add(1)
          if i != 1:
            tf.summary.write("i", i)
        with tf.summary.record_if(False):
          tf.summary.write("never", n)
      return steps.read_value()
    return f

  events = _both(live, tmp_path, body, (tf.constant(6),), (tf.constant(3),))
  assert events == [(4, "i", 3), (6, "i", 5)]


def test_a_step_of_training(live, tmp_path):
  def body(writer):
    w = tf.Variable([1., 2.])

    def f(x, y):
      with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w[:, None] - y) ** 2)
        with writer.as_default(step=3):
          tf.summary.write("loss", loss)
      (g,) = tape.gradient(loss, [w])
      w.assign_sub(0.1 * g)
      return loss
    return f

  x, y = tf.constant([[1., 2.], [0., -1.]]), tf.constant([[1.], [2.]])
  assert len(_both(live, tmp_path, body, (x, y), (x, y))) == 2


def test_threads_write_what_is_theirs(live, tmp_path, writer):
  @live.function
  def f(step):
    with writer.as_default(step=step):
      tf.summary.write("step", step)

  def call(first):
    for i in range(first, first + 20):
      f(tf.constant(i, tf.int64))

  threads = [threading.Thread(target=call, args=(100 * t,)) for t in range(4)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  events = _written(tmp_path)
  assert len(events) == 80 and all(step == value for step, _, value in events)


def test_a_local_function_writes_as_ever(live, tmp_path, writer):
  def f(x):
    with writer.as_default(step=1):
      return tf.summary.write("x", x)

  live.function(f)(1.)
  local = tf.function(f).get_concrete_function(2.)
  local()
  assert "WriteSummary" in [op.type for op in local.graph.get_operations()]
  assert [e[2] for e in _written(tmp_path)] == [1, 2]


def test_what_was_traced_here_before_says_what_to_do(live, tmp_path, writer):
  @tf.function
  def local(x):
    with writer.as_default(step=1):
      tf.summary.write("x", x)

  local(tf.constant(1.))
  with pytest.raises(tf.errors.UnimplementedError, match="traced for the server first"):
    live.function(lambda x: (local(x), x))(tf.constant(2.))


def test_another_process_does_not_write(live, tmp_path, writer):
  @live.function
  def f(x):
    with writer.as_default(step=1):
      tf.summary.write("x", x)
    return x

  f(tf.constant(1.))
  with pytest.raises(formwork.Error):
    live.call(f.get_concrete_function(tf.constant(1.)).name.decode(), [np.float32(2)])
  assert len(_written(tmp_path)) == 1
