"""SavedModels that the server loads by itself, beside what tf.saved_model.load makes of them."""
import contextlib
import json
import shutil
import subprocess
import threading
import time

import formwork
import numpy as np
import pytest
import tensorflow as tf

import server_process

v1 = tf.compat.v1
WHOLE, NUMBER = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
X = np.arange(6, dtype=np.float32).reshape(3, 2)
WORDS = np.array([b"a", b"zz", b"c"], object)


@pytest.fixture
def files(tmp_path):
  folder = tmp_path / "files"
  folder.mkdir()
  return folder


@pytest.fixture
def process(files):
  with server_process.running("--files-dir", str(files)) as process:
    yield process


@pytest.fixture
def server(process):
  with formwork.connect(process.grpc) as server:
    yield server


@contextlib.contextmanager
def refused(server, code, words=None):
  """The request is, and leaves nothing behind."""
  def held():
    return ([f.id for f in server.functions()], sorted(v.name for v in server.variables()),
            [n.variables for n in server.namespaces()])
  before = held()
  with pytest.raises(formwork.Error, match=words) as error:
    yield
  assert error.value.code == code, error.value
  assert held() == before


def vocabulary(folder, words=("a", "b", "c")):
  path = folder / "words.txt"
  path.write_text("".join(word + "\n" for word in words))
  return str(path)


class Model(tf.Module):
  """Variables and a table of each kind; one of them is made from a file."""

  def __init__(self, words, scale=2.0):
    self.kernel = tf.Variable(X[:2] * scale, name="kernel")
    self.calls = tf.Variable(0, name="calls")
    self.static = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.5, 2.5]), -1)
    self.words = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(words, tf.string, WHOLE, tf.int64, NUMBER), 2)
    self.counts = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -7)
    self.counts.insert(["a", "c"], [10, 20])
    self.dense = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, 0.5, empty_key=-1, deleted_key=-2)
    self.dense.insert([0, 2], [0.25, 4.0])

  @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x"),
                                tf.TensorSpec([None], tf.string, name="word")])
  def serve(self, x, word):
    self.calls.assign_add(1)
    ids = self.words.lookup(word)
    return {"y": tf.nn.relu(x @ self.kernel), "weight": self.static.lookup(word), "id": ids,
            "count": self.counts.lookup(word), "dense": self.dense.lookup(ids),
            "calls": self.calls.read_value()}

  @tf.function(input_signature=[tf.TensorSpec([], name="by")])
  def scaled(self, by):
    return {"kernel": self.kernel * by}


def save(path, words, scale=2.0):
  model = Model(words, scale)
  tf.saved_model.save(model, str(path), signatures={"serving_default": model.serve,
                                                    "scaled": model.scaled})


def names_of(function):
  return [p.name for p in function.signature.to_message().parameters]


def same(function, signature, *inputs):
  """What a signature gives here and there, of inputs in the order of their names."""
  given = dict(zip(names_of(function), inputs))
  wanted = signature(**{name: tf.constant(value) for name, value in given.items()})
  got = function(given)
  assert list(got) == sorted(wanted)
  for name, value in got.items():
    wanted_value = wanted[name].numpy()
    assert value.dtype == wanted_value.dtype, name
    if value.dtype == object:
      np.testing.assert_array_equal(value, wanted_value, name)
    else:
      np.testing.assert_allclose(value, wanted_value, rtol=1e-6, err_msg=name)


def test_variables_tables_and_assets(server, files, tmp_path):
  save(files / "m", vocabulary(tmp_path))
  (tmp_path / "words.txt").unlink()  # The model has a copy.
  here = tf.saved_model.load(str(files / "m")).signatures
  functions = {f.name: f for f in server.load_saved_model("m", "model")}
  assert sorted(functions) == ["model", "model/scaled"]
  assert names_of(functions["model"]) == ["word", "x"]
  assert "'count', TensorSpec(shape=(None,), dtype=tf.int64" in functions["model"].pretty_signature
  for _ in range(2):  # The second call counts on.
    same(functions["model"], here["serving_default"], WORDS, X)
  same(functions["model/scaled"], here["scaled"], np.float32(3))
  (kernel,) = server.call("model/scaled", [np.float32(1)])
  np.testing.assert_array_equal(kernel, X[:2] * 2)
  np.testing.assert_array_equal(server.call("model/scaled", {"by": 1})["kernel"], kernel)
  # What no signature uses, such as the path of the file, is not kept.
  assert sorted(v.name for v in server.variables()) == ["model@1/calls", "model@1/kernel"]


def test_a_keras_model(server, files):
  import keras
  keras.utils.set_random_seed(1)
  text = keras.layers.TextVectorization(max_tokens=20, output_sequence_length=4)
  text.adapt(["the cat sat", "on the mat"])
  model = keras.Sequential([keras.layers.Input((), dtype="string"), text,
                            keras.layers.Embedding(20, 4), keras.layers.Flatten(),
                            keras.layers.BatchNormalization(), keras.layers.Dense(2)])
  model.export(str(files / "text"), verbose=False)
  words = np.array([b"the cat", b"a dog on the mat"], object)
  functions = {f.name: f for f in server.load_saved_model("text", "text")}
  same(functions["text"], tf.saved_model.load(str(files / "text")).signatures["serving_default"],
       words)
  np.testing.assert_allclose(server.call("text", [words])[0], model(tf.constant(words)), rtol=1e-5)
  # Keras lists each variable twice in what it exports: that is held once.
  assert len(server.variables()) == len(model.weights)


def save_v1(path, words):
  info = v1.saved_model.utils.build_tensor_info
  definition = v1.saved_model.signature_def_utils.build_signature_def
  with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.float32, [None, 2], name="x")
    word = v1.placeholder(tf.string, [None], name="word")
    sparse = v1.sparse_placeholder(tf.float32, [None, 2], name="sparse")
    kernel = v1.get_variable("kernel", [2, 3], use_resource=False)
    bias = v1.get_variable("bias", [3], use_resource=True)
    parts = v1.get_variable("parts", [4, 3], partitioner=v1.fixed_size_partitioner(2),
                            use_resource=False)
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(words, tf.string, WHOLE, tf.int64, NUMBER), -1)
    y = x @ kernel + bias + tf.reduce_sum(parts.as_tensor(), 0)
    product = v1.sparse_tensor_dense_matmul(sparse, kernel)
    session.run([v1.global_variables_initializer(), v1.tables_initializer()])
    builder = v1.saved_model.Builder(str(path))
    builder.add_meta_graph_and_variables(
        session, ["serve", "v1"], {
            "serving_default": definition({"x": info(x), "word": info(word)},
                                          {"y": info(y), "id": info(table.lookup(word))}),
            "sparse": definition({"s": info(sparse)}, {"product": info(product)}),
        }, main_op=v1.tables_initializer(),
        assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
    builder.save()


def test_a_model_of_tensorflow_1(server, files, tmp_path):
  save_v1(files / "old", vocabulary(tmp_path))
  here = tf.saved_model.load(str(files / "old"), tags=["serve", "v1"]).signatures
  (tmp_path / "words.txt").unlink()
  with refused(server, "NOT_FOUND", r"tags 'gpu,serve'; it has 'serve,v1'"):
    server.load_saved_model("old", "old", tags=["serve", "gpu"])
  functions = {f.name: f for f in server.load_saved_model("old", "old", tags=["v1", "serve"])}
  same(functions["old"], here["serving_default"], WORDS, X)
  sparse = functions["old/sparse"]
  assert names_of(sparse) == ["s_dense_shape", "s_indices", "s_values"]
  same(sparse, here["sparse"], np.array([3, 2]), np.array([[0, 1], [2, 0]]),
       np.array([1, -2], np.float32))


def test_a_model_without_variables(server, files):
  with tf.Graph().as_default(), v1.Session() as session:
    x = v1.placeholder(tf.float32, [None])
    v1.saved_model.simple_save(session, str(files / "plain"), {"x": x}, {"y": 2 * x})
  assert not (files / "plain/variables/variables.index").exists()
  (function,) = server.load_saved_model("plain", "double")
  np.testing.assert_array_equal(function(np.ones(2, np.float32))[0], [2, 2])
  assert server.variables() == []


def test_the_highest_version_and_its_place(server, process, files, tmp_path):
  words = vocabulary(tmp_path)
  for version in 1, 9, 10:
    save(files / "m" / str(version), words, scale=version)
  (files / "m" / "11").mkdir()     # No model yet.
  (files / "m" / "012").mkdir()
  server.register("model/train", tf.function(lambda: tf.constant(1)).get_concrete_function(
      ).graph.as_graph_def().SerializeToString(), [], ["Const:0"])

  def kernel_of(client):
    return client.call("model/scaled", [np.float32(1)])[0][0, 1]

  (before,) = (f for f in server.load_saved_model("m/1", "model") if f.name == "model/scaled")
  assert kernel_of(server) == 1
  with refused(server, "ALREADY_EXISTS", "'model'"):
    server.load_saved_model("m", "model")
  stop = threading.Event()

  def call(kernel, seen):
    with formwork.connect(process.grpc) as client:
      (there,) = client.functions("model/scaled")
      while not stop.is_set():
        seen.append(kernel(client, there))

  ways = {kernel: [] for kernel in (  # Each calls until it fails.
      lambda client, there: kernel_of(client),
      lambda client, there: client.call("model/scaled", {"by": 1})["kernel"][0, 1],
      lambda client, there: there(1.)[0][0, 1],
      lambda client, there: before({"by": 1})["kernel"][0, 1])}
  threads = [threading.Thread(target=call, args=way) for way in ways.items()]
  for thread in threads:
    thread.start()

  def each_calls():
    """Two calls: one may have begun before."""
    called = [len(seen) for seen in ways.values()]
    while all(thread.is_alive() for thread in threads) and (
        not all(len(seen) > n + 1 for seen, n in zip(ways.values(), called))):
      time.sleep(0.01)

  each_calls()
  for _ in range(3):
    server.load_saved_model("m", "model", replace=True)
    each_calls()
    server.load_saved_model("m/9", "model", replace=True)
    each_calls()
  failed = not all(thread.is_alive() for thread in threads)
  stop.set()
  for thread in threads:
    thread.join()
  assert not failed and [set(seen) for seen in ways.values()] == [{1, 9, 10}] * len(ways)
  # A signature that is not there any more goes; other functions stay.
  module = tf.Module()
  module.v = tf.Variable(77.0, name="v")
  module.f = tf.function(lambda by: module.v * by, input_signature=[tf.TensorSpec([])])
  tf.saved_model.save(module, str(files / "other"), signatures=module.f)
  (function,) = server.load_saved_model("other", "model", replace=True)
  assert function(np.float32(2))[0] == 154
  for gone in lambda: before(1.), lambda: server.call("model/scaled", {"by": 1}):
    with pytest.raises(formwork.Error) as error:
      gone()
    assert (error.value.code, error.value.reason) == ("NOT_FOUND", "FUNCTION_NOT_FOUND")
  assert sorted(f.name for f in server.functions()) == ["model", "model/train"]
  assert [v.name for v in server.variables()] == ["model@8/v"]
  assert server.namespaces()[0].variables == 1


def test_what_cannot_be_loaded_leaves_nothing(server, files, tmp_path):
  save(files / "m", vocabulary(tmp_path))
  server.variable("v", np.float32(1))
  load = server.load_saved_model
  with refused(server, "NOT_FOUND", "no file nothing/saved_model.pb"):
    load("nothing", "f")
  with refused(server, "PERMISSION_DENIED"):
    load("../files", "f")
  with refused(server, "INVALID_ARGUMENT", "name"):
    load("m", "")
  (files / "text").mkdir()
  (files / "text/saved_model.pbtxt").write_text("saved_model_schema_version: 1")
  with refused(server, "UNIMPLEMENTED", "saved_model.pbtxt"):
    load("text", "f")
  (files / "none").mkdir()
  (files / "none/saved_model.pb").write_bytes(b"")
  with refused(server, "NOT_FOUND", "it has none"):
    load("none", "f")

  def broken(change):
    shutil.rmtree(files / "bad", ignore_errors=True)
    shutil.copytree(files / "m", files / "bad")
    change(files / "bad")

  model = (files / "m/saved_model.pb").read_bytes()
  broken(lambda folder: (folder / "saved_model.pb").write_bytes(model[:-100]))
  with refused(server, "INVALID_ARGUMENT", "bad/saved_model.pb: the bytes are not a SavedModel"):
    load("bad", "f")
  broken(lambda folder: (folder / "saved_model.pb").write_bytes(
      model.replace(b"LookupTableFindV2", b"LookupTableFindXX")))
  with refused(server, "UNIMPLEMENTED", "LookupTableFindXX"):
    load("bad", "f")
  broken(lambda folder: next(folder.glob("variables/*data*")).unlink())
  with refused(server, "NOT_FOUND", "RestoreV2"):
    load("bad", "f")
  broken(lambda folder: shutil.rmtree(folder / "variables"))
  with refused(server, "NOT_FOUND", "no file bad/variables/variables.index, and 'f@1/.*' has no"):
    load("bad", "f")
  broken(lambda folder: (folder / "assets/words.txt").unlink())
  with refused(server, "NOT_FOUND", "words.txt"):
    load("bad", "f")
  data = next((files / "m/variables").glob("*data*")).read_bytes()
  broken(lambda folder: next(folder.glob("variables/*data*")).write_bytes(bytes(len(data))))
  with refused(server, "DATA_LOSS"):
    load("bad", "f")
  load("m", "f")  # All of that under the same name.
  assert {v.name.split("/")[0] for v in server.variables()} == {"v", "f@1"}


def test_a_load_that_is_cut_short_is_there_as_a_whole_or_not_at_all(server, files, tmp_path):
  save(files / "m", vocabulary(tmp_path))

  def settled():
    names = sorted(f.name for f in server.functions())
    folders = {v.name.split("/")[0] for v in server.variables()}
    return not names and not folders or names == ["f", "f/scaled"] and len(folders) == 1

  cut = 0
  for milliseconds in range(1, 40, 2):
    try:
      server.load_saved_model("m", "f", replace=True, timeout=milliseconds / 1000)
    except formwork.Error as error:
      assert error.code in ("DEADLINE_EXCEEDED", "ABORTED"), error  # By the one before.
      cut += 1
    # What is under way when nobody waits for it any more is still taken back.
    deadline = time.monotonic() + 20
    while not settled() and time.monotonic() < deadline:
      time.sleep(0.01)
    assert settled()
    server.clear()
  assert cut


def test_two_at_once(process, files, tmp_path):
  """One of them, at least, is done; the other is told."""
  save(files / "m", vocabulary(tmp_path))
  told = []

  def load():
    with formwork.connect(process.grpc) as client:
      try:
        told.append(len(client.load_saved_model("m", "f", replace=True)))
      except formwork.Error as error:
        told.append(error.code)

  threads = [threading.Thread(target=load) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert 2 in told and set(told) <= {2, "ABORTED"}
  with formwork.connect(process.grpc) as client:
    assert sorted(f.name for f in client.functions()) == ["f", "f/scaled"]
    assert len({v.name.split("/")[0] for v in client.variables()}) == 1


def test_larger_than_a_call_may_hold(files):
  module = tf.Module()
  module.v = tf.Variable(tf.random.normal([1 << 20]), name="v")
  module.f = tf.function(lambda: tf.reduce_sum(module.v), input_signature=[])
  tf.saved_model.save(module, str(files / "large"), signatures=module.f)
  with server_process.running("--files-dir", str(files), "--max-call-bytes", "1M") as process, \
      formwork.connect(process.grpc) as server:
    (function,) = server.load_saved_model("large", "large")
    np.testing.assert_allclose(function()[0], module.f(), rtol=1e-3)


@pytest.mark.parametrize("durability", ["snapshot", "sync"])
def test_it_outlives_the_server(files, tmp_path, durability):
  save(files / "m", vocabulary(tmp_path))
  flags = ["--files-dir", str(files), "--data-dir", str(tmp_path / "data"),
           "--durability", durability]
  with server_process.running(*flags, exit_code=-9 if durability == "sync" else 0) as process, \
      formwork.connect(process.grpc) as server:
    server.load_saved_model("m", "model")
    wanted = server.call("model", [WORDS, X])
    if durability == "sync":
      process.process.kill()
      process.process.wait()
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
    assert sorted(f.name for f in server.functions()) == ["model", "model/scaled"]
    got = server.call("model", [WORDS, X])
    assert got[0] == wanted[0] + 1  # The number of calls.
    for a, b in zip(got[1:], wanted[1:]):
      np.testing.assert_array_equal(a, b)


def test_before_the_server_is_ready(files, tmp_path):
  save(files / "m", vocabulary(tmp_path))
  flags = ["--files-dir", str(files), "--data-dir", str(tmp_path / "data"),
           "--saved-model", "a=m", "--saved-model=b=m"]
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
    assert sorted(f.name for f in server.functions()) == ["a", "a/scaled", "b", "b/scaled"]
    assert server.call("a", [WORDS, X])[0] == 1
  # What the data directory has of it goes on.
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
    assert server.call("a", [WORDS, X])[0] == 2 and server.call("b", [WORDS, X])[0] == 1
  for wrong, code, words in (("c=nothing", 1, "no file nothing/saved_model.pb"),
                             ("nothing", 2, "not NAME=PATH: nothing")):
    ended = subprocess.run(
        [server_process.binary(), "--files-dir", str(files), "--port=0", "--http-port=0",
         "--saved-model", wrong], capture_output=True, text=True, timeout=60)
    assert ended.returncode == code and words in ended.stderr and ended.stdout == "", ended


def test_the_command(process, files, tmp_path):
  save(files / "m" / "3", vocabulary(tmp_path))
  def run(*arguments):
    return subprocess.run([server_process.binary("formwork"), "--server", process.grpc, *arguments],
                          capture_output=True, text=True)
  loaded = run("load", "model", "m")
  assert loaded.returncode == 0 and "from m/3: variables: 6," in loaded.stdout, loaded
  again = run("load", "model", "m/3")
  assert again.returncode == 1 and "ALREADY_EXISTS" in again.stderr
  listed = json.loads(run("load", "model", "m", "--replace", "--tag", "serve", "--json").stdout)
  assert [f["name"] for f in listed] == ["model/scaled", "model"]
  called = run("call", "model/scaled", "--input", "2.0")
  assert called.returncode == 0 and called.stdout.startswith("kernel: float32[2,2] [[0"), called
  by_names = run("call", "model", "--input", "x=[[1, 2]]", "--input=word=[\"c\"]", "--json")
  outputs = {o["name"]: o["value"] for o in json.loads(by_names.stdout)["outputs"]}
  assert outputs == {"y": [[8, 14]], "weight": [-1], "id": [2], "count": [20], "dense": [4],
                     "calls": 1}
  for inputs, words in ((["x=[[1, 2]]", '["c"]'], "some have not; the function takes word, x"),
                        (["x=[[1, 2]]", "x=[[1, 2]]"], "'x' is given twice"),
                        (["y=1", "x=[[1, 2]]"], "some have not")):
    wrong = run("call", "model", *(f"--input={i}" for i in inputs))
    assert wrong.returncode == 1 and words in wrong.stderr, wrong
  measured = run("bench", "--function", "model", "--input", "x=[[1, 2]]", "--input", 'word=["c"]',
                 "--seconds", "0.2")
  assert measured.returncode == 0 and "calls/s" in measured.stdout, measured
