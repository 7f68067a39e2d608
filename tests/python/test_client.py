"""What the low level sends, and what it makes of answers. Against the stand-in."""
import json
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
from formwork import kept_tensors


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
  return g.as_graph_def().SerializeToString(deterministic=True)


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


# ------------------------------------------------------------------------------------- restarts
def test_what_names_something_by_id_carries_the_epoch_of_that(fake, server):
  variable = _variable(server)
  f = _register(server, variable)
  (kept,) = f([[1, 1, 1]], keep=True)
  server.call("f", [kept])
  kept.read()
  kept.release()
  variable.assign(variable.read())
  variable.delete()
  named = [r for r in fake.log if getattr(r, "expected_epoch", None) is not None]
  assert len(named) == 9
  assert all(r.expected_epoch == fake.epoch for r in named
             if type(r).__name__ != "CreateVariableRequest")


def test_a_variable_that_was_deleted_is_named(live):
  v, w = (live.variable(name, np.float32(1)) for name in "vw")
  live.variables("w")[0].delete()
  for use in (w.read, w.delete, lambda: w.assign(2.), lambda: live.read([v, w])):
    with pytest.raises(formwork.Error, match="variable 'w' was deleted"):
      use()


def test_changes_say_who_asks_and_in_what_order(fake, server):
  variable = _variable(server)
  f = _register(server, variable)
  f([[1, 1, 1]])
  server.call("f", [[[1., 1, 1]]], keep=True)
  variable.assign([1, 2, 3])
  server.keep([1, 2]).release()
  f.delete()
  variable.delete()
  server.clear()
  signed = [r for r in fake.log if getattr(r, "client_id", "")]
  assert len(signed) == len(fake.log) == 10 and len({r.client_id for r in signed}) == 1
  assert [r.sequence for r in signed] == list(range(1, 11))


def test_a_variable_that_is_lost_with_a_restart_raises_and_touches_no_other(fake, server):
  variable = _variable(server)
  fake.restart()
  with formwork.connect(fake.target, namespace="others") as other:
    theirs = other.variable("w", initial_value=np.float32([7, 8, 9]))
    for use in (variable.read, lambda: variable.assign([0, 0, 0]), variable.delete,
                lambda: server.read([variable]), lambda: _register(server, variable)):
      with pytest.raises(formwork.Error) as e:
        use()
      assert e.value.code == "NOT_FOUND" and "variable 'w'" in e.value.message
      assert "restarted" in e.value.message and "server.variable('w'" in e.value.message
    assert theirs.read().tolist() == [7, 8, 9]


def test_a_variable_that_was_made_again_is_found_by_its_name_with_a_warning(fake, server, caplog):
  variable = _variable(server)
  f = _register(server, variable)
  fake.restart()
  _variable(server).assign([1, 2, 3])
  assert f([[1, 1, 1]])[0].tolist() == [[3, 4, 5]]
  assert variable.read().tolist() == [2, 3, 4]
  assert ["'w'" in r.getMessage() for r in caplog.records] == [True]


def test_one_of_another_kind_is_not_taken_for_it(fake, server):
  variable = _variable(server)
  fake.restart()
  server.variable("w", initial_value=np.float32([1]))
  with pytest.raises(formwork.Error) as e:
    variable.read()
  assert e.value.code == "NOT_FOUND" and "another dtype or shape" in e.value.message


def test_a_function_whose_variable_is_lost_says_so(fake, server):
  f = _register(server, _variable(server))
  fake.restart()
  with pytest.raises(formwork.Error) as e:
    f([[1, 1, 1]])
  assert e.value.code == "NOT_FOUND" and "variable 'w'" in e.value.message


def test_a_function_that_was_looked_up_is_looked_up_again(fake, server):
  signature = formwork.FunctionType.from_json({"parameters": [
      {"name": "x", "type": {"kind": "tensor", "dtype": "float32", "shape": [None, 3]}}]})
  _register(server, _variable(server), signature=signature)
  found = server.resolve("f", signature)
  fake.restart()
  with pytest.raises(formwork.Error) as e:
    found([[1, 1, 1]])
  assert e.value.code == "NOT_FOUND"
  _register(server, _variable(server), signature=signature)
  assert found([[1, 1, 1]])[0].tolist() == [[2, 2, 2]]


def test_a_kept_tensor_that_is_lost_says_so(fake, server):
  f = _register(server, _variable(server))
  (kept,) = f([[1, 1, 1]], keep=True)
  fake.restart()
  _variable(server)
  for use in (kept.read, lambda: f(kept), lambda: server.call("f", [kept])):
    with pytest.raises(formwork.Error) as e:
      use()
    assert e.value.code == "NOT_FOUND" and "kept tensor %d" % kept.id in e.value.message
  kept.release()


def test_a_variable_of_another_namespace_is_refused(fake, server):
  f = _register(server, _variable(server))
  with formwork.connect(fake.target, namespace="others") as other:
    theirs = _variable(other)
    for use in (lambda: f(theirs), lambda: server.read([theirs]),
                lambda: _register(server, theirs, name="g")):
      with pytest.raises(formwork.Error) as e:
        use()
      assert e.value.code == "INVALID_ARGUMENT" and "others" in e.value.message


# ---------------------------------------------------------------------------------- many and large
def test_many_variables_are_read_and_set_at_once(either):
  a, b = (either.variable(name, initial_value=np.float32([1, 2])) for name in "ab")
  either.assign({a: [3, 4], b: [5, 6]})
  assert [v.tolist() for v in either.read([b, a])] == [[5, 6], [3, 4]]
  with pytest.raises(formwork.Error):
    either.assign({a: [0, 0], b: [1, 2, 3]})
  assert a.read().tolist() == [3, 4] and either.read([]) == []


def test_values_beyond_a_message_travel_in_chunks(fake, server, monkeypatch):
  monkeypatch.setattr(kept_tensors, "SURELY_FITS", 16)
  monkeypatch.setattr(kept_tensors, "_CHUNK", 40)
  monkeypatch.setattr(fake, "message_bytes", (1 << 16) + 100)
  value = np.arange(90, dtype=np.float32).reshape(30, 3)
  v = server.variable("large", initial_value=value)
  assert (v.read() == value).all()
  v.assign(value + 1)
  assert (v.read() == value + 1).all()
  text = server.variable("text", initial_value=np.array([b"x" * 90, b"y" * 70], object))
  assert text.read().tolist() == [b"x" * 90, b"y" * 70]
  assert fake.methods().count("WriteTensor") == 23 and fake.methods().count("ReadTensor") == 20
  f = _register(server, _variable(server))
  assert (f(value)[0] == value * 2).all() and (server.call("f", [value])[0] == value * 2 + 1).all()
  assert not fake.kept
  kept = server.keep(value, keep_for=2.5)
  assert kept.nbytes == 360 and server.kept_tensors(mine=True)[0].time_to_live == 2.5
  assert (kept.read() == value).all()


def test_outputs_in_chunks_are_put_together(fake, server, monkeypatch):
  f = _register(server, _variable(server))
  monkeypatch.setattr(fake, "in_chunks", True)
  value = np.arange(300, dtype=np.float32).reshape(100, 3)
  for _ in range(2):
    (got,) = f(value)
    assert got.flags.writeable and got.shape == (100, 3)


def test_kept_tensors_are_listed_with_their_owners(fake, server):
  f = _register(server, _variable(server))
  (mine,) = f([[1, 1, 1]], keep=True, keep_for=60)
  with formwork.connect(fake.target, namespace=server.namespace) as other:
    other.keep(np.int32([1]))
    assert len(server.kept_tensors()) == 2
    (listed,) = server.kept_tensors(mine=True)
  assert (listed.id, listed.dtype, listed.shape, listed.time_to_live) == (
      mine.id, "float32", [1, 3], 60)


def test_what_a_server_says_of_itself(either):
  info = either.info()
  assert info.version and info.epoch and info.ops and info.durability == "memory"
  assert either.variables(filter="no*") == [] and either.functions(filter="no*") == []


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
  assert str(e.value).endswith("\n  given: ()\n  there: (x: float32[?,3])")
  with pytest.raises(formwork.Error) as e:
    either.call("f", [np.int32([[1, 2, 3]]), variable])
  if isinstance(e.value, formwork.NoMatchingSignature):  # The stand-in does not dispatch so.
    assert "given: (int32[1,3], Variable float32[3])" in str(e.value)
  with pytest.raises(formwork.Error) as e:
    either.resolve("nothing", other)
  assert e.value.code == "NOT_FOUND" and not isinstance(e.value, formwork.NoMatchingSignature)


def test_a_call_is_traced_into_a_file(live, tmp_path):
  _register(live, _variable(live))
  path = tmp_path / "out.json"
  live.call("f", [np.ones([2, 3], np.float32)], trace=str(path))
  trace = json.loads(path.read_text())
  spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
  names = [e["name"] for e in spans if e["cat"] == "phase"]
  assert names[:2] == ["find function", "bind"] and names[-1] == "answer"
  [run] = [e for e in spans if e["name"] == "run"]
  steps = [e for e in spans if e["cat"] == "step"]
  assert steps and all(e["args"]["op"] for e in steps)
  assert all(run["ts"] <= e["ts"] and e["ts"] + e["dur"] <= run["ts"] + run["dur"] + 1e-3
             for e in steps)
  assert trace["otherData"]["left_out"] == 0


def test_a_call_that_fails_is_traced_too(live, tmp_path):
  path = tmp_path / "out.json"
  with pytest.raises(formwork.Error, match="nothing"):
    live.call("nothing", [], trace=str(path))
  names = [e["name"] for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
  assert names == ["find function"]


def test_a_server_without_timelines_is_warned_of(server, tmp_path):
  _register(server, _variable(server))
  path = tmp_path / "out.json"
  with pytest.warns(UserWarning, match="without a timeline"):
    server.call("f", [np.ones([2, 3], np.float32)], trace=str(path))
  assert not path.exists()


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


@pytest.mark.parametrize("body, words", [
    (lambda x: tf.data.experimental.SqlDataset("sqlite", "x", "select", (tf.float32,)).reduce(
        x, lambda a, b: a), "datasets of this kind")],
    ids=["dataset"])
def test_ops_that_stay_here_say_what_to_do_instead(live, body, words):
  with pytest.raises(formwork.Error) as e:
    live.function(body)(tf.constant(1.))
  assert e.value.code == "UNIMPLEMENTED" and words in e.value.message
