"""What the low level sends, and what it makes of answers. Against the stand-in."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import formwork


def _graph(constant=2.0, padding=0):
  """x[None, 3] * c + read(w), and w += 1."""
  g = tf.Graph()
  with g.as_default():
    x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
    w = tf.compat.v1.placeholder(tf.resource, [], name="w")
    c = tf.constant(constant, name="c")
    if padding:
      tf.constant(np.random.default_rng(0).random(padding), name="padding")
    read = tf.raw_ops.ReadVariableOp(resource=w, dtype=tf.float32)
    with tf.control_dependencies([read]):
      tf.raw_ops.AssignAddVariableOp(resource=w, value=tf.ones([3]), name="add")
    tf.identity(x * c + read, name="y")
  return g.as_graph_def().SerializeToString()


def _register(server, v, name="f", padding=0, **options):
  return server.register(
      name, graph_def=_graph(padding=padding),
      inputs=[formwork.TensorSpec("x:0", "float32", [None, 3])],
      outputs=["y:0"], captures={"w:0": v}, targets=["add"], **options)


def _variable(server):
  return server.variable("w", initial_value=np.zeros([3], np.float32))


def test_a_call_returns_writable_arrays_and_keeps_state(either):
  variable = _variable(either)
  f = _register(either, variable)
  (first,) = f(np.ones([2, 3], np.float32))
  assert first.tolist() == [[2, 2, 2]] * 2 and first.flags.writeable
  assert f([[1, 2, 3]])[0].tolist() == [[3, 5, 7]]
  assert variable.read().tolist() == [2, 2, 2]
  variable.assign([0, 0, 1])
  assert either.call("f", [np.zeros([1, 3], np.float32)])[0].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("inputs", [
    [], [np.ones([2, 3], np.float32)] * 2, [np.ones([2, 3])], [np.ones([2, 4], np.float32)],
    ["text"], [None]], ids=["none", "two", "float64", "shape", "str", "None"])
def test_inputs_that_do_not_fit_are_invalid(either, inputs):
  variable = _variable(either)
  with pytest.raises(formwork.Error) as e:
    _register(either, variable)(*inputs)
  assert e.value.code == "INVALID_ARGUMENT" and e.value.message


def test_a_kept_tensor_is_an_input_of_the_next_call(either):
  variable = _variable(either)
  f = _register(either, variable)
  (kept,) = either.call("f", [np.ones([1, 3], np.float32)], keep=True)
  assert isinstance(kept, formwork.KeptTensor) and kept.read().tolist() == [[2, 2, 2]]
  assert f(kept)[0].tolist() == [[5, 5, 5]]
  kept.release()


def test_attaching_keeps_the_value_and_another_shape_is_refused(either):
  variable = _variable(either)
  again = either.variable("w", initial_value=np.ones([3], np.float32))
  assert again.id == variable.id and again.existed and again.read().tolist() == [0, 0, 0]
  with pytest.raises(formwork.Error) as e:
    either.variable("w", initial_value=np.ones([4], np.float32))
  assert e.value.code == "INVALID_ARGUMENT"
  wide = either.variable("wide", initial_value=np.ones([2], np.float32), shape=[None])
  assert (wide.dtype, wide.shape) == ("float32", [None])
  assert either.variable("any", initial_value=1.5, shape=None).shape is None


def test_a_small_graph_goes_at_once_and_a_known_one_not_again(fake, server):
  variable = _variable(server)
  _register(server, variable)
  other = server.variable("w2", initial_value=np.zeros([3], np.float32))
  _register(server, other, name="g")
  first, second = [r for r in fake.log if type(r).__name__ == "RegisterRequest"]
  assert first.graph_def and not second.graph_def
  assert first.fingerprint == second.fingerprint and len(first.fingerprint) == 64


def test_a_large_graph_is_asked_for(fake, server):
  variable = _variable(server)
  _register(server, variable, padding=20000)
  first, second = [r for r in fake.log if type(r).__name__ == "RegisterRequest"]
  assert not first.graph_def and len(second.graph_def) > 64 << 10


def test_a_lost_function_is_registered_again_once(fake, server):
  variable = _variable(server)
  f = _register(server, variable)
  known = f.id
  fake.evict()
  assert f([[1, 1, 1]])[0].tolist() == [[2, 2, 2]] and f.id != known
  assert fake.methods()[-3:] == ["Call", "Register", "Call"]
  f.delete()
  with pytest.raises(formwork.Error) as e:
    f([[1, 1, 1]])
  assert e.value.code == "NOT_FOUND"


def test_errors_tell_what_is_there(either):
  variable = _variable(either)
  f = _register(either, variable, signature=formwork.FunctionType.from_json({"parameters": [
      {"name": "x", "type": {"kind": "tensor", "dtype": "float32", "shape": [None, 3]}}]}))
  assert either.resolve("f", f.signature).id == f.id
  other = formwork.FunctionType.from_json({"parameters": []})
  with pytest.raises(formwork.NoMatchingSignature) as e:
    either.resolve("f", other)
  assert e.value.code == "NOT_FOUND" and e.value.candidates == [f.signature]
  assert e.value.suggested == other
  with pytest.raises(formwork.Error) as e:
    either.resolve("nothing", other)
  assert e.value.code == "NOT_FOUND" and not isinstance(e.value, formwork.NoMatchingSignature)


def test_many_threads_share_a_server(either):
  variable = _variable(either)
  f = _register(either, variable)
  failures = []

  def work():
    try:
      for _ in range(20):
        f(np.ones([1, 3], np.float32))
    except Exception as e:
      failures.append(e)

  threads = [threading.Thread(target=work) for _ in range(8)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  assert not failures and variable.read().tolist() == [160] * 3


def test_a_server_that_hangs_runs_into_the_deadline(fake, server):
  variable = _variable(server)
  f = _register(server, variable)
  f([[1, 1, 1]])
  fake.hang.set()
  start = time.monotonic()
  try:
    with pytest.raises(formwork.Error) as e:
      f([[1, 1, 1]], timeout=0.2)
  finally:
    fake.hang.clear()
  assert e.value.code == "DEADLINE_EXCEEDED" and time.monotonic() - start < 3
  assert f([[1, 1, 1]])


def test_an_interrupt_cancels_the_call(fake, server):
  variable = _variable(server)
  f = _register(server, variable)
  f([[1, 1, 1]])
  fake.hang.set()
  fake.cancelled.clear()
  # A shell's background jobs start with SIGINT ignored; then nothing would interrupt the call.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
  timer.start()
  try:
    with pytest.raises(KeyboardInterrupt):
      f([[1, 1, 1]])
    assert fake.cancelled.wait(5)
  finally:
    signal.signal(signal.SIGINT, before)
    fake.hang.clear()
  assert f([[1, 1, 1]])


def test_no_server_is_unavailable():
  with pytest.raises(formwork.Error) as e:
    formwork.connect("127.0.0.1:1", timeout=0.3)
  assert e.value.code == "UNAVAILABLE"


def test_a_closed_server_says_so(fake):
  server = formwork.connect(fake.target)
  server.close()
  for request in (server.functions, lambda: server.call("f", [])):
    with pytest.raises(formwork.Error):
      request()


def test_serving_needs_no_tensorflow(fake):
  code = ("import sys, formwork\n"
          "with formwork.connect(%r, timeout=10) as s: s.functions()\n"
          "assert 'tensorflow' not in sys.modules" % fake.target)
  subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
