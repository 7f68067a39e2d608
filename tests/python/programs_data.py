"""More programs for test_function.py: datasets and iterators that are made inside a function."""
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from programs import caught
from programs import program

Dataset = tf.data.Dataset


def _gathered(d, dtype=tf.int64):
  """What a dataset of scalars or vectors gives, one behind the other; in a function."""
  return d.reduce(tf.zeros([0], dtype),
                  lambda all_, x: tf.concat([all_, tf.reshape(x, [-1])], 0))


@program
def elements_of_datasets(function):
  values = tf.constant([[1, 2], [3, 4], [5, 6]], tf.int64)

  @function
  def f(n, x):
    r = Dataset.range(n)
    pairs = Dataset.zip((r, Dataset.from_tensor_slices(x)))
    return [
        _gathered(r), _gathered(Dataset.range(10, 0, -3)), _gathered(r.map(lambda i: i * i)),
        _gathered(r.filter(lambda i: i % 3 != 0)), _gathered(r.skip(2).take(3)),
        _gathered(r.take(-1)), _gathered(r.skip(-1)), _gathered(r.repeat(2)),
        _gathered(r.concatenate(Dataset.range(2))), _gathered(r.shard(3, 1)),
        _gathered(pairs.map(lambda i, row: row * i)),
        _gathered(Dataset.from_tensors(x).map(lambda y: y + 1)),
        _gathered(r.take_while(lambda i: i < 4)), _gathered(r.map(lambda i: i % 3).unique()),
        _gathered(r.batch(3).map(tf.reduce_sum)),
        _gathered(r.batch(3, drop_remainder=True).unbatch()),
        _gathered(r.scan(tf.constant(0, tf.int64), lambda s, i: (s + i, s * 10 + i))),
        _gathered(r.flat_map(Dataset.range)), _gathered(r.prefetch(2).cache().repeat(2)),
        _gathered(r.interleave(lambda i: Dataset.range(i), cycle_length=3, block_length=2)),
        _gathered(r.interleave(lambda i: Dataset.from_tensors(i).repeat(3), cycle_length=4,
                               num_parallel_calls=2)),
        _gathered(r.map(lambda i: i + 1, num_parallel_calls=2).prefetch(tf.data.AUTOTUNE)),
        _gathered(r.enumerate(start=5).map(lambda k, i: k * i)),
    ]

  return [f(tf.constant(n, tf.int64), values) for n in (0, 1, 7, 8)]


def _costly(i):
  """i, after some time."""
  x = tf.fill([64, 64], tf.cast(i % 7, tf.float32))
  for _ in range(4):
    x = tf.tanh(tf.matmul(x, x))
  return i + tf.cast(x[0, 0] > 2, tf.int64)


def _used(d):
  """As _gathered, and takes its time."""
  return d.reduce(tf.zeros([0], tf.int64),
                  lambda all_, x: tf.concat([all_, tf.reshape(_costly(x), [-1])], 0))


@program
def elements_made_ahead(function):
  @function
  def f(n):
    d = Dataset.range(n).map(_costly)
    inner = lambda i: Dataset.range(i % 4).map(lambda j: _costly(i * 10 + j)).prefetch(2)
    return [
        _used(d.prefetch(1)), _used(d.prefetch(tf.data.AUTOTUNE)), _used(d.prefetch(0)),
        _used(d.prefetch(2).map(_costly).prefetch(3)), _used(d.batch(3).prefetch(2).unbatch()),
        _used(d.prefetch(1 << 40).repeat(2)), _used(d.repeat(2).prefetch(5).take(30)),
        _used(Dataset.zip((d.prefetch(1), d.skip(3).prefetch(4))).map(lambda a, b: a * 100 + b)),
        _used(d.flat_map(inner)), _used(d.flat_map(inner).prefetch(3)),
        _used(d.shuffle(5, seed=3).repeat(2).prefetch(4)), _used(d.prefetch(4).shuffle(5, seed=3)),
        _used(d.interleave(inner, cycle_length=3, num_parallel_calls=tf.data.AUTOTUNE)),
        _used(d.window(4).flat_map(lambda w: w.prefetch(2))), _used(d.prefetch(2).cache().repeat(2)),
        _used(d.map(_costly, num_parallel_calls=2).prefetch(2)),
        _used(d.take_while(lambda i: i < 9).prefetch(3)), _used(d.concatenate(d).prefetch(2)),
        d.prefetch(3).cardinality(), d.prefetch(0).cardinality(),
    ]

  return [f(tf.constant(n, tf.int64)) for n in (0, 1, 20)]


@program
def loops_over_prefetched_datasets(function):
  seen = tf.Variable(0, dtype=tf.int64)
  table = tf.constant([3, 1, 4, 1, 5], tf.int64)

  @function
  def f(n, most):
    d = Dataset.range(n).map(lambda i: _costly(tf.gather(table, i))).prefetch(2)
    total = tf.constant(0, tf.int64)
    for x in d:
      seen.assign_add(1)
      total = total * 10 + _costly(x)
      if seen >= most:
        break
    return total

  @function
  def size(n):
    from tensorflow.python.data.ops import dataset_ops
    d = Dataset.range(3)
    variant = tf.raw_ops.PrefetchDataset(
        input_dataset=d._variant_tensor, buffer_size=n, output_types=[tf.int64], output_shapes=[[]])
    return _used(dataset_ops._VariantDataset(variant, d.element_spec))

  five, many = tf.constant(5, tf.int64), tf.constant(100, tf.int64)
  return (f(five, many), seen.numpy(), caught(f, five + 1, many), seen.numpy(), f(five, five * 2),
          seen.numpy(), f(five, seen + 3), seen.numpy(), caught(size, five * 0 - 2), size(five * 0 - 1))


@program
def no_elements_of_strings(function):
  return [function(lambda: tf.zeros([0], tf.string))(),
          function(lambda: tf.zeros([2, 0], tf.string))()]


@program
def elements_that_are_compressed(function):
  from tensorflow.python.data.experimental.ops import compression_ops
  spec = {"n": tf.TensorSpec([], tf.int64), "text": tf.TensorSpec([None], tf.string)}

  @function
  def f(n):
    d = Dataset.range(n).map(lambda i: compression_ops.compress(
        {"n": i, "text": tf.fill([i], tf.as_string(i))}))
    back = d.map(lambda element: compression_ops.uncompress(element, spec))
    texts = back.reduce("", lambda all_, e: all_ + tf.strings.reduce_join(e["text"]))
    return _gathered(back.map(lambda e: e["n"])), texts

  @function
  def wrong(types):
    return tf.raw_ops.UncompressElement(
        compressed=compression_ops.compress((tf.constant(1), tf.constant("a"))),
        output_types=types, output_shapes=[[]] * len(types))

  return [f(tf.constant(n, tf.int64)) for n in (0, 4)] + [
      caught(lambda types=types: wrong(types)) for types in (
          (tf.int32, tf.string), (tf.int32,), (tf.int64, tf.string))]


@program
def elements_by_their_index(function):
  def at(d, i):
    return tf.raw_ops.GetElementAtIndex(dataset=d._variant_tensor, index=i,
                                        output_types=[tf.int64], output_shapes=[[]])[0]

  @function
  def f(i):
    r = Dataset.range(5)
    return at(r, i), at(r.map(lambda x: x * x).repeat(2), i), at(r.concatenate(r).skip(2), i)

  return [caught(f, tf.constant(i, tf.int64)) for i in (0, 3, 4, 5, -1)]


@program
def maps_several_at_once(function):
  """Costly enough to be run side by side; some of one fail."""
  def costly(i):
    x = tf.fill([128, 128], tf.cast(i, tf.float32) / 100)
    for _ in range(3):
      x = tf.matmul(x, x) / 128
    return i * 2 + tf.cast(tf.reduce_sum(x) > 1e30, tf.int64)

  def failing(i):
    return tf.gather(tf.range(20, dtype=tf.int64), costly(i))

  @function
  def f(n):
    r = Dataset.range(n)
    return [_gathered(r.map(costly, num_parallel_calls=k)) for k in (1, 3, tf.data.AUTOTUNE)] + [
        _gathered(r.map(failing, num_parallel_calls=4).ignore_errors()),
        _gathered(r.map(costly, num_parallel_calls=2).map(costly, num_parallel_calls=5).take(9))]

  return [f(tf.constant(n, tf.int64)) for n in (0, 1, 7, 40)]


@program
def batches_of_all_kinds(function):
  def text(*components):
    return tf.strings.join([tf.strings.reduce_join(tf.reshape(
        x if x.dtype == tf.string else tf.as_string(x), [-1]), separator=",")
                            for x in components], ";")

  @function
  def f(n):
    r = Dataset.range(n)
    pairs = r.map(lambda i: (tf.as_string(i), tf.fill([3], i), i % 2 == 0))
    lines = r.map(lambda i: tf.strings.split(
        [tf.strings.join([tf.as_string(i), tf.as_string(i * i)], " ")]).values[:i % 3])
    wide = r.map(lambda i: tf.fill([i % 3, 2], i))
    return [_gathered(d.map(text), tf.string) for d in (
        pairs.batch(4), pairs.batch(1), pairs.batch(100), lines.padded_batch(3),
        lines.padded_batch(3, padding_values="-", padded_shapes=[4]), wide.padded_batch(2),
        pairs.batch(3).unbatch().batch(2, drop_remainder=True))]

  return [f(tf.constant(n, tf.int64)) for n in (0, 1, 9)]


@program
def batches_of_other_sizes(function):
  def lengths(d):
    return _gathered(d.map(lambda x: tf.size(x, tf.int64)))

  @function
  def f(n, size):
    batches = Dataset.range(n).batch(4)
    pairs = Dataset.zip((batches, batches.map(tf.strings.as_string))).rebatch(size)
    ragged = Dataset.range(n).map(lambda i: tf.fill([i % 3, 2], i))
    return [_gathered(batches.rebatch(size)), lengths(batches.rebatch(size)),
            lengths(batches.rebatch([size, 1])), lengths(batches.rebatch([0, size, 2])),
            lengths(batches.rebatch(size, drop_remainder=True)),
            _gathered(pairs.map(lambda i, text: i + tf.cast(tf.strings.length(text), tf.int64))),
            _gathered(ragged.rebatch(size)), batches.rebatch(size).cardinality()]

  return [f(tf.constant(n, tf.int64), tf.constant(k, tf.int64))
          for n, k in ((0, 3), (9, 3), (9, 4), (9, 100), (8, 1))]


@program
def elements_of_lists(function):
  from_list = tf.data.experimental.from_list

  @function
  def f(x):
    pairs = from_list([(x, "a"), (x + 1, "bb")])
    return [_gathered(from_list([x, x * 2, x * 3])), pairs.cardinality(),
            _gathered(pairs.map(lambda i, text: i + tf.cast(tf.strings.length(text), tf.int64)))]

  return f(tf.constant(5, tf.int64))


@program
def elements_of_older_transformations(function):
  """Those that tf.data.experimental, its files of text and its Keras-like helpers still make."""
  experimental = tf.data.experimental
  sums = experimental.Reducer(lambda key: key * 100, lambda total, x: total + x,
                              lambda total: -total)

  @function
  def f(n):
    r = Dataset.range(n)
    return [
        _gathered(r.apply(experimental.parallel_interleave(
            lambda i: Dataset.from_tensors(i).repeat(3), cycle_length=3, block_length=2))),
        _gathered(r.apply(experimental.map_and_batch(lambda i: i * i, 3))),
        _gathered(r.apply(experimental.map_and_batch(lambda i: i * i, 3, drop_remainder=True,
                                                     num_parallel_calls=2))),
        _gathered(r.apply(experimental.shuffle_and_repeat(4, count=3, seed=5))),
        _gathered(r.apply(experimental.group_by_reducer(lambda i: i * i % 5, sums))),
        _gathered(Dataset.random(seed=6, rerandomize_each_iteration=True).take(3).repeat(2)),
        _gathered(Dataset.random(seed=6, rerandomize_each_iteration=False).take(3).repeat(2))]

  return [f(tf.constant(n, tf.int64)) for n in (1, 7, 9)]


@program
def elements_of_parsed_examples(function):
  def example(**features):
    kinds = {int: lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v)),
             float: lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v)),
             bytes: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v))}
    return tf.train.Example(features=tf.train.Features(feature={
        name: kinds[type(values[0])](values) for name, values in features.items()
        if values})).SerializeToString()

  examples = [example(z=[i], a=[i + 0.5, 2.], words=[b"w"] * (i % 3), tail=list(range(i)))
              for i in range(1, 8)]
  features = {"z": tf.io.FixedLenFeature([], tf.int64), "a": tf.io.FixedLenFeature([2], tf.float32),
              "words": tf.io.VarLenFeature(tf.string), "tail": tf.io.RaggedFeature(tf.int64),
              "none": tf.io.FixedLenFeature([], tf.float32, default_value=7.)}

  @function
  def f(serialized):
    d = Dataset.from_tensor_slices(serialized).batch(3)
    d = d.apply(tf.data.experimental.parse_example_dataset(features, num_parallel_calls=2))
    total = tf.zeros([5])
    for e in d:
      words = tf.sparse.to_dense(e["words"])
      tail = e["tail"].to_tensor()
      total += tf.stack([
          tf.cast(tf.reduce_sum(e["z"]), tf.float32), tf.reduce_sum(e["a"]),
          tf.cast(tf.reduce_sum(tf.strings.length(words)) + tf.size(words), tf.float32),
          tf.cast(tf.reduce_sum(tail), tf.float32), tf.reduce_sum(e["none"])])
    return total

  good = tf.constant(examples)
  return f(good), f(good[:1]), caught(f, tf.constant([b"x"]))


@program
def all_elements_shuffled(function):
  """In an order of the server's own."""
  from tensorflow.python.data.experimental.ops import global_shuffle_op

  @function
  def f(n):
    r = global_shuffle_op._global_shuffle(Dataset.range(n).map(lambda i: i * i), seed=7)
    once = global_shuffle_op._global_shuffle(Dataset.range(20), seed=7, reshuffle_each_iteration=False)
    both = _gathered(once.repeat(2))
    return tf.sort(_gathered(r)), r.cardinality(), tf.reduce_all(both[:20] == both[20:]), (
        tf.reduce_any(both[:20] != tf.range(20, dtype=tf.int64)))

  return [caught(f, tf.constant(n, tf.int64)) for n in (9, 1, 0)]


@program
def batches_as_sparse_tensors(function):
  @function
  def f(n, size):
    r = Dataset.range(n).map(lambda i: tf.fill([i % 4, 2], i))
    texts = Dataset.range(n).map(lambda i: tf.fill([i % 3], tf.as_string(i)))
    of = tf.zeros([0], tf.int64), tf.zeros([0], tf.int64), tf.zeros([0], tf.int64)
    return r.sparse_batch(size, [5, 2]).reduce(of, lambda state, s: tuple(
        tf.concat([a, tf.reshape(b, [-1])], 0)
        for a, b in zip(state, (s.indices, s.values, s.dense_shape)))), _gathered(
            texts.sparse_batch(2, [None]).map(lambda s: tf.sparse.to_dense(s, "-")), tf.string)

  five, two = tf.constant(5, tf.int64), tf.constant(2, tf.int64)
  return [f(five, two), f(five * 2, five), f(two * 0, two), caught(f, two, two * 0)]


@program
def batches_and_windows(function):
  @function
  def f(n):
    r = Dataset.range(n)
    ragged = r.map(lambda i: tf.fill([i % 4], i))
    windows = r.window(4, shift=3, stride=2).flat_map(lambda w: w.batch(4))
    whole = r.window(4, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(4))
    groups = r.group_by_window(lambda i: i % 3, lambda k, w: w.batch(4).map(lambda b: b + k * 100),
                               window_size=2)
    chosen = Dataset.choose_from_datasets(
        [r, r.map(lambda i: -i)], Dataset.range(2 * n).map(lambda i: i % 2),
        stop_on_empty_dataset=False)
    return [_gathered(ragged.padded_batch(3)),
            _gathered(ragged.padded_batch(3, padded_shapes=[5], padding_values=tf.constant(
                -1, tf.int64), drop_remainder=True)),
            _gathered(windows), _gathered(whole), _gathered(groups), _gathered(chosen)]

  return [f(tf.constant(n, tf.int64)) for n in (0, 5, 12)]


@program
def shuffled_with_seeds(function):
  @function
  def f(n):
    r = Dataset.range(n)
    again = r.shuffle(5, seed=3)
    same = r.shuffle(4, seed=7, reshuffle_each_iteration=False)
    return [_gathered(r.shuffle(100, seed=1)), _gathered(r.shuffle(3, seed=42)),
            _gathered(again.repeat(3)), _gathered(same.repeat(2)), _gathered(again),
            _gathered(Dataset.random(seed=9).take(6)),
            _gathered(r.shuffle(3, seed=1).batch(4).shuffle(2, seed=2))]

  return [f(tf.constant(n, tf.int64)) for n in (1, 20)]


@program
def sizes_of_datasets(function):
  @function
  def f(n):
    r = Dataset.range(n)
    ds = [r, r.repeat(), r.repeat(3), r.filter(lambda i: i > 2), r.batch(4), r.take(2), r.skip(2),
          r.batch(4, drop_remainder=True), r.map(lambda i: i), r.flat_map(Dataset.range),
          r.repeat().take(5), Dataset.zip((r, r.repeat())), r.concatenate(r.repeat()),
          r.window(3, drop_remainder=True), r.shard(3, 0), r.unique(), r.shuffle(2),
          Dataset.from_tensors(0), r.repeat().batch(2), r.take_while(lambda i: i > 0)]
    return [d.cardinality() for d in ds]

  return f(tf.constant(10, tf.int64)), f(tf.constant(0, tf.int64))


@program
def loops_over_datasets(function):
  @function
  def f(n):
    total, rows = tf.constant(0, tf.int64), tf.TensorArray(tf.int64, 0, dynamic_size=True)
    for i in Dataset.range(n):
      if i % 2 == 0:
        continue
      if i > 8:
        break
      total += i
      rows = rows.write(rows.size(), i * 2)
    for batch in Dataset.range(n).batch(3):
      total += tf.reduce_max(batch)
    return total, rows.stack()

  return f(tf.constant(3, tf.int64)), f(tf.constant(20, tf.int64))


@program
def iterators_in_functions(function):
  @function
  def f(n):
    it = iter(Dataset.range(n))
    first = next(it)
    rest = it.get_next_as_optional()
    return first, rest.has_value(), it.get_next()

  @function
  def single(d):
    return tf.data.Dataset.range(d).get_single_element()

  one = tf.constant(1, tf.int64)
  return (f(tf.constant(5, tf.int64)), caught(f, tf.constant(2, tf.int64)),
          caught(f, tf.constant(0, tf.int64)), single(one), caught(single, one * 2),
          caught(single, one * 0))


@program
def variables_in_datasets(function):
  v, seen = tf.Variable(10, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

  @function
  def f(n):
    def note(i):
      seen.assign_add(1)
      return i * v
    d = Dataset.range(n).map(note)
    before = _gathered(d)
    v.assign(100)
    return before, _gathered(d), seen.read_value()

  return f(tf.constant(3, tf.int64)), f(tf.constant(2, tf.int64)), v, seen


@program
def errors_of_datasets(function):
  @function
  def f(n, size):
    def checked(i):
      tf.debugging.assert_less(i, tf.constant(3, tf.int64))
      return i
    return _gathered(Dataset.range(n).map(checked).batch(size))

  @function
  def shapes(n):
    return _gathered(Dataset.range(n).map(lambda i: tf.fill([i], i)).batch(2))

  @function
  def strides(step):
    return _gathered(Dataset.range(0, 5, step))

  two = tf.constant(2, tf.int64)
  return (f(two, two), caught(f, two * 2, two), caught(f, two, two * 0), caught(shapes, two),
          caught(strides, two * 0))


@program
def iterators_outlive_calls(function):
  spec = dict(output_types=[tf.int64], output_shapes=[[]])

  def iterator():
    return tf.raw_ops.IteratorV2(shared_name="outlives", container="", **spec)

  @function
  def begin(n):
    variant = Dataset.range(n).map(lambda i: i * 10)._variant_tensor
    tf.raw_ops.MakeIterator(dataset=variant, iterator=iterator())
    return n

  @function
  def after():
    return tf.raw_ops.IteratorGetNext(iterator=iterator(), **spec)

  @function
  def once():
    d = Dataset.range(2).map(lambda i: i - 7)
    return tf.compat.v1.data.make_one_shot_iterator(d).get_next()

  two = tf.constant(2, tf.int64)
  return (caught(after), begin(two), after(), after(), caught(after), begin(two), after(),
          once(), once(), caught(once))


@program
def functions_of_rows(function):
  spec = tf.TensorSpec

  def mapped(f, arguments, captured, dtypes, shapes, *specs):
    of_row = tf.function(f).get_concrete_function(*specs)

    @function
    def g(*arguments):
      return tf.raw_ops.MapDefun(arguments=arguments, captured_inputs=captured, output_types=dtypes,
                                 output_shapes=shapes, f=of_row)
    return caught(g, *map(tf.constant, arguments))

  ints, none = spec([], tf.int32), tf.zeros([0], tf.int32)
  return [
      mapped(lambda x: x * 2 + 1, [[[1., 2.], [3., 4.]]], [], [tf.float32], [[2]], spec([2])),
      mapped(lambda x, y: (x + y, x - y), [[1, 2, 3], [4, 5, 6]], [], [tf.int32] * 2, [[], []], ints,
             ints),
      mapped(lambda x, y: x + y, [[1, 2, 3]], [tf.constant([10, 20])], [tf.int32], [[2]], ints,
             spec([2], tf.int32)),
      mapped(lambda x: x, [["a", "b"]], [], [tf.string], [[]], spec([], tf.string)),
      mapped(tf.range, [[2, 2]], [], [tf.int32], [[None]], ints),
      mapped(tf.range, [[1, 2]], [], [tf.int32], [[None]], ints),
      mapped(tf.range, [[2, 2]], [], [tf.int32], [[3]], ints),
      mapped(tf.range, [none], [], [tf.int32], [[4]], ints),
  ]


def _made_by(op, d, dtype=tf.int64, shape=(), **inputs):
  """What an op that has no function of tf.data makes of a dataset, or of several."""
  name = "input_datasets" if isinstance(d, list) else "input_dataset"
  of = [x._variant_tensor for x in d] if isinstance(d, list) else d._variant_tensor
  spec = {"output_types": [dtype], "output_shapes": [shape]}
  return dataset_ops._VariantDataset(op(**{name: of}, **inputs, **spec), tf.TensorSpec(shape, dtype))


@program
def datasets_of_old_ops(function):
  raw = tf.raw_ops

  def rebatched(d, n):
    @function
    def f(n):
      made = _made_by(raw.RebatchDataset, d(), shape=[None], num_replicas=n)
      return (made.reduce(tf.zeros([0], tf.int64), lambda all_, x: tf.concat([all_, x, [-1]], 0)),
              made.cardinality())
    return caught(f, tf.constant(n, tf.int64))

  r = Dataset.range
  results = [rebatched(lambda: r(10).batch(4), n) for n in [1, 2, 3, 7, 20, 0, -1]]
  results += [rebatched(lambda: r(7).batch(5, drop_remainder=True), 2), rebatched(lambda: r(3), 2),
              rebatched(lambda: r(0).batch(2), 2)]

  @function
  def passed_on(tag):
    return [_gathered(d) for d in (
        _made_by(raw.BytesProducedStatsDataset, r(3), tag=tag),
        _made_by(raw.LatencyStatsDataset, r(3), tag=tag),
        _made_by(raw.NonSerializableDataset, r(3)))]

  results += [caught(passed_on, tf.constant("t")), caught(passed_on, tf.constant(["t"]))]

  def chosen(*datasets):
    @function
    def f():
      d = _made_by(raw.ChooseFastestDataset, [d() for d in datasets], num_experiments=2)
      return _gathered(d), d.cardinality()
    return caught(f)

  five = lambda: r(5)
  return results + [
      chosen(five, lambda: r(5).map(lambda x: x)), chosen(five, lambda: r(5).filter(lambda x: True)),
      chosen(five, lambda: r(6)), chosen(five, lambda: r(5).map(lambda x: tf.cast(x, tf.int32))),
      chosen(lambda: r(5).batch(2), five)]
