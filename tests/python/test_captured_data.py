"""Datasets and iterators of this process that a function on the server captures or is given."""
import gc
import time

import formwork
import numpy as np
import pytest
import tensorflow as tf

Dataset = tf.data.Dataset


def _listed(d):
  return d.reduce(tf.zeros([0], tf.int64), lambda all_, x: tf.concat([all_, tf.reshape(x, [-1])], 0))


@pytest.fixture
def function(live):
  return live.function


def test_a_captured_dataset_gives_what_it_gives_here(function):
  k = tf.constant([1, 2], tf.int64)
  for d in (Dataset.range(7).map(lambda i: i * i).filter(lambda i: i % 2 == 0),
            Dataset.from_tensor_slices(np.arange(12).reshape(4, 3)).map(lambda x: x[:2] + k),
            Dataset.range(10).shuffle(4, seed=5, reshuffle_each_iteration=False).batch(3),
            Dataset.range(5).flat_map(lambda i: Dataset.range(i)).prefetch(2),
            Dataset.range(4).interleave(Dataset.range, cycle_length=2, num_parallel_calls=2)):
    f = function(lambda d=d: _listed(d))
    expected = _listed(d).numpy().tolist()
    assert f().numpy().tolist() == expected
    assert f().numpy().tolist() == expected


def test_a_loop_over_a_captured_dataset(function):
  d = Dataset.from_tensor_slices((tf.range(6.0), [b"a", b"bb", b"", b"c", b"dd", b"eee"])).batch(2)

  @function
  def f(bias):
    total = 0.0
    for x, text in d:
      total += tf.reduce_sum(x) * bias + tf.cast(tf.reduce_sum(tf.strings.length(text)), tf.float32)
    return total

  assert f(tf.constant(2.0)) == 30 + 9
  assert f(tf.constant(0.0)) == 9


def test_a_dataset_as_an_argument(function):
  f = function(lambda d: _listed(d))
  assert f(Dataset.range(3)).numpy().tolist() == [0, 1, 2]
  assert f(Dataset.range(5).map(lambda i: -i)).numpy().tolist() == [0, -1, -2, -3, -4]
  assert f.experimental_get_tracing_count() == 1


def test_a_shuffle_goes_on_from_call_to_call(function):
  make = lambda: Dataset.range(20).shuffle(20, seed=3)
  here, there = make(), make()
  f = function(lambda: _listed(there))
  for _ in range(3):
    assert f().numpy().tolist() == _listed(here).numpy().tolist()


def test_functions_share_a_dataset_and_it_goes_when_it_is_dropped(live):
  f, g = live.function(lambda d: _listed(d)), live.function(lambda one: tf.size(_listed(one)))
  before = len(live.kept_tensors())

  def use():
    d = Dataset.range(3).cache()
    captures = live.function(lambda: _listed(d.take(2)))
    assert len(f(d)) == 3 and g(d) == 3 and len(captures()) == 2
    assert len(live.kept_tensors()) == before + 1
    return d
  d = use()
  gc.collect()
  assert len(f(d)) == 3
  assert len(live.kept_tensors()) == before + 1
  del d
  gc.collect()
  f(Dataset.range(1))
  assert len(live.kept_tensors()) <= before + 1


@pytest.mark.parametrize("sizes", ([0], [-1], [2, -1], []))
def test_batches_of_no_size_are_refused(function, sizes):
  """TensorFlow crashes, or goes on for ever."""
  f = function(lambda sizes: _listed(Dataset.range(9).batch(4).rebatch(sizes)))
  with pytest.raises(tf.errors.InvalidArgumentError, match="batch_sizes"):
    f(tf.constant(sizes, tf.int64))


def test_a_dataset_that_uses_a_variable_is_refused(function):
  v = tf.Variable(3, dtype=tf.int64)
  d = Dataset.range(3).map(lambda i: i + v)
  with pytest.raises(tf.errors.UnimplementedError, match="uses a tf.Variable: make the dataset"):
    function(lambda: _listed(d))()


def test_a_generator_runs_here(function):
  def numbers():
    yield from (5, 6, 7)
  d = Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
  f = function(lambda: _listed(d))
  assert f().numpy().tolist() == [5, 6, 7]
  assert f().numpy().tolist() == [5, 6, 7]
  g = function(lambda d: _listed(d))
  assert g(d).numpy().tolist() == [5, 6, 7]


def _summed(d):
  """Of ragged or sparse elements; told apart by where values stand."""
  total = tf.constant(0, tf.int64)
  for x in d:
    dense = x.to_tensor() if isinstance(x, tf.RaggedTensor) else tf.sparse.to_dense(x)
    total = total * 100 + tf.reduce_sum(dense * tf.range(1, tf.shape(dense, tf.int64)[-1] + 1))
  return total


def test_datasets_of_ragged_and_sparse_tensors(function):
  slices = Dataset.from_tensor_slices
  ragged = [tf.ragged.constant(x, dtype=tf.int64) for x in (
      [[[1], [2, 3]], [[], [4]]], [[[1], [2, 4]], [[], [4]]], [[[1, 2], [3]], [[4], []]])]
  sparse = [tf.sparse.from_dense(tf.constant(x, tf.int64)) for x in (
      [[1, 0], [0, 2]], [[0, 1], [0, 2]])]
  captured = [slices(x) for x in ragged + sparse]
  captured += [slices(ragged[0]).map(lambda x: x * 2), slices(sparse[0]).batch(2),
               Dataset.from_tensors(ragged[1]).repeat(2)]
  given = function(_summed)
  for d in captured:
    want = _summed(d)
    assert given(d) == want
    assert given(iter(d)) == want
    assert function(lambda d=d: _summed(d))() == want


# -------------------------------------------------------------------------------------- iterators
def test_an_iterator_goes_on_from_call_to_call_and_here(function):
  it = iter(Dataset.range(6).map(lambda i: (i, tf.as_string(i))))

  @function
  def captured():
    return next(it)[0]

  @function
  def given(it):
    return next(it)[1]

  assert captured() == 0
  assert given(it) == b"1"
  assert [x.numpy() for x in next(it)] == [2, b"2"]
  assert captured() == 3
  assert [x.numpy() for x in it.get_next_as_optional().get_value()] == [4, b"4"]
  assert [[x.numpy() for x in rest] for rest in it] == [[5, b"5"]]
  assert not it.get_next_as_optional().has_value()
  with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
    given(it)
  with pytest.raises(StopIteration):
    next(it)


def test_a_loop_over_a_given_iterator(function):
  @function
  def f(it, n):
    total = tf.constant(0, tf.int64)
    for _ in tf.range(n):
      total += next(it)
    return total

  it = iter(Dataset.range(10))
  assert f(it, tf.constant(3)) == 3
  assert f(it, tf.constant(2)) == 7
  assert f(iter(Dataset.range(10)), tf.constant(2)) == 1


def test_an_iterator_that_was_used_here_is_refused(function):
  f = function(lambda it: next(it))
  it = iter(Dataset.range(3))
  next(it)
  with pytest.raises(tf.errors.FailedPreconditionError, match="make another by iter"):
    f(it)
  it = iter(Dataset.range(3))
  tf.function(lambda it: next(it))(it)
  with pytest.raises(tf.errors.FailedPreconditionError, match="make another by iter"):
    f(it)


def test_a_local_function_cannot_use_an_iterator_that_is_there(function):
  it = iter(Dataset.range(3))
  assert function(lambda: next(it))() == 0
  with pytest.raises(tf.errors.FailedPreconditionError, match="runs in this process"):
    tf.function(lambda: next(it))()
  assert next(it) == 1


def test_an_iterator_that_is_dropped_goes(live):
  names = lambda: {r.name for r in live._resources() if r.kind == "iterator"}
  before = names()

  def use():
    it = iter(Dataset.range(3))
    live.function(lambda it: next(it))(it)
    assert len(names() - before) == 1
  use()
  gc.collect()
  it = iter(Dataset.range(3))
  f = live.function(lambda it: next(it))
  f(it)
  assert len(names() - before) == 1


def test_after_clear_an_iterator_begins_anew(live):
  it, d = iter(Dataset.range(3)), Dataset.range(4)
  f = live.function(lambda: next(it))
  g = live.function(lambda: _listed(d))
  assert f() == 0 and len(g()) == 4
  live.clear()
  assert f() == 0 and len(g()) == 4


def test_a_deadline_ends_a_parallel_map(live):
  x = tf.random.stateless_normal([256, 256], [1, 2])

  def costly(i):
    return tf.reduce_sum(tf.matmul(x, x)) + tf.cast(i, tf.float32)

  f = live.function(lambda: Dataset.range(10 ** 9).map(costly, num_parallel_calls=8).reduce(
      0., lambda a, b: a + b), timeout=0.5)
  start = time.monotonic()
  with pytest.raises(tf.errors.DeadlineExceededError):
    f()
  assert time.monotonic() - start < 5
