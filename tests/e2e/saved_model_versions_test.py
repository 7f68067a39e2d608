"""Higher versions of a SavedModel, which a server loads as they come."""
import os
import shutil
import threading
import time

import formwork
import numpy as np
import pytest
import tensorflow as tf

import server_process
from serving_models import Linear

MODEL = ["--saved-model", "m=m"]
FOLLOWED = [*MODEL, "--saved-model-interval", "0.05"]


@pytest.fixture
def files(tmp_path):
  folder = tmp_path / "files"
  (folder / "m").mkdir(parents=True)
  return folder


def save(path, scale):
  model = Linear(scale)
  tf.saved_model.save(model, str(path), signatures={"serving_default": model.rows})


def add(files, version):
  """At once, as one who knows that it is looked at."""
  save(files / "being_written", version)
  os.rename(files / "being_written", files / "m" / str(version))


def version_of(server):
  return int(server.call("m", {"x": np.float32([[1, 0]])})["y"][0, 0])


def wait_until(holds):
  deadline = time.monotonic() + 30
  while not holds() and time.monotonic() < deadline:
    time.sleep(0.02)
  assert holds()


def test_calls_go_on_with_the_one_or_the_other(files):
  add(files, 2)
  with server_process.running("--files-dir", str(files), *FOLLOWED) as process, (
      formwork.connect(process.grpc)) as server:
    seen, stop = [], threading.Event()

    def ask():
      while not stop.is_set():
        seen.append(version_of(server))
    thread = threading.Thread(target=ask)
    thread.start()
    for version in (3, 10):
      add(files, version)
      wait_until(lambda: not thread.is_alive() or version in seen)
    add(files, 9)
    save(files / "m/latest", 11)  # No number.
    wait_until(lambda: not thread.is_alive() or len(seen) > 1000)
    stop.set()
    thread.join()
    assert sorted(seen) == seen and set(seen) == {2, 3, 10}
    # What someone else loads stays, until there is a higher version than ever.
    server.load_saved_model("m/3", "m", replace=True)
    shutil.rmtree(files / "m/10")
    time.sleep(0.5)
    assert version_of(server) == 3
    add(files, 11)
    wait_until(lambda: version_of(server) == 11)
    assert len(server.variables()) == 1


def test_one_that_cannot_be_loaded_is_tried_again(files):
  add(files, 1)
  with server_process.running("--files-dir", str(files), *FOLLOWED) as process, (
      formwork.connect(process.grpc)) as server:
    save(files / "whole", 2)
    (files / "m/2").mkdir()
    shutil.copy(files / "whole/saved_model.pb", files / "m/2")
    # Each step of someone who copies it slowly: the graph, then its variables.
    shutil.copytree(files / "whole/variables", files / "m/2/variables",
                    ignore=shutil.ignore_patterns("*.index"))
    (files / "m/2/variables/variables.index").touch()
    wait_until(lambda: "--saved-model=m=m" in process.log_text())
    assert version_of(server) == 1
    time.sleep(0.5)
    assert process.log_text().count("what is loaded goes on") == 1
    os.replace(files / "whole/variables/variables.index", files / "m/2/variables/variables.index")
    wait_until(lambda: version_of(server) == 2)
    assert [v.name for v in server.variables()] == ["m@2/Variable"]
    # A folder that has gone, and comes back with nothing new.
    os.rename(files / "m", files / "away")
    wait_until(lambda: process.log_text().count("what is loaded goes on") == 2)
    os.rename(files / "away", files / "m")
    time.sleep(0.5)
    assert version_of(server) == 2
    assert [v.name for v in server.variables()] == ["m@2/Variable"]


def test_what_the_data_directory_has_is_followed_too(files, tmp_path):
  add(files, 1)
  flags = ["--files-dir", str(files), "--data-dir", str(tmp_path / "data")]
  with server_process.running(*flags, *FOLLOWED) as process, formwork.connect(process.grpc) as server:
    assert version_of(server) == 1
  add(files, 2)
  with server_process.running(*flags, *MODEL) as process, (
      formwork.connect(process.grpc)) as server:
    time.sleep(0.3)
    assert version_of(server) == 1
  with server_process.running(*flags, *FOLLOWED) as process, formwork.connect(process.grpc) as server:
    wait_until(lambda: version_of(server) == 2)


def test_the_end_cuts_a_load_off(files):
  add(files, 1)
  with server_process.running("--files-dir", str(files), *FOLLOWED) as process:
    add(files, 2)
    wait_until(lambda: "m/2" in process.log_text() or process.process.poll() is not None)
    for version in range(3, 8):
      add(files, version)
    process.terminate()
    assert process.exit_code(timeout=20) == 0, process.log_text()
