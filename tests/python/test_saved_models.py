"""Functions of SavedModels that tf.saved_model.load gives do on a server as they do here."""
import gc
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import formwork

v1 = tf.compat.v1
lookup = tf.lookup.experimental

_WORDS = ["a", "c", "zz", ""]


def _agree(got, want):
  tf.nest.assert_same_structure(got, want)
  for g, w in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
    assert g.dtype == w.dtype and g.shape == w.shape
    if g.dtype == tf.string:
      np.testing.assert_array_equal(g, w)
    else:
      np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def _check(server, path, args, kwargs, functions=("serving_default",)):
  """Each function of a SavedModel does there as it does here, of another load of the same file."""
  here, there = tf.saved_model.load(path), tf.saved_model.load(path)
  for name in functions:
    local, remote = (m.signatures[name] if name in m.signatures else getattr(m, name)
                     for m in (here, there))
    function = server.function(remote)
    for _ in range(2):
      _agree(function(*args, **kwargs), local(*args, **kwargs))
  return there


def _vocabulary(folder):
  path = folder / "vocabulary.txt"
  path.write_text("a\nb\nc\n")
  return str(path)


def _from_file(folder):
  index = tf.lookup.TextFileIndex
  return tf.lookup.TextFileInitializer(
      _vocabulary(folder), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)


def test_what_keras_exported(live, tmp_path):
  model = keras.Sequential([
      keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(),
      keras.layers.Dense(3)])
  model(tf.random.normal([20, 4]), training=True)
  model.export(tmp_path / "m", verbose=False)
  _check(live, tmp_path / "m", [tf.random.normal([5, 4])], {}, ["serving_default", "serve"])


def test_a_keras_model_of_texts(live, tmp_path):
  words = keras.layers.TextVectorization(max_tokens=20, output_sequence_length=6)
  words.adapt(["the cat sat", "on the mat"])
  model = keras.Sequential([
      keras.layers.Input((), dtype="string"), words, keras.layers.Embedding(20, 4),
      keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)])
  model.export(tmp_path / "m", verbose=False)
  _check(live, tmp_path / "m", [tf.constant(["the cat", "a dog on the mat", ""])], {},
         ["serving_default", "serve"])


class _Tables(tf.Module):

  def __init__(self, folder):
    self.static = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1., 2.]), -1.)
    self.words = tf.lookup.StaticVocabularyTable(_from_file(folder), 3)
    self.mutable = lookup.MutableHashTable(tf.string, tf.int64, -1)
    self.rows = lookup.MutableHashTable(tf.string, tf.float32, [0., 1.], name="rows")
    self.dense = lookup.DenseHashTable(tf.string, tf.int64, -1, "$empty", "$deleted", name="dense")
    self.pairs = lookup.DenseHashTable(tf.int64, tf.int64, -1, [0, 0], [-1, -1], name="pairs")
    self.anonymous = lookup.MutableHashTable(tf.string, tf.int64, -1,
                                             experimental_is_anonymous=True)
    for table in (self.mutable, self.dense, self.anonymous):
      table.insert(["a", "c"], tf.constant([4, 5], tf.int64))
    self.rows.insert(["a"], [[7., 8.]])
    self.pairs.insert(tf.constant([[1, 2]], tf.int64), tf.constant([3], tf.int64))

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
  def look(self, words):
    key = tf.constant([[1, 2], [3, 4]], tf.int64)
    return {"static": self.static.lookup(words), "words": self.words.lookup(words),
            "mutable": self.mutable.lookup(words), "rows": self.rows.lookup(words),
            "dense": self.dense.lookup(words), "pairs": self.pairs.lookup(key),
            "anonymous": self.anonymous.lookup(words), "size": self.dense.size()}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
  def count(self, words):
    for table in (self.mutable, self.dense):
      table.insert(words, table.lookup(words) + 1)
    return self.mutable.size(), self.dense.size()


@pytest.mark.parametrize("saves", [1, 2])
def test_tables(live, tmp_path, saves):
  model = _Tables(tmp_path)
  for n in range(saves):
    tf.saved_model.save(model, tmp_path / str(n), signatures=model.look)
    model = tf.saved_model.load(tmp_path / str(n))
  words = tf.constant(_WORDS)
  path = tmp_path / str(saves - 1)
  loaded = _check(live, path, [], {"words": words}, ["serving_default", "look"])
  # Those that change are followed: calls there, and functions that run here, see each other's.
  local, count = tf.saved_model.load(path), live.function(loaded.count)
  for here in (False, True, False, True):
    _agree((loaded.count if here else count)(words), local.count(words))
    _agree((live.function(loaded.look) if here else loaded.look)(words), local.look(words))


def test_another_process_finds_the_tables_of_a_model(live, tmp_path):
  model = _Tables(tmp_path)
  tf.saved_model.save(model, tmp_path / "m", signatures=model.look)
  count = tf.saved_model.load(tmp_path / "m").count
  gc.collect()  # Of the tables there are the handles alone.
  live.function(count)(["zz"])
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    loaded = tf.saved_model.load(tmp_path / "m")
    assert other.function(loaded.look)(["zz"])["dense"] == [0]
    assert loaded.look(["zz"])["mutable"] == [0]
    names = [r.name for r in other._resources()]
  assert len(names) == 7 and not [n for n in names if "_load_" in n.partition(str(tmp_path))[2]]


def test_examples_are_parsed(live, tmp_path):
  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
  def serve(examples):
    parsed = tf.io.parse_example(examples, {
        "x": tf.io.FixedLenFeature([2], tf.float32), "s": tf.io.VarLenFeature(tf.string)})
    return {"y": parsed["x"] * 2, "s": tf.sparse.to_dense(parsed["s"])}

  model = tf.Module()
  model.serve = serve
  tf.saved_model.save(model, tmp_path / "m", signatures=serve)
  features = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2])),
              "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"q", b"\xff"]))}
  example = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
  _check(live, tmp_path / "m", [], {"examples": tf.constant([example, example])})


def test_traces_and_gradients_of_a_loaded_function(live, tmp_path):
  class Model(tf.Module):

    def __init__(self):
      self.v = tf.Variable([1., 2.], name="v")
      self.calls = tf.Variable(0, name="calls")

    @tf.function
    def f(self, x, training=False, factor=1.):
      if training:
        self.calls.assign_add(1)
        return x * self.v * factor, self.calls.read_value()
      return x + self.v, self.calls.read_value()

  model = Model()
  inputs = [tf.constant([3., 4.]), tf.constant([[3., 4.]] * 3)]
  for x in inputs:
    model.f(x)
    model.f(x, training=True, factor=2.)
  tf.saved_model.save(model, tmp_path / "m")
  here, there = (tf.saved_model.load(tmp_path / "m") for _ in range(2))
  f = live.function(there.f)
  for x in inputs:
    results = []
    for function, v in ((here.f, here.v), (f, there.v)):
      with tf.GradientTape() as tape:
        tape.watch(x)
        y, calls = function(x, True, factor=2.)
      results.append((y, calls, tape.gradient(y, [x, v]), function(x=x), function(x, False)))
    _agree(results[1], results[0])
  assert here.calls.numpy() == there.calls.numpy() == 4
  with pytest.raises(ValueError, match="Could not find matching concrete function"):
    f(tf.constant([1.]), training=True)


def _save_older(path, folder):
  """A SavedModel of TensorFlow 1 that has of each what it can have."""
  with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.float32, [None, 3], "x")
    s = v1.placeholder(tf.string, [None], "s")
    reference, resource = (v1.get_variable(name, [3, 2], use_resource=use) for name, use in (
        ("reference", False), ("resource", True)))
    hidden = v1.get_variable("hidden", [2], use_resource=True, collections=["saved"])
    calls = v1.get_variable("calls", [], initializer=v1.zeros_initializer, use_resource=False)
    names = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([0, 1], ["zero", "one"]), "?")
    known = tf.lookup.StaticVocabularyTable(_from_file(folder), 2)
    mutable = lookup.MutableHashTable(tf.string, tf.int64, -1)
    dense = lookup.DenseHashTable(tf.string, tf.int64, -1, "$empty", "$deleted")
    y = tf.matmul(x, reference) + tf.matmul(x, resource) + hidden
    outputs = {"y": y, "name": names.lookup(tf.cast(tf.argmax(y, 1), tf.int32)),
               "known": known.lookup(s), "mutable": mutable.lookup(s), "dense": dense.lookup(s),
               "branch": v1.cond(tf.reduce_sum(x) > 0, lambda: reference * 2, lambda: reference)}
    session.run([v1.variables_initializer([reference, resource, hidden, calls]),
                 v1.tables_initializer()])
    session.run([t.insert(tf.constant(["a"]), tf.constant([n], tf.int64))
                 for n, t in enumerate((mutable, dense))])
    builder = v1.saved_model.Builder(str(path))
    sign = v1.saved_model.predict_signature_def
    builder.add_meta_graph_and_variables(
        session, ["serve"], {"serving_default": sign({"x": x, "s": s}, outputs),
                             "count": sign({"x": x}, {"n": v1.assign_add(calls, 1.) + 0.})},
        assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS), main_op=v1.tables_initializer(), saver=v1.train.Saver(
            [reference, resource, hidden, calls, *v1.get_collection(
                v1.GraphKeys.SAVEABLE_OBJECTS)]))
    builder.save()


def test_a_model_of_tensorflow_1(live, tmp_path):
  _save_older(tmp_path / "m", tmp_path)
  given = {"x": tf.random.normal([5, 3]), "s": tf.constant(_WORDS)}
  _check(live, tmp_path / "m", [], given)
  assert sorted(v.name for v in live.variables()) == ["hidden", "reference", "resource"]
  # What calls change stays there; two functions of one load have the same.
  loaded = tf.saved_model.load(tmp_path / "m")
  counts = [live.function(loaded.signatures["count"]) for _ in range(2)]
  assert [f(x=given["x"])["n"].numpy() for f in itertools.islice(
      itertools.cycle(counts), 4)] == [1, 2, 3, 4]
  assert loaded.signatures["count"](x=given["x"])["n"].numpy() == 1


def test_a_model_of_tensorflow_1_is_pushed_after_a_clear(live, tmp_path):
  _save_older(tmp_path / "m", tmp_path)
  signature = tf.saved_model.load(tmp_path / "m").signatures["serving_default"]
  given = {"x": tf.random.normal([5, 3]), "s": tf.constant(_WORDS)}
  function = live.function(signature)
  _agree(function(**given), signature(**given))
  with formwork.connect(live._channel.target, namespace=live.namespace) as other:
    other.clear()
  with pytest.raises(tf.errors.FailedPreconditionError, match=r"has lost 3 variable\(s\) and 4"):
    function(**given)
  live.push()
  _agree(function(**given), signature(**given))


def test_what_is_no_table_is_named(live, tmp_path):
  class Model(tf.Module):

    def __init__(self):
      self.numbers = _Numbers()
      self.numbers.resource_handle  # It is made.

    @tf.function(input_signature=[])
    def f(self):
      return tf.raw_ops.StackPopV2(handle=self.numbers.resource_handle, elem_type=tf.int32)

  class _Numbers(tf.saved_model.experimental.TrackableResource):

    def _create_resource(self):
      return tf.raw_ops.StackV2(max_size=3, elem_type=tf.int32, stack_name="s")

  tf.saved_model.save(Model(), tmp_path / "m")
  loaded = tf.saved_model.load(tmp_path / "m")
  with pytest.raises(tf.errors.UnimplementedError, match="not a Stack"):
    live.function(loaded.f)()
