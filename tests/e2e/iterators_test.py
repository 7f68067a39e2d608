"""Iterators of a server with a data directory: where they are after it has ended, and how it ended."""
import os
import signal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import formwork
import numpy as np
import pytest
import tensorflow as tf

import server_process

Dataset = tf.data.Dataset


def _values(*shape):
  return np.arange(np.prod(shape)).reshape(shape)


def _sleeves(x):
  return tf.fill([x % 3], x)


def _of_a_variable():
  v = tf.Variable(7, dtype=tf.int64, name="offset")
  return Dataset.range(20).map(lambda x: x + v)


# Each of int64s; all that does not end has an order of its own that seeds tell.
PIPELINES = {
    "range": lambda: Dataset.range(20),
    "tensors": lambda: Dataset.from_tensors(_values(4)).repeat(5),
    "slices": lambda: Dataset.from_tensor_slices(_values(12, 3)),
    "strings": lambda: Dataset.from_tensor_slices(["a", "bcd", "", "ef"] * 4).map(
        tf.strings.length).map(lambda n: tf.cast(n, tf.int64)),
    "map": lambda: Dataset.range(20).map(lambda x: x * x + 1),
    "map_captures": lambda c=tf.constant(7, tf.int64): Dataset.range(20).map(lambda x: x + c),
    "map_variable": _of_a_variable,
    "parallel_map": lambda: Dataset.range(20).map(lambda x: x * 2, num_parallel_calls=2),
    "random_map": lambda: Dataset.range(20).map(
        lambda x: x + tf.random.uniform([], 0, 1000, tf.int64, seed=5)),
    "scan": lambda: Dataset.range(20).scan(tf.constant(1, tf.int64),
                                           lambda s, x: (s + x, s * 10 + x)),
    "filter": lambda: Dataset.range(40).filter(lambda x: x % 3 != 1),
    "take_while": lambda: Dataset.range(40).take_while(lambda x: x < 15),
    "take_skip": lambda: Dataset.range(40).skip(5).take(14),
    "repeat": lambda: Dataset.range(3).repeat(5),
    "for_ever": lambda: Dataset.range(3).repeat(),
    "shard": lambda: Dataset.range(50).shard(3, 1),
    "zip": lambda: Dataset.zip((Dataset.range(15), Dataset.range(15).map(lambda x: -x))).map(
        lambda a, b: a * 100 + b),
    "concatenate": lambda: Dataset.range(4).concatenate(Dataset.range(9)),
    "choose": lambda: Dataset.choose_from_datasets(
        [Dataset.range(9), Dataset.range(100, 109)], Dataset.range(2).repeat(9)),
    "sample": lambda: Dataset.sample_from_datasets(
        [Dataset.range(30), Dataset.range(100, 130)], [0.4, 0.6], seed=3),
    "unique": lambda: Dataset.range(40).map(lambda x: x * x % 11 + x // 4).unique(),
    "batch": lambda: Dataset.range(50).batch(3),
    "padded": lambda: Dataset.range(30).map(_sleeves).padded_batch(2),
    "unbatch": lambda: Dataset.range(30).batch(4).unbatch(),
    "rebatch": lambda: Dataset.range(40).batch(4).rebatch(3),
    "flat_map": lambda: Dataset.range(9).flat_map(lambda x: Dataset.range(x).map(lambda y: x + y)),
    "interleave": lambda: Dataset.range(9).interleave(
        lambda x: Dataset.from_tensors(x).repeat(3), cycle_length=4, block_length=2),
    "parallel_interleave": lambda: Dataset.range(9).interleave(
        lambda x: Dataset.from_tensors(x).repeat(3), cycle_length=2, num_parallel_calls=2),
    "shuffle": lambda: Dataset.range(30).shuffle(7, seed=2),
    "reshuffled": lambda: Dataset.range(6).shuffle(4, seed=2).repeat(4),
    "same_shuffle": lambda: Dataset.range(6).shuffle(4, seed=2,
                                                     reshuffle_each_iteration=False).repeat(4),
    "random": lambda: Dataset.random(seed=9),
    "cache": lambda: Dataset.range(4).map(lambda x: x * 3).cache().repeat(5),
    "windows": lambda: Dataset.range(40).window(4, 2).flat_map(lambda w: w.batch(4)).batch(2),
    "enumerate": lambda: Dataset.range(5, 25).enumerate().map(lambda i, x: i * x),
    "nothing": lambda: Dataset.range(0),
    "prefetched": lambda: Dataset.range(30).prefetch(3).batch(2).prefetch(tf.data.AUTOTUNE),
    "trained_on": lambda: Dataset.from_tensor_slices(_values(10, 2)).shuffle(10, seed=1).repeat().map(
        lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE).batch(4).prefetch(2),
}
# Between two elements of a window that is being given out there is nothing to make it of again.
HELD = {"windows"}


def _next(function, iterator):
  f = function(lambda: next(iterator))

  def taken(n):
    out = []
    try:
      for _ in range(n):
        out.append(f().numpy().tolist())
    except tf.errors.OutOfRangeError:
      out.append("end")
    return out

  return taken


def test_iterators_go_on_where_they_were(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--snapshot-interval", "0",
           "--port", str(server_process.free_port())]
  names = sorted(set(PIPELINES) - HELD)
  server = there = None
  here = {name: _next(tf.function, _here(PIPELINES[name]())) for name in names}
  for take in (0, 1, 4, 3, 20, 1):
    with server_process.running(*flags) as process:
      if server is None:
        server = formwork.connect(process.grpc)
        there = {name: _next(server.function, iter(PIPELINES[name]())) for name in names}
      for name in names:
        assert there[name](take) == here[name](take), (name, take)
      assert "position" not in process.log_text()
  server.close()


def _here(dataset):
  """An iterator in this process, without the thread that TensorFlow tunes it by: to delete one that has
  it takes seconds, of whatever test the garbage collector comes in."""
  options = tf.data.Options()
  options.autotune.enabled = False
  return iter(dataset.with_options(options))


def _count(server):
  """A function that takes an element and counts it, in one call."""
  counted = tf.Variable(0, dtype=tf.int64, name="counted")
  iterator = iter(Dataset.range(10**6).shuffle(50, seed=3).map(lambda x: x * 2))

  @server.function
  def step():
    counted.assign_add(1)
    return next(iterator), counted.read_value()

  return step


@pytest.mark.parametrize("durability", ["snapshot", "sync"])
def test_after_a_crash_an_iterator_is_where_the_variables_are(tmp_path, durability):
  flags = ["--data-dir", str(tmp_path), "--durability", durability,
           "--snapshot-interval", "0" if durability == "sync" else "0.02"]
  expected, seen = _expected(), 0
  for kill in range(5):
    with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc) as server:
        before = int(server.variables()[0].read()) if kill else 0
        assert before == seen if durability == "sync" else (before > 0) == (kill > 0)
        step = _attached(server) if kill else _count(server)
        for _ in range(60):
          element, seen = (int(v) for v in step())
          assert seen == before + 1 and element == expected[before], kill
          before = seen
        if durability == "snapshot":
          server.snapshot()
          step()
        process.terminate(signal.SIGKILL)
        process.exit_code()


def test_what_cannot_be_stored_says_so(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--snapshot-interval", "0",
           "--port", str(server_process.free_port())]
  d = Dataset.range(40).window(4, 2).flat_map(lambda w: w.batch(4))
  iterator = iter(d)
  with server_process.running(*flags) as process:
    with formwork.connect(process.grpc) as server:
      step = server.function(lambda: next(iterator))
      step()
      step()
      epoch = server.info().epoch
      process.terminate()
      assert process.exit_code() == 0
      assert "left_out=1" in process.log_text()
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
    assert server.info().epoch != epoch
    (there,) = [r for r in server._resources() if r.kind == "iterator"]
    it = server.iterator(there.name, element_spec=[formwork.TensorSpec("", "int64", [None])])
    with pytest.raises(formwork.Error, match="has not been initialized"):
      it.next()


def _expected():
  return list(Dataset.range(10**6).shuffle(50, seed=3).map(lambda x: x * 2).take(
      500).as_numpy_iterator())


def _attached(server):
  """The same of what is there: by names."""
  found = {r.kind: r for r in server._resources()}
  graph = tf.Graph()
  with graph.as_default():
    variable, iterator = (tf.compat.v1.placeholder(tf.resource, [], name=n) for n in "vi")
    tf.raw_ops.AssignAddVariableOp(resource=variable, value=tf.constant(1, tf.int64), name="add")
    with tf.control_dependencies(graph.get_operations()[-1:]):
      count = tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.int64, name="count")
    tf.raw_ops.IteratorGetNext(iterator=iterator, output_types=[tf.int64], output_shapes=[[]],
                               name="next")
  return server.register("attached", graph_def=graph.as_graph_def().SerializeToString(), inputs=[],
                         outputs=["next:0", "count:0"], captures={
                             "v:0": found["variable"], "i:0": found["iterator"]}, replace=True)
