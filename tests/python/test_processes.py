"""Servers that end and come back, clients that are interrupted, and the example as users run it."""
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import conftest
import formwork

_ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def own(tmp_path):
  """Starts a server of the test's own: start(port) -> (process, address)."""
  if conftest.find_server() is None:
    pytest.skip("no formwork-server is built")
  started = []

  def start(port=0):
    process, target = conftest.start_server(conftest.find_server(), tmp_path / "log", port)
    started.append(process)
    return process, target

  yield start
  for process in started:
    if process.poll() is None:
      process.kill()
    process.wait()


def _port(target):
  return int(target.rpartition(":")[2])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_goes_on_after_its_server_came_back(own, how):
  process, target = own()
  v = tf.Variable(1., name="v")
  with formwork.connect(target, timeout=20, on_restart="push") as server:

    @server.function
    def add(x):
      return v.assign_add(x)

    @server.function
    def twice(x):
      return x * 2

    assert add(1.).numpy() == 2 and twice(3.).numpy() == 6 and v.numpy() == 2
    process.send_signal(how)
    process.wait(20)
    process, again = own(_port(target))
    assert again == target
    # Takes the IDs that the first client knows.
    with formwork.connect(target, namespace="other", timeout=20) as other:
      assert other.function(lambda x: x - 100)(tf.constant(1.)).numpy() == -99
    assert add(1.).numpy() == 3 and twice(3.).numpy() == 6
    assert len(server.functions()) == 2


def test_a_training_function_does_not_go_on_from_old_values(own):
  process, target = own()
  v = tf.Variable(1., name="v")
  with formwork.connect(target, timeout=20) as server:
    add = server.function(lambda x: v.assign_add(x))
    twice = server.function(lambda x: x * 2)
    assert [add(1.).numpy(), add(1.).numpy(), twice(3.).numpy()] == [2, 3, 6]
    process.kill()
    process.wait(20)
    own(_port(target))
    for _ in range(2):
      with pytest.raises(tf.errors.FailedPreconditionError, match=r"lost 1 variable.*\(v\)"):
        add(1.)
    assert twice(3.).numpy() == 6
    server.push(v)
    assert add(1.).numpy() == 2


def test_a_lost_function_of_the_low_level_is_registered_again_once(own):
  process, target = own()
  graph = tf.Graph()
  with graph.as_default():
    tf.add(tf.compat.v1.placeholder(tf.float32, [], name="x"), 1., name="y")
  with formwork.connect(target, timeout=20) as server:
    f = server.register("f", graph_def=graph.as_graph_def().SerializeToString(),
                        inputs=[formwork.TensorSpec("x:0", "float32", [])], outputs=["y:0"])
    assert f(1)[0] == 2
    process.kill()
    process.wait()
    own(_port(target))
    assert f(2)[0] == 3 and f(3)[0] == 4


def _processor_seconds(process):
  fields = pathlib.Path("/proc/%d/stat" % process.pid).read_text().rpartition(")")[2].split()
  return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_interrupt_ends_the_work_on_the_server(own):
  process, target = own()
  with formwork.connect(target, timeout=60) as server:

    @server.function
    def count(n):
      i = tf.constant(0, tf.int64)
      while i < n:
        i += 1
      return i

    assert count(tf.constant(3, tf.int64)).numpy() == 3
    # A shell's background jobs start with SIGINT ignored; then nothing would interrupt the call.
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
      count(tf.constant(10**15, tf.int64))
    signal.signal(signal.SIGINT, old)
    time.sleep(0.5)
    before = _processor_seconds(process)
    time.sleep(0.5)
    assert _processor_seconds(process) - before < 0.2
    assert count(tf.constant(4, tf.int64)).numpy() == 4
    with pytest.raises(formwork.Error) as e:
      server.call("count", [np.array(10**15, np.int64)], timeout=0.3)
    assert e.value.code == "DEADLINE_EXCEEDED"


def test_the_digits_are_learnt_by_two_processes_and_served_by_a_third(own, tmp_path):
  _, target = own()
  picture = tmp_path / "curve.svg"
  done = subprocess.run(
      [sys.executable, str(_ROOT / "client/python/examples/digits.py"), "--server", target,
       "--curve", str(picture)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
      timeout=300)
  assert done.returncode == 0, done.stdout[-3000:]
  assert "test accuracy: 0.9" in done.stdout and picture.read_text().startswith("<svg")
  with formwork.connect(target) as server:
    # Both workers found each other's functions and variables.
    assert sorted(f.name for f in server.functions()) == ["predict", "train_step"]
    assert len([v for v in server.variables() if v.name.endswith("kernel")]) == 4
