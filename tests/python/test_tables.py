"""Mutable hash tables: on the server as in TensorFlow, and kept together with those of this process."""
import itertools

import numpy as np
import pytest
import tensorflow as tf

import formwork

Table = tf.lookup.experimental.MutableHashTable

KEYS = {tf.int32: [3, -1, 0, 7], tf.int64: [3, -(2**40), 0, 7], tf.string: ["a", "", "b\0\xff", "c"]}
VALUES = {tf.bool: [True, False, True], tf.int32: [1, -2, 3], tf.int64: [1, -(2**50), 3],
          tf.float32: [0.5, -np.inf, 3], tf.float64: [0.5, 1e300, 3],
          tf.string: ["x", "", "\xfe" * 40]}
# What TensorFlow has kernels for.
PAIRS = [(k, v) for k, v in itertools.product(KEYS, VALUES) if (k, v) not in (
    (tf.int32, tf.bool), (tf.int32, tf.int64), (tf.int32, tf.string), (tf.int64, tf.bool),
    (tf.string, tf.string))]


def _sorted(pair):
  keys, values = (np.asarray(t) for t in pair)
  order = np.argsort(keys)
  return [keys[order].tolist(), values[order].tolist()]


def _default(value, row):
  return tf.constant({tf.string: "none", tf.bool: False}.get(value, 0), value, row)


@pytest.mark.parametrize("row", [[], [2]], ids=["scalars", "vectors"])
@pytest.mark.parametrize("key,value", PAIRS, ids=lambda t: t.name)
def test_a_captured_table_does_as_tensorflows(live, key, value, row):
  keys = tf.constant(KEYS[key], key)
  values = tf.constant(VALUES[value], value)
  if row:
    values = tf.stack([values, values[::-1]], 1)

  def work(table, more):
    table.insert(keys[1:3], values[1:])
    table.insert(tf.stack([keys[2], keys[2]]), values[:2])  # The last one counts.
    before = table.lookup(tf.reshape(keys, [2, 2]))
    table.remove(keys[1:2])
    everything = table.lookup(keys, dynamic_default_values=more)
    return before, everything, table.size(), table.export()

  results = []
  for make in (tf.function, live.function):
    table = Table(key, value, _default(value, row), name="t_%s_%s_%d" % (
        key.name, value.name, len(row)))
    table.insert(keys[:1], values[:1])  # What it holds is sent.
    more = tf.concat([values, values[:1]], 0)
    results.append(make(lambda: work(table, more))())
    results[-1] += (table.export(),)
  local, remote = results
  for want, got in zip(local[:3], remote[:3]):
    np.testing.assert_array_equal(want, got)
    assert want.dtype == got.dtype
  for want, got in zip(local[3:], remote[3:]):
    assert _sorted(want) == _sorted(got)


def test_a_table_here_follows_the_servers_and_goes_with_the_next_call(live):
  table = Table(tf.string, tf.int64, -1)
  table.insert(["a", "b"], tf.constant([1, 2], tf.int64))

  @live.function
  def count(word):
    table.insert(word, table.lookup(word) + 1)
    return table.size()

  look = live.function(lambda word: table.lookup(word))
  assert count(tf.constant(["a", "c"])) == 3
  np.testing.assert_array_equal(table.lookup(tf.constant(["a", "b", "c", "d"])), [2, 2, 0, -1])
  table.insert(["d"], tf.constant([10], tf.int64))
  table.remove(tf.constant(["b"]))
  assert count(tf.constant(["d"])) == 3
  np.testing.assert_array_equal(look(tf.constant(["a", "b", "d"])), [2, -1, 11])
  assert table.size() == 3

  @tf.function
  def here(word):
    table.insert(word, table.lookup(word) * 2)

  here(tf.constant(["d"]))  # It runs in this process, on what the server has.
  np.testing.assert_array_equal(look(tf.constant(["d"])), [22])


def test_a_lookup_alone_fetches_nothing(live):
  table = Table(tf.int64, tf.float32, 0.)
  table.insert([1], [2.])
  look = live.function(lambda key: table.lookup(key))
  assert look(tf.constant([1], tf.int64)).numpy() == [2.]
  (remote,) = (r for r in live._resources() if r.kind == "table")
  calls = {f.name: f.calls for f in live.functions()}
  look(tf.constant([1], tf.int64))
  table.lookup(tf.constant([1], tf.int64))
  after = {f.name: f.calls for f in live.functions()}
  assert sum(after.values()) == sum(calls.values()) + 1
  assert remote.version == 1  # What was sent.


def test_another_process_attaches_to_a_table_that_is_there(live):
  first = Table(tf.string, tf.int64, -1, name="shared")
  first.insert(["a"], tf.constant([1], tf.int64))
  live.function(lambda: first.size())()
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    second = Table(tf.string, tf.int64, -1, name="shared")
    second.insert(["mine"], tf.constant([5], tf.int64))
    look = other.function(lambda word: second.lookup(word))
    np.testing.assert_array_equal(look(tf.constant(["a", "mine"])), [1, -1])
    np.testing.assert_array_equal(second.lookup(tf.constant(["a", "mine"])), [1, -1])
    third = Table(tf.string, tf.float32, -1., name="shared")
    with formwork.connect(live._channel.target, namespace=live.namespace) as another:
      with pytest.raises(tf.errors.InvalidArgumentError, match="table 'shared' exists with"):
        another.function(lambda: third.size())()


def test_a_table_that_a_graph_names_is_the_same_in_all_functions(live):
  def open_table():
    return tf.raw_ops.MutableHashTableV2(
        shared_name="words", key_dtype=tf.string, value_dtype=tf.int64)

  @live.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def learn(words):
    tf.raw_ops.LookupTableInsertV2(
        table_handle=open_table(), keys=words,
        values=tf.range(tf.size(words, out_type=tf.int64)))

  @live.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def look(words):
    return tf.raw_ops.LookupTableFindV2(
        table_handle=open_table(), keys=words, default_value=tf.constant(-1, tf.int64))

  learn(tf.constant(["a", "b"]))
  np.testing.assert_array_equal(look(tf.constant(["b", "z"])), [1, -1])
  (table,) = live._resources()
  assert (table.kind, table.name, table.type) == ("table", "words", "table string[] -> int64[]")
  assert table.nbytes > 0 and live.variables() == []
  with pytest.raises(formwork.Error, match="table 'words' is not a variable"):
    live.read([formwork.Variable(live, _as_variable(table), table._key[0])])
  with pytest.raises(formwork.Error, match="exists with another dtype"):
    live.variable("words", 1.)
  table.delete()
  with pytest.raises(tf.errors.FailedPreconditionError, match="Could not find table words of function"):
    look(tf.constant(["b"]))


def _as_variable(table):
  from formwork.v1 import variables_pb2
  return variables_pb2.VariableInfo(id=table.id, name=table.name, dtype=1)


def test_a_table_of_one_call_goes_with_it(live):
  @live.function
  def count(words):
    table = tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.string, value_dtype=tf.int64)
    other = tf.raw_ops.AnonymousMutableHashTable(key_dtype=tf.string, value_dtype=tf.int64)
    tf.raw_ops.LookupTableInsertV2(
        table_handle=table, keys=words, values=tf.zeros_like(words, tf.int64))
    return (tf.raw_ops.LookupTableSizeV2(table_handle=table),
            tf.raw_ops.LookupTableSizeV2(table_handle=other))

  assert [n.numpy() for n in count(tf.constant(["a", "b", "a"]))] == [2, 0]
  assert [n.numpy() for n in count(tf.constant(["c"]))] == [1, 0]
  assert live._resources() == []


def test_loops_and_branches_use_tables(live):
  table = Table(tf.int64, tf.int64, 0)

  def collatz(n):
    steps = tf.constant(0, tf.int64)
    while n > 1:
      table.insert(n, steps)
      if n % 2 == 0:
        n = n // 2
      else:
        n = 3 * n + 1
      steps += 1
    return steps, table.size()

  steps, size = live.function(collatz)(tf.constant(27, tf.int64))
  assert (steps.numpy(), size.numpy()) == (111, 111)
  assert table.lookup(tf.constant(27 * 3 + 1, tf.int64)).numpy() == 1


def test_what_two_clients_insert_and_remove_meanwhile_is_all_there(live):
  def client(server):
    table = Table(tf.int64, tf.int64, -1, name="shared")

    @server.function
    def call(key):
      table.insert(key, key * 10)

    return table, server.function(lambda: table.export()), call

  def content(export):
    keys, values = export()
    return dict(zip(keys.numpy().tolist(), values.numpy().tolist()))

  def pair(key, value):
    return tf.constant([key], tf.int64), tf.constant([value], tf.int64)

  with formwork.connect(live._channel.target, namespace=live.namespace) as second:
    (mine, my_export, my_call), (theirs, their_export, _) = client(live), client(second)
    assert content(my_export) == content(their_export) == {}
    mine.insert(*pair(1, 1))
    theirs.insert(*pair(2, 2))  # Knows nothing of the first one.
    mine.insert(*pair(3, 3))
    assert content(their_export) == content(my_export) == {1: 1, 2: 2, 3: 3}
    theirs.remove(tf.constant([2, 7], tf.int64))
    mine.insert(tf.constant([[4, 5]], tf.int64), tf.constant([[4, 5]], tf.int64))
    assert content(my_export) == {1: 1, 3: 3, 4: 4, 5: 5}
    # One that is not up to date here is not fetched for it.
    my_call(tf.constant([6], tf.int64))
    mine.insert(*pair(7, 7))
    mine.remove(tf.constant([1], tf.int64))
    np.testing.assert_array_equal(
        mine.lookup(tf.range(8, dtype=tf.int64)), [-1, -1, -1, 3, 4, 5, 60, 7])
    with pytest.raises(tf.errors.InvalidArgumentError):
      mine.insert(tf.constant([1], tf.int64), tf.constant([1, 2], tf.int64))
    assert content(my_export) == {3: 3, 4: 4, 5: 5, 6: 60, 7: 7}


def test_a_table_that_the_server_lost_is_called_one(live):
  table = Table(tf.int64, tf.int64, 0, name="words")
  v = tf.Variable(1, name="v")
  f = live.function(lambda: (table.size(), v + 1))
  f()
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    other.clear()
  for use in (f, lambda: table.insert([1], tf.constant([1], tf.int64))):
    with pytest.raises((tf.errors.FailedPreconditionError, formwork.Error),
                       match=r"lost 1 variable\(s\) and 1 table\(s\) .*\(v, words\)"):
      use()


def test_an_error_names_the_node_and_leaves_the_table(live):
  table = Table(tf.int64, tf.int64, 0)
  table.insert([1], tf.constant([1], tf.int64))

  @live.function
  def bad(keys, values):
    table.insert(keys, values)

  with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected shape \[2\] for value"):
    bad(tf.constant([1, 2], tf.int64), tf.constant([5, 6, 7], tf.int64))
  assert table.size() == 1


def test_a_table_that_nobody_means_any_more_goes(live):
  table = Table(tf.int64, tf.int64, 0)
  f = live.function(lambda: table.size())
  f()
  assert [r.kind for r in live._resources()] == ["table"]
  del table, f
  import gc
  gc.collect()
  v = tf.Variable(1., name="v")
  live.function(lambda: v + 1)()  # Looks after what was dropped.
  for _ in range(100):
    if [r.kind for r in live._resources()] == ["variable"]:
      return
  raise AssertionError(live._resources())


STATIC = [(tf.int32, tf.float32), (tf.int64, tf.int64), (tf.int64, tf.string),
          (tf.string, tf.bool), (tf.string, tf.int64), (tf.string, tf.string)]


@pytest.mark.parametrize("key,value", STATIC, ids=lambda t: t.name)
def test_a_static_table_does_as_tensorflows(live, key, value):
  keys = tf.constant(KEYS[key][:3], key)
  table = tf.lookup.StaticHashTable(
      tf.lookup.KeyValueTensorInitializer(keys, tf.constant(VALUES[value], value)),
      _default(value, []))
  look = lambda more: (table.lookup(more), table.size(), table.export())
  more = tf.reshape(tf.constant(KEYS[key], key), [2, 2])
  want, got = look(more), live.function(look)(more)
  np.testing.assert_array_equal(want[0], got[0])
  assert want[1] == got[1] and _sorted(want[2]) == _sorted(got[2])


def test_static_tables_of_one_name_are_those_that_hold_the_same(live):
  def table(values):
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant(["a", "b"]), tf.constant(values, tf.int64)), -1, name="words")

  first, same, other = table([1, 2]), table([1, 2]), table([5, 6])
  f = live.function(lambda key: (first.lookup(key), same.lookup(key), other.lookup(key)))
  assert [t.numpy() for t in f(tf.constant("b"))] == [2, 2, 6]
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    there = {r.id for r in live._resources()}
    again = table([5, 6])
    assert other.function(lambda key: again.lookup(key))(tf.constant("a")).numpy() == 5
    assert {r.id for r in live._resources()} == there


def test_a_vocabulary_has_buckets_for_what_it_does_not_know(live):
  table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
      ["a", "b"], tf.constant([0, 1], tf.int64)), 3)
  words = tf.ragged.constant([["a", "x"], [], ["b", "y", "z"]])
  assert live.function(table.lookup)(words).to_list() == table.lookup(words).to_list()


DENSE = [(tf.int32, tf.float32), (tf.int64, tf.bool), (tf.int64, tf.int64),
         (tf.string, tf.float64), (tf.string, tf.int64)]


@pytest.mark.parametrize("row", [[], [2]], ids=["scalars", "vectors"])
@pytest.mark.parametrize("key,value", DENSE, ids=lambda t: t.name)
def test_a_dense_table_does_as_tensorflows(live, key, value, row):
  keys = tf.constant(KEYS[key], key)
  reserved = ("$", "%") if key == tf.string else (100, 200)
  values = tf.constant(VALUES[value] + VALUES[value][:1], value)
  if row:
    values = tf.stack([values, values[::-1]], 1)

  def work(table):
    table.insert(keys[1:], values[1:])
    before = table.lookup(keys), table.lookup(keys[0]), table.size()
    # Of a key that is there TensorFlow may keep a second one, where another was removed.
    table.remove(keys[1:2])
    return before + (table.lookup(keys), table.size(), table.export())

  results = []
  for make in (tf.function, live.function):
    table = tf.lookup.experimental.DenseHashTable(
        key, value, _default(value, row), *reserved, initial_num_buckets=4)
    table.insert(keys[:1], values[:1])  # What it holds is sent.
    results.append(make(lambda: work(table))())
    results[-1] += (table.lookup(keys), table.export())
  *local, theirs, here, mine = results[0]
  *remote, ours, back, fetched = results[1]
  for want, got in zip(local + [here], remote + [back]):
    np.testing.assert_array_equal(want, got)
  # What is fetched is put into an array of this process's, where nothing was removed.
  assert sorted(np.asarray(theirs[0]).tolist()) == sorted(np.asarray(ours[0]).tolist())
  for want, got in ((theirs, ours), (mine, fetched)):
    assert [t.shape for t in want] == [t.shape for t in got]
    held = [[(k, v) for k, v in zip(*map(lambda t: np.asarray(t).tolist(), pair))
             if k[0] not in (100, 200, b"$", b"%")] for pair in (want, got)]
    assert sorted(held[0]) == sorted(held[1])


@pytest.mark.parametrize("change,words", [
    (lambda t: t.insert([7], tf.constant([1], tf.int64)), "Using the empty_key as a table key"),
    (lambda t: t.insert([1], t.lookup(tf.constant([8], tf.int64))),
     "Using the deleted_key as a table key"),
    (lambda t: t.remove(tf.constant([7], tf.int64)), "Using the empty_key as a table key")])
def test_a_dense_table_keeps_nothing_under_its_own_keys(live, change, words):
  table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 7, 8)

  def changed():
    change(table)
    return table.size()

  with pytest.raises(tf.errors.InvalidArgumentError, match=words):
    tf.function(changed)()
  with pytest.raises(tf.errors.InvalidArgumentError, match=words):
    live.function(changed)()


@pytest.mark.parametrize("buckets,factor,keys,words", [
    (3, .8, (0, 1), "Number of buckets must be at least 4 and a power of 2, got: 3"),
    (4, 1.5, (0, 1), "max_load_factor must be between 0 and 1, got: 1.5"),
    (4, .8, (1, 1), "Empty and deleted keys cannot be equal"),
    (4, .8, ([1], 1), "Empty and deleted keys must have same shape")])
def test_a_dense_table_that_cannot_be_is_refused(live, buckets, factor, keys, words):
  def make():
    return tf.raw_ops.LookupTableSizeV2(table_handle=tf.raw_ops.AnonymousMutableDenseHashTable(
        empty_key=tf.constant(keys[0], tf.int64), deleted_key=tf.constant(keys[1], tf.int64),
        value_dtype=tf.int64, initial_num_buckets=buckets, max_load_factor=factor))

  for wrap in (tf.function, live.function):
    with pytest.raises(tf.errors.InvalidArgumentError) as refused:
      wrap(make)()
    assert words in str(refused.value)


def test_dense_tables_made_inside_are_each_their_own(live):
  def work():
    made = [tf.raw_ops.AnonymousMutableDenseHashTable(
        empty_key=tf.constant(0, tf.int64), deleted_key=tf.constant(1, tf.int64),
        value_dtype=tf.int64) for _ in range(2)]
    tf.raw_ops.LookupTableInsertV2(table_handle=made[0], keys=tf.constant([5], tf.int64),
                                   values=tf.constant([6], tf.int64))
    return [tf.raw_ops.LookupTableSizeV2(table_handle=t) for t in made]

  assert [t.numpy() for t in live.function(work)()] == [1, 0]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.string], ids=lambda t: t.name)
@pytest.mark.parametrize("row", [(), (2,)], ids=["scalars", "vectors"])
def test_vectors_as_keys(live, dtype, row):
  key = lambda rows: tf.cast(rows, dtype) if dtype.is_integer else tf.strings.as_string(rows)
  keys = key([[0, 1], [1, 2], [1, 3], [1, 0]])
  values = tf.reshape(tf.range(4 * (row or (1,))[0], dtype=tf.float32), (4, *row))

  def work(table, found):
    table.insert(keys, values)
    table.insert(keys[:1], values[3:])
    table.remove(keys[1:2])
    return table.lookup(found), table.size(), table.export()

  results = []
  for make in (tf.function, live.function):
    table = tf.lookup.experimental.DenseHashTable(
        dtype, tf.float32, tf.fill(row, -1.), key([0, 3]), key([9, 9]), initial_num_buckets=8)
    table.insert(key([[5, 5]]), values[:1])  # What it holds is sent.
    found = make(work)(table, key([[0, 1], [1, 2], [5, 5], [7, 7]])) + (
        table.size(), table.lookup(keys), table.export())
    # What TensorFlow exports changes with the table.
    found = tf.nest.map_structure(lambda t: np.array(t.numpy()), found)
    table.insert(key([[6, 6]]), values[1:2])
    table.remove(key([[5, 5]]))
    results.append(found + (make(lambda t, k: t.lookup(k))(table, key([[6, 6], [5, 5]])),))
  for want, got in zip(*results):
    if isinstance(want, (list, tuple)):
      assert want[0].shape == got[0].shape and want[1].shape == got[1].shape
      by_key = lambda pair: sorted(zip(pair[0].tolist(), pair[1].tolist()))
      named = lambda pair: [p for p in by_key(pair) if p[0] not in (
          key([0, 3]).numpy().tolist(), key([9, 9]).numpy().tolist())]
      assert named(want) == named(got)
    else:
      np.testing.assert_array_equal(want, got)


def test_keys_that_are_no_such_vectors(live):
  table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, [0, 0], [1, 1])
  find = live.function(lambda keys: table.lookup(keys))
  with pytest.raises(tf.errors.InvalidArgumentError, match="Expected keys that are vectors of 2"):
    find(tf.constant([[1, 2, 3]], tf.int64))
  with pytest.raises(tf.errors.InvalidArgumentError, match="deleted_key as a table key"):
    find(tf.constant([[1, 2], [1, 1]], tf.int64))
  assert find(tf.zeros([0, 2], tf.int64)).shape == [0]
  # TensorFlow takes rows of keys alone.
  assert find(tf.constant([3, 4], tf.int64)).shape == []
  assert find(tf.zeros([3, 1, 2], tf.int64) + 5).shape == [3, 1]


def test_the_shape_of_what_is_found_by_vectors_is_not_guessed(live):
  table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, [0, 0], [1, 1])
  table.insert([[3, 4]], [5])

  @live.function
  def f(keys):
    found = table.lookup(keys)
    return found, tf.shape(found), tf.ones_like(found)

  found, shape, ones = f(tf.constant([[3, 4], [0, 1], [1, 0]], tf.int64))
  assert found.numpy().tolist() == [5, -1, -1]
  assert shape.numpy().tolist() == [3] and ones.numpy().tolist() == [1, 1, 1]


def test_a_table_that_a_function_makes_while_it_is_traced(live):
  @live.function
  def look(words):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        ["a", "b"], tf.constant([1, 2], tf.int64)), -1)
    known = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
        ["x", "y"], tf.constant([0, 1], tf.int64)), 1)
    return table.lookup(words), known.lookup(words)

  for _ in range(2):
    values, ids = look(tf.constant(["b", "x", "c"]))
    assert values.numpy().tolist() == [2, -1, -1] and ids.numpy().tolist() == [2, 0, 2]


def test_a_dense_table_whose_deleted_key_is_a_nul(live):
  table = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, empty_key="",
                                                deleted_key="\0")

  @live.function
  def change(keys):
    table.insert(keys, tf.constant([1, 2, 3], tf.int64))
    table.remove(keys[:1])
    return table.size()

  keys = tf.constant(["a", "b", "c"])
  assert change(keys) == 2
  assert table.lookup(keys).numpy().tolist() == [-1, 2, 3] and table.size() == 2
