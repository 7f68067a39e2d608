"""Files that graphs read: those of the server's folder, and no others."""
import os

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
