"""Datasets and iterators of this process that a function on the server captures or is given."""
import gc
import threading
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


def _tables():
  """Lookup tables of each kind: {name: what finds the numbers of words}."""
  words, numbers = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
  initializer = lambda: tf.lookup.KeyValueTensorInitializer(words, numbers)
  mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
  dense = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, "", "-")
  for table in (mutable, dense):
    table.insert(words, numbers)
  return {"static": tf.lookup.StaticHashTable(initializer(), -1).lookup, "mutable": mutable.lookup,
          "dense": dense.lookup, "vocabulary": tf.lookup.StaticVocabularyTable(
              tf.lookup.KeyValueTensorInitializer(words, numbers - 1), 3).lookup}


@pytest.mark.parametrize("kind", _tables())
def test_datasets_that_use_a_table(function, kind):
  find = _tables()[kind]
  words = Dataset.from_tensor_slices(["b", "c", "a", "x"])
  given = function(lambda d: _listed(d))
  for d in (words.map(find), words.batch(3).map(find, num_parallel_calls=2).prefetch(1),
            words.map(find).shuffle(4, seed=3, reshuffle_each_iteration=False),
            words.flat_map(lambda w: Dataset.range(2).map(lambda i: find(w) * 10 + i)),
            words.filter(lambda w: find(w) > 0).map(find)):
    want = _listed(d).numpy().tolist()
    assert given(d).numpy().tolist() == want
    assert function(lambda d=d: _listed(d))().numpy().tolist() == want


def test_a_dataset_sees_what_a_variable_is_now(function):
  v, w = tf.Variable(3, dtype=tf.int64), tf.Variable(1, dtype=tf.int64)
  inner = Dataset.range(2).map(lambda i: i * w)
  d = Dataset.range(3).map(lambda i: i + v).concatenate(Dataset.range(1).flat_map(lambda _: inner))
  captures, given = function(lambda: _listed(d)), function(lambda d: _listed(d))
  assert captures().numpy().tolist() == [3, 4, 5, 0, 1]
  v.assign(10)
  assert given(d).numpy().tolist() == captures().numpy().tolist() == [10, 11, 12, 0, 1]

  @function
  def change(by):
    before = _listed(d)
    v.assign_add(by)
    w.assign(2)
    return before, _listed(d)

  before, after = change(tf.constant(5, tf.int64))
  assert before.numpy().tolist() == [10, 11, 12, 0, 1]
  assert after.numpy().tolist() == [15, 16, 17, 0, 2]
  assert v == 15 and _listed(d).numpy().tolist() == [15, 16, 17, 0, 2]


def test_a_dataset_changes_variables_and_tables(function):
  seen = tf.Variable(0, dtype=tf.int64)
  counts = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)

  def count(i):
    seen.assign_add(1)
    counts.insert(i % 2, counts.lookup(i % 2) + 1)
    return seen + 0

  d = Dataset.range(5).map(count)
  captures, given = function(lambda: _listed(d)), function(lambda d: _listed(d))
  assert captures().numpy().tolist() == [1, 2, 3, 4, 5]
  assert seen == 5
  assert given(d).numpy().tolist() == [6, 7, 8, 9, 10]
  assert seen == 10 and counts.lookup(tf.constant([0, 1], tf.int64)).numpy().tolist() == [6, 4]

  @function
  def both():
    before = seen.read_value()
    last = d.reduce(tf.constant(0, tf.int64), lambda _, i: i)
    return before, last, seen.read_value()

  assert [int(x) for x in both()] == [10, 15, 15]


def test_an_iterator_of_a_dataset_that_uses_a_variable(function):
  v = tf.Variable(3, dtype=tf.int64)
  it = iter(Dataset.range(9).map(lambda i: i * v))
  captures, given = function(lambda: next(it)), function(lambda it: next(it))
  assert captures() == 0 and given(it) == 3
  v.assign(100)
  assert captures() == 200 and next(it) == 300
  function(lambda: v.assign(1))()
  assert given(it) == 4 and next(it) == 5 and next(it) == 6


def test_a_prefetch_does_not_run_ahead_of_what_a_loop_writes(function):
  v = tf.Variable(0, dtype=tf.int64)

  def costly(i):
    x = tf.fill([64, 64], tf.cast(i % 7, tf.float32))
    for _ in range(4):
      x = tf.tanh(tf.matmul(x, x))
    return i + tf.cast(x[0, 0] > 2, tf.int64)

  @function
  def f():
    wrong = tf.constant(0, tf.int64)
    for i, seen in Dataset.range(100).map(lambda i: (costly(i), v + 0)).prefetch(4):
      wrong += tf.cast(tf.logical_or(seen != i, costly(seen) != v), tf.int64)
      v.assign_add(1)
    return wrong

  assert f() == 0 and v.numpy() == 100


def test_what_a_dataset_uses_may_be_changed_by_others(live):
  """Calls that are given one take their places at what it uses, in line with those who change it."""
  v = tf.Variable([0, 0], dtype=tf.int64)
  d = Dataset.range(200).map(lambda i: v[0] - v[1])
  differ = live.function(lambda: tf.reduce_any(_listed(d) != 0))
  change = live.function(lambda: v.assign_add([1, 1]))
  change()
  failed = []

  def work():
    for _ in range(20):
      change()

  threads = [threading.Thread(target=work) for _ in range(2)]
  for t in threads:
    t.start()
  for _ in range(20):
    if differ():
      failed.append(1)
  for t in threads:
    t.join()
  assert not failed and v.numpy().tolist() == [41, 41]


def test_a_dataset_of_a_variable_after_clear_and_deletion(live):
  v = tf.Variable(3, dtype=tf.int64)
  d = Dataset.range(2).map(lambda i: i + v)
  captures, given = live.function(lambda: _listed(d)), live.function(lambda d: _listed(d))
  assert captures().numpy().tolist() == given(d).numpy().tolist() == [3, 4]
  live.clear()
  assert captures().numpy().tolist() == given(d).numpy().tolist() == [3, 4]
  live.clear()
  assert given(d).numpy().tolist() == captures().numpy().tolist() == [3, 4]


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
