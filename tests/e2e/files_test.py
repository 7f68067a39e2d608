"""Files that graphs read: those of the server's folder, and no others."""
import os
import shutil

import formwork
import pytest
import tensorflow as tf

import server_process


@pytest.fixture
def files(tmp_path):
  folder = tmp_path / "files"
  folder.mkdir()
  (tmp_path / "secret").write_bytes(b"not for clients")
  return folder


@pytest.fixture
def read(files):
  with server_process.running("--files-dir", str(files)) as process, \
      formwork.connect(process.grpc) as server:
    yield server.function(lambda name: tf.io.read_file(name))


def fails(code, read, name):
  with pytest.raises(formwork.Error) as failure:
    read(tf.constant(name))
  assert failure.value.code == code, failure.value


def test_a_file_is_read_as_it_is_now(files, read):
  for content in [b"", b"a\0\xff\n", os.urandom(3 << 20), b"shorter"]:
    (files / "x.bin").write_bytes(content)
    assert read(tf.constant("x.bin")).numpy() == content
    assert read(tf.constant(str(files / "x.bin"))).numpy() == content


def test_a_constant_name_is_not_read_beforehand(files):
  with server_process.running("--files-dir", str(files)) as process, \
      formwork.connect(process.grpc) as server:
    read = server.function(lambda: tf.io.read_file("late"))
    for content in [b"one", b"two"]:
      (files / "late").write_bytes(content)
      assert read().numpy() == content


def test_what_is_no_file_of_the_folder_is_refused(tmp_path, files, read):
  fails("NOT_FOUND", read, "nothing")
  (files / "folder").mkdir()
  fails("FAILED_PRECONDITION", read, "folder")
  os.mkfifo(files / "pipe")
  fails("FAILED_PRECONDITION", read, "pipe")
  (files / "link").symlink_to(tmp_path / "secret")
  for name in ["../secret", str(tmp_path / "secret"), "link", "/etc/passwd"]:
    fails("PERMISSION_DENIED", read, name)


def test_without_a_folder_there_are_no_files():
  with server_process.running() as process, formwork.connect(process.grpc) as server:
    fails("FAILED_PRECONDITION", server.function(lambda name: tf.io.read_file(name)), "x")


def _restored(prefix):
  return tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["w"], shape_and_slices=[""],
                              dtypes=[tf.float32])[0]


def _saved(prefix):
  return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["w"], shape_and_slices=[""],
                           tensors=[tf.constant([1.])])


def _merged(prefix):
  return tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[prefix], destination_prefix="merged")


def _looked_up(name):
  table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
      name, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
      tf.lookup.TextFileIndex.LINE_NUMBER), -1)
  return table.lookup(tf.constant("x"))


def _count(dataset):
  return dataset.reduce(0, lambda n, _: n + 1)


def _lines(name):
  return _count(tf.data.TextLineDataset(name))


FAILING = {
    "read": (tf.io.read_file, "none"),
    "lines": (_lines, "none"),
    "lines of a folder": (_lines, "folder"),
    "inflated": (lambda name: _count(tf.data.TextLineDataset(name, "GZIP")), "cut.gz"),
    "records": (lambda name: _count(tf.data.TFRecordDataset(name)), "none"),
    "fixed": (lambda name: _count(tf.data.FixedLengthRecordDataset(name, 4)), "none"),
    "cache": (lambda name: _count(tf.data.Dataset.range(3).cache(name)), "plain/cache"),
    "damaged cache": (lambda name: _count(tf.data.Dataset.range(3).cache(name)), "bad"),
    "snapshot": (lambda name: _count(tf.data.Dataset.range(3).snapshot(name)), "plain/shot"),
    "restore": (_restored, "none"),
    "restore of damaged": (_restored, "bad"),
    "restore without data": (_restored, "no_data"),
    "restore of cut data": (_restored, "cut_data"),
    "save": (_saved, "plain/saved"),
    "save over a folder": (_saved, "taken"),
    "merge": (_merged, "none"),
    "table": (_looked_up, "none"),
}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
  """The folder of a server, with what requests fail at, and a client of it."""
  folder = tmp_path_factory.mktemp("damaged")
  (folder / "plain").write_bytes(b"a file, and no folder")
  (folder / "folder").mkdir()
  (folder / "taken.index").mkdir()
  (folder / "cut.gz").write_bytes(bytes.fromhex("1f8b080000000000000341"))
  (folder / "bad.index").write_bytes(b"no index")
  (folder / "bad.safetensors").write_bytes(b"no header")
  for name in ["no_data", "cut_data"]:
    tf.raw_ops.SaveV2(prefix=str(folder / name), tensor_names=["w"], shape_and_slices=[""],
                      tensors=[tf.zeros([100])])
  (folder / "no_data.data-00000-of-00001").unlink()
  os.truncate(folder / "cut_data.data-00000-of-00001", 8)
  with server_process.running("--files-dir", str(folder)) as process, \
      formwork.connect(process.grpc) as server:
    yield folder, server


def _says(failure, name, folder):
  message = str(failure.value)
  assert name in message and str(folder) not in message, message


@pytest.mark.parametrize("case", FAILING)
def test_errors_call_a_file_as_the_request_does(damaged, case):
  folder, server = damaged
  function, name = FAILING[case]

  @server.function
  def run(given):
    made = function(given)
    if isinstance(made, tf.Tensor):
      return made
    with tf.control_dependencies([made]):
      return tf.constant(1)

  with pytest.raises(formwork.Error) as failure:
    run(tf.constant(name))
  _says(failure, name, folder)


@pytest.mark.parametrize("name", ["none", "bad", "no_data", "cut_data", "none.safetensors",
                                  "bad.safetensors"])
def test_errors_of_checkpoints_call_them_as_the_request_does(damaged, name):
  folder, server = damaged
  with pytest.raises(formwork.Error) as failure:
    server.restore_checkpoint(name)
  _says(failure, name, folder)


@pytest.mark.parametrize("name", ["plain/x", "plain/x.safetensors", "taken"])
def test_errors_of_saving_call_checkpoints_as_the_request_does(damaged, name):
  folder, server = damaged
  server.variable("v", 1.)
  with pytest.raises(formwork.Error) as failure:
    server.save_checkpoint(name)
  _says(failure, name, folder)


def test_a_folder_that_has_gone_is_not_named(files):
  with server_process.running("--files-dir", str(files)) as process, \
      formwork.connect(process.grpc) as server:
    shutil.rmtree(files)
    with pytest.raises(formwork.Error, match="the server's folder for files") as failure:
      server.function(tf.io.read_file)(tf.constant("x"))
    assert failure.value.code == "FAILED_PRECONDITION"
    assert str(files) not in str(failure.value)
