"""Checkpoints: what the server writes TensorFlow reads, and the other way round."""
import contextlib
import os
import threading

import formwork
import ml_dtypes
import numpy as np
import pytest

import server_process

VALUES = {
    "dense/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "dense/bias": np.array([0.5, -1, np.nan, np.inf], np.float64),
    "dense": np.array(7, np.int64),
    "steps": np.array(-3, np.int32),
    "half.of": np.array([1, 2.5], np.float16),
    "brain": np.array([1, -2.5, 3e38], ml_dtypes.bfloat16),
    "mask": np.array([[True], [False]]),
    "bytes": np.arange(256, dtype=np.uint8),
    "waves": np.array([1 + 2j, -3j], np.complex64),
    "names": np.array([b"", b"a" * 300, b"\xff\0\x01"], object),
    "empty": np.zeros([0, 5], np.float32),
}
NUMBERS = {name: value for name, value in VALUES.items() if name != "names"}


@pytest.fixture
def files(tmp_path):
  return tmp_path / "files"


@pytest.fixture
def process(files):
  files.mkdir()
  with server_process.running("--files-dir", str(files)) as process:
    yield process


@pytest.fixture
def server(process):
  with formwork.connect(process.grpc) as server:
    yield server


def equal(got, wanted):
  got, wanted = np.asarray(got), np.asarray(wanted)
  assert got.dtype == wanted.dtype and got.shape == wanted.shape
  np.testing.assert_array_equal(got, wanted)


@contextlib.contextmanager
def refused(code, words=None):
  with pytest.raises(formwork.Error, match=words) as error:
    yield
  assert error.value.code == code, error.value


def fill(server, values):
  return {name: server.variable(name, value) for name, value in values.items()}


def test_tensorflow_lists_and_reads_what_was_saved(server, files):
  import tensorflow as tf
  fill(server, VALUES)
  server.variable("not yet", dtype="float32", shape=[2])  # Uninitialised: nothing to save.
  assert server.save_checkpoint("run/1/ckpt-5") == len(VALUES)
  prefix = str(files / "run" / "1" / "ckpt-5")
  assert tf.train.latest_checkpoint(os.path.dirname(prefix)) is None  # No list is kept of them.
  reader = tf.train.load_checkpoint(prefix)
  shapes = reader.get_variable_to_shape_map()
  for name, value in VALUES.items():
    key = name.replace(".", "..") + "/.ATTRIBUTES/VARIABLE_VALUE"
    assert shapes[key] == list(value.shape)
    equal(reader.get_tensor(key), value)
  assert sorted(os.listdir(files / "run" / "1")) == ["ckpt-5.data-00000-of-00001", "ckpt-5.index"]


def test_train_checkpoint_restores_what_was_saved(server, files):
  import tensorflow as tf
  fill(server, NUMBERS)
  server.save_checkpoint("ckpt")

  class Dense(tf.Module):
    def __init__(self):
      self.kernel = tf.Variable(tf.zeros([3, 4]))
      self.bias = tf.Variable(tf.zeros([4], tf.float64))
  dense, steps, brain = Dense(), tf.Variable(0), tf.Variable(tf.zeros([3], tf.bfloat16))
  status = tf.train.Checkpoint(dense=dense, steps=steps, brain=brain).restore(str(files / "ckpt"))
  status.assert_existing_objects_matched()
  equal(dense.kernel.numpy(), NUMBERS["dense/kernel"])
  equal(dense.bias.numpy(), NUMBERS["dense/bias"])
  equal(steps.numpy(), NUMBERS["steps"])
  equal(brain.numpy(), NUMBERS["brain"])


def test_what_train_checkpoint_wrote_is_restored(server, files):
  import tensorflow as tf

  class Model(tf.Module):
    def __init__(self):
      self.layers = [tf.Variable(np.full([2, 3], i, np.float32), name="shared name")
                     for i in range(3)]
      self.named = tf.Variable(["a", "b"], name="my/own/name")
  model = Model()
  path = tf.train.Checkpoint(model=model).save(str(files / "tf"))
  here = server.variable("my/own/name", np.array([b"x", b"y"], object))
  by_path = server.variable("model/layers/1", np.zeros([2, 3], np.float32))
  ids = here.id, by_path.id
  assert server.restore_checkpoint(os.path.basename(path)) == 4
  found = {v.name: v for v in server.variables()}
  # One by its name; those that share theirs by the paths that lead to them; TensorFlow's own counter
  # is not the user's.
  assert sorted(found) == ["model/layers/0", "model/layers/1", "model/layers/2", "my/own/name"]
  assert (found["my/own/name"].id, found["model/layers/1"].id) == ids
  for i in range(3):
    equal(found[f"model/layers/{i}"].read(), np.full([2, 3], i, np.float32))
  equal(here.read(), np.array([b"a", b"b"], object))
  # Only one, by its key in the file.
  by_path.assign(np.full([2, 3], 9, np.float32))
  assert server.restore_checkpoint(os.path.basename(path), [by_path]) == 1
  equal(by_path.read(), np.full([2, 3], 1, np.float32))


def test_checkpoints_by_name_and_in_parts_are_restored(server, files):
  import tensorflow as tf
  whole = np.arange(24, dtype=np.float32).reshape(4, 6)
  many = np.arange(300, dtype=np.int64)
  # In slices: the first rows, and the last in two halves.
  tf.raw_ops.SaveV2(
      prefix=str(files / "parts"), tensor_names=["w", "w", "w", "plain"],
      shape_and_slices=["4 6 0,2:-", "4 6 2,2:0,3", "4 6 2,2:3,3", ""],
      tensors=[whole[:2], whole[2:, :3], whole[2:, 3:], many])
  assert server.restore_checkpoint("parts") == 2
  found = {v.name: v for v in server.variables()}
  equal(found["w"].read(), whole)
  equal(found["plain"].read(), many)
  # Several data files.
  for i in range(3):
    tf.raw_ops.SaveV2(prefix=str(files / f"part{i}"), tensor_names=[f"v{i}"], shape_and_slices=[""],
                      tensors=[np.full([5], i, np.float32)])
  tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(files / f"part{i}") for i in range(3)],
                                destination_prefix=str(files / "merged"))
  assert server.restore_checkpoint("merged") == 3
  found = {v.name: v for v in server.variables()}
  for i in range(3):
    equal(found[f"v{i}"].read(), np.full([5], i, np.float32))


@pytest.mark.parametrize("path", ["own", "own.safetensors"])
def test_there_and_back(server, path):
  values = VALUES if path == "own" else NUMBERS
  variables = fill(server, values)
  assert server.save_checkpoint(path) == len(values)
  before = {name: variable.id for name, variable in variables.items()}
  variables.pop("dense").delete()
  for variable in variables.values():
    if variable.dtype != "string":
      variable.assign(np.zeros(variable.shape, values[variable.name].dtype))
  assert server.restore_checkpoint(path) == len(values)
  found = {v.name: v for v in server.variables()}
  assert sorted(found) == sorted(values)
  for name, value in values.items():
    equal(found[name].read(), value)
    assert (found[name].id == before[name]) == (name != "dense")


def test_safetensors_as_others_write_and_read_them(server, files):
  import json
  import struct
  header = {"__metadata__": {"format": "np"},
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "b": {"dtype": "I16", "shape": [], "data_offsets": [8, 10]}}
  text = json.dumps(header).encode()
  content = struct.pack("<Q", len(text)) + text + struct.pack("<ffh", 1.5, -2, 7)
  (files / "other.safetensors").write_bytes(content)
  assert server.restore_checkpoint("other.safetensors") == 2
  found = {v.name: v for v in server.variables()}
  equal(found["a"].read(), np.array([1.5, -2], np.float32))
  equal(found["b"].read(), np.array(7, np.int16))
  server.save_checkpoint("ours.safetensors")
  content = (files / "ours.safetensors").read_bytes()
  (size,) = struct.unpack_from("<Q", content)
  header = json.loads(content[8:8 + size])
  assert header["a"]["dtype"] == "F32" and header["a"]["shape"] == [2]
  begin, end = header["a"]["data_offsets"]
  assert content[8 + size + begin:8 + size + end] == struct.pack("<ff", 1.5, -2)


@pytest.mark.parametrize("path, code", [
    ("../out", "PERMISSION_DENIED"), ("/etc/passwd", "PERMISSION_DENIED"),
    ("a/../../out", "PERMISSION_DENIED"), ("link/out", "PERMISSION_DENIED"),
    (".", "PERMISSION_DENIED"), ("", "INVALID_ARGUMENT"), ("a\0b", "INVALID_ARGUMENT"),
    ("x" * 5000, "INVALID_ARGUMENT"), ("y" * 300, "INVALID_ARGUMENT")])
def test_paths_stay_in_the_folder(server, files, tmp_path, path, code):
  (tmp_path / "elsewhere").mkdir()
  (files / "link").symlink_to(tmp_path / "elsewhere")
  server.variable("v", np.float32(1))
  for request in server.save_checkpoint, server.restore_checkpoint:
    with refused(code):
      request(path)
  assert os.listdir(tmp_path / "elsewhere") == []
  # A path of the process's own is fine where it leads into the folder.
  assert server.save_checkpoint(str(files / "sub" / "fine")) == 1


def test_without_a_folder_there_are_no_files():
  with server_process.running() as process, formwork.connect(process.grpc) as server:
    for request in server.save_checkpoint, server.restore_checkpoint:
      with refused("FAILED_PRECONDITION", "--files-dir"):
        request("x")


def test_what_does_not_fit_changes_nothing(server):
  a, b = server.variable("a", np.zeros([2], np.float32)), server.variable("b", np.float32(1))
  server.save_checkpoint("ckpt")
  b.delete()
  server.variable("b", np.zeros([3], np.float32))
  a.assign(np.ones([2], np.float32))
  with refused("INVALID_ARGUMENT", r"'b' is float32\[3\].*float32\[\]"):
    server.restore_checkpoint("ckpt")
  equal(a.read(), np.ones([2], np.float32))
  with refused("NOT_FOUND", "no variable 'c' in the checkpoint"):
    server.restore_checkpoint("ckpt", ["a", "c"])
  with refused("NOT_FOUND", "nothing here"):
    server.restore_checkpoint("nothing here")
  with refused("NOT_FOUND", "'c'"):
    server.save_checkpoint("ckpt", ["c"])
  equal(a.read(), np.ones([2], np.float32))


def test_damage_is_found_wherever_it_is(server, files):
  """Every byte of the index and of the data, one after the other."""
  fill(server, {"a": np.arange(4, dtype=np.float32), "s": np.array([b"xy", b"z"], object)})
  assert server.save_checkpoint("good") == 2
  for ending in "index", "data-00000-of-00001":
    content = (files / f"good.{ending}").read_bytes()
    for other in "index", "data-00000-of-00001":
      (files / f"bad.{other}").write_bytes((files / f"good.{other}").read_bytes())
    for cut in 0, 1, len(content) // 2, len(content) - 1:
      (files / f"bad.{ending}").write_bytes(content[:cut])
      with refused("DATA_LOSS"):
        server.restore_checkpoint("bad")
    unseen = 0
    for at in range(len(content)):
      damaged = bytearray(content)
      damaged[at] ^= 0x10
      (files / f"bad.{ending}").write_bytes(damaged)
      try:
        server.restore_checkpoint("bad")
        unseen += 1
      except formwork.Error as error:
        assert error.code in ("DATA_LOSS", "UNIMPLEMENTED"), error
    # Padding and what nobody reads: the table's footer, the save counter.
    assert unseen <= 60, unseen


def test_calls_go_on_while_variables_are_saved_and_no_half_is_saved(server, files):
  import tensorflow as tf
  a = server.variable("a", np.zeros([1 << 16], np.float32))
  b = server.variable("b", np.zeros([1 << 16], np.float32))
  over = threading.Event()

  def write():
    n = 0
    while not over.is_set():
      n += 1
      server.assign({a: np.full([1 << 16], n, np.float32), b: np.full([1 << 16], n, np.float32)})
  thread = threading.Thread(target=write)
  thread.start()
  try:
    for turn in range(10):
      server.save_checkpoint(f"ckpt-{turn}")
  finally:
    over.set()
    thread.join()
  seen = set()
  for turn in range(10):
    reader = tf.train.load_checkpoint(str(files / f"ckpt-{turn}"))
    values = np.concatenate([reader.get_tensor(name + "/.ATTRIBUTES/VARIABLE_VALUE")
                             for name in "ab"])
    assert (values == values[0]).all()
    seen.add(values[0])
  assert len(seen) > 1


@pytest.mark.skipif("FORMWORK_LARGE" not in os.environ, reason="takes 5 GiB: FORMWORK_LARGE=1")
def test_more_than_a_message_and_an_int32_can_count(files):
  """2.3 GiB in one variable, which no message takes: made, saved, restored on the server."""
  import tensorflow as tf
  files.mkdir()
  with server_process.running("--files-dir", str(files), "--max-call-bytes", "8G") as process, \
      formwork.connect(process.grpc) as server:
    rows, columns = 600, 1 << 20
    v = server.variable("v", dtype="float32", shape=[rows, columns])
    graph = tf.Graph()
    with graph.as_default():
      handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
      x = tf.compat.v1.placeholder(tf.float32, [], name="x")
      assigned = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.fill([rows, columns], x))
      with tf.control_dependencies([assigned]):
        tf.raw_ops.ResourceScatterUpdate(resource=handle, indices=[rows - 1], name="last",
                                         updates=tf.fill([1, columns], x + 1))
      tf.raw_ops.ResourceGather(resource=handle, indices=[0, rows - 1], dtype=tf.float32,
                                name="ends")
    text = graph.as_graph_def().SerializeToString()
    fill = server.register("fill", text, [formwork.TensorSpec("x:0", "float32", [])], [],
                           captures={"v:0": v}, targets=["last"])
    ends = server.register("ends", text, [], ["ends:0"], captures={"v:0": v})
    for path in ("large", "large.safetensors"):
      fill(np.float32(5))
      assert server.save_checkpoint(path) == 1
      fill(np.float32(0))
      assert server.restore_checkpoint(path) == 1
      (read,) = ends()
      assert (read[0] == 5).all() and (read[1] == 6).all()
      files_there = [f for f in os.listdir(files) if f.startswith("large")]
      assert sum(os.path.getsize(files / f) for f in files_there) > 2**31
      if path == "large":
        value = tf.train.load_checkpoint(str(files / path)).get_tensor(
            "v/.ATTRIBUTES/VARIABLE_VALUE")
        assert value.shape == (rows, columns) and value[0, 0] == value[-2, -1] == 5
        assert (value[-1] == 6).all()
        del value
      for f in files_there:
        os.remove(files / f)


def savers():
  """What a SavedModel saves and restores by."""
  import tensorflow as tf
  w, s = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3)), tf.Variable([b"x", b"y"])

  @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
  def save(prefix):
    parts = tf.strings.join([prefix, "_temp/part"])
    part = tf.raw_ops.ShardedFilename(basename=parts, shard=0, num_shards=1)
    saved = tf.raw_ops.SaveV2(
        prefix=part, tensor_names=["w", "w", "s"],
        shape_and_slices=["2 3 0,1:-", "2 3 1,1:-", ""], tensors=[w[:1], w[1:], s])
    with tf.control_dependencies([saved]):
      merged = tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[part], destination_prefix=prefix)
    with tf.control_dependencies([merged]):
      return tf.identity(part)

  @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
  def restore(prefix):
    values = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["w", "s", "w"],
                                  shape_and_slices=["", "", "2 3 -:1,2"],
                                  dtypes=[tf.float32, tf.string, tf.float32])
    w.assign(values[0] + 1)
    s.assign(values[1])
    return values[2]
  return w, s, save, restore


def test_functions_that_save_and_restore(server, files):
  import tensorflow as tf
  w, s, save, restore = savers()
  there_save, there_restore = server.function(save), server.function(restore)
  assert there_save(tf.constant("deep/ckpt")).numpy() == b"deep/ckpt_temp/part-00000-of-00001"
  # The parts have come together, and their folder has gone.
  assert sorted(os.listdir(files / "deep")) == ["ckpt.data-00000-of-00001", "ckpt.index"]
  reader = tf.train.load_checkpoint(str(files / "deep" / "ckpt"))
  equal(reader.get_tensor("w"), np.arange(6, dtype=np.float32).reshape(2, 3))
  equal(reader.get_tensor("s"), np.array([b"x", b"y"], object))
  # TensorFlow's own, here.
  save(tf.constant(str(files / "theirs")))
  equal(there_restore(tf.constant("theirs")).numpy(),
        np.arange(6, dtype=np.float32).reshape(2, 3)[:, 1:])
  equal(server.read([v for v in server.variables() if v.dtype == "float32"])[0],
        np.arange(1, 7, dtype=np.float32).reshape(2, 3))


def test_functions_stay_in_the_folder_and_say_what_is_wrong(server, files):
  import tensorflow as tf
  _, _, save, restore = savers()
  there_save, there_restore = server.function(save), server.function(restore)
  for function in there_save, there_restore:
    with refused("PERMISSION_DENIED", "'/etc/x.*' is not in the server's folder"):
      function(tf.constant("/etc/x"))
  with refused("NOT_FOUND", "No such file"):
    there_restore(tf.constant("none"))
  server.variable("v", np.float32(1))
  server.save_checkpoint("other", ["v"])
  with refused("NOT_FOUND", "Key w not found in checkpoint"):
    there_restore(tf.constant("other"))
  tf.raw_ops.SaveV2(prefix=str(files / "ints"), tensor_names=["w", "s"], shape_and_slices=["", ""],
                    tensors=[np.array([[1, 2, 3]] * 2), ["a"]])
  with refused("INVALID_ARGUMENT", "tensor_name = w; expected dtype float32 does not equal"):
    there_restore(tf.constant("ints"))
