"""The `formwork` command against a server."""
import json
import subprocess

import formwork
import numpy as np
import pytest

import server_graphs
import server_process


@pytest.fixture(scope="module")
def server():
  with server_process.running() as made:
    yield made


@pytest.fixture
def client(server):
  with formwork.connect(server.grpc, namespace="command", timeout=60) as made:
    yield made
    made.clear()


def run(server, *arguments, code=0):
  """(stdout, stderr) of the command."""
  done = subprocess.run(
      [server_process.binary("formwork"), "--server", server.grpc, "--namespace", "command",
       *arguments], capture_output=True, text=True, timeout=60)
  assert done.returncode == code, (done.stdout, done.stderr)
  return done.stdout, done.stderr


def loop_of_kernels():
  """A loop to its input's value, of any shape, so that each turn is steps of its own."""
  import tensorflow as tf

  @tf.function
  def turns(n):
    return tf.while_loop(lambda i, n: tf.reduce_all(i < n), lambda i, n: (i + 1, n),
                         [tf.zeros_like(n), n], shape_invariants=[tf.TensorShape(None)] * 2)[0]

  concrete = turns.get_concrete_function(tf.TensorSpec(None, tf.int32))
  return {"graph_def": concrete.graph.as_graph_def().SerializeToString(),
          "inputs": [formwork.TensorSpec(concrete.inputs[0].name, "int32", None)],
          "outputs": [concrete.outputs[0].name]}


def ask(server, *arguments):
  return json.loads(run(server, "--json", *arguments)[0])


def test_lists_describes_and_removes_functions(server, client):
  assert ask(server, "functions") == []
  identity = server_graphs.register(client, "identity")
  [listed] = ask(server, "functions")
  assert listed["id"] == identity.id and listed["name"] == "identity"
  assert listed["inputs"][0]["dtype"] == "float32" and listed["inputs"][0]["shape"] == [None]
  assert "identity" in run(server, "functions")[0]
  assert "Input Parameters" in run(server, "describe", "identity")[0]
  assert "return %0" not in run(server, "describe", "identity")[0]
  assert "return %0" in run(server, "describe", "identity", "--plan")[0]
  assert ask(server, "rm", "identity") == {"removed": 1}
  assert "NOT_FOUND" in run(server, "rm", "identity", code=1)[1]


def test_calls_with_json_and_npy(server, client, tmp_path):
  server_graphs.register(client, "identity")
  assert run(server, "call", "identity", "--input", "[1, 2.5]")[0] == "float32[2] [1.0,2.5]\n"
  answer = ask(server, "call", "identity", "--input=[1, 2]")
  assert answer["outputs"] == [{"dtype": "float32", "shape": [2], "value": [1.0, 2.0]}]
  value = np.random.default_rng(1).random(1000, np.float32)
  np.save(tmp_path / "x.npy", value)
  run(server, "call", "identity", "--input", "%s/x.npy" % tmp_path, "--save", "%s/y" % tmp_path)
  assert np.array_equal(np.load(tmp_path / "y.npy"), value)


def spans_of(path):
  """{track: [(event, how deep it is nested)]} of a trace; checks its form, which Perfetto reads."""
  trace = json.loads(path.read_text())
  names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
  tracks = {name: [] for name in names.values()}
  open_until = {name: [] for name in names.values()}
  for e in trace["traceEvents"]:
    if e["ph"] != "X":
      assert e["ph"] in "Mi"
      continue
    assert e["pid"] == 1 and e["ts"] >= 0 and e["dur"] >= 0 and isinstance(e["name"], str)
    track, ends = names[e["tid"]], open_until[names[e["tid"]]]
    end = round(1000 * (e["ts"] + e["dur"]))
    while ends and ends[-1] <= round(1000 * e["ts"]):
      ends.pop()
    assert not ends or end <= ends[-1], "spans overlap"
    tracks[track].append((e, len(ends)))
    ends.append(end)
  return tracks, trace["otherData"]["left_out"]


def test_a_trace_shows_a_calls_way_and_its_steps(server, client, tmp_path):
  server_graphs.register(client, "doubled")
  path = tmp_path / "out.json"
  out, _ = run(server, "call", "doubled", "--input", "[1, 2]", "--trace", str(path))
  assert out == "float32[4] [1.0,2.0,1.0,2.0]\n"
  tracks, left_out = spans_of(path)
  assert left_out == 0
  top = [e["name"] for e, depth in tracks["call"] if depth == 0]
  assert top[:3] == ["find function", "bind", "take places"]
  assert "run" in top and top[-1] == "answer"
  [step] = [e for e, depth in tracks["call"] if depth == 1 and e["args"]["op"] == "ConcatV2"]
  assert step["cat"] == "step" and step["name"].endswith("concat")
  assert step["args"]["outputs"] == "float32[4]"
  # On a device what ran there is on another track.
  for track in set(tracks) - {"call"}:
    assert [e["name"] for e, _ in tracks[track] if e["cat"] == "work"] == [step["name"]]


def test_a_trace_of_a_long_loop_is_bounded(server, client, tmp_path):
  client.register("turns", **loop_of_kernels())
  path = tmp_path / "out.json"
  out, _ = run(server, "call", "turns", "--input", "int32:100000", "--trace", str(path))
  assert out == "int32[] 100000\n"
  assert path.stat().st_size < 8 << 20
  tracks, left_out = spans_of(path)
  assert 20000 < sum(map(len, tracks.values())) < 25000 and left_out > 150000
  assert "more were left out" in path.read_text()


@pytest.mark.parametrize("arguments, code", [
    (["--input", "int32:2000000000", "--timeout", "1"], "DEADLINE_EXCEEDED"),
    (["--input", "float64:1"], "INVALID_ARGUMENT"),
])
def test_a_call_that_fails_has_a_trace(server, client, tmp_path, arguments, code):
  client.register("turns", **loop_of_kernels())
  path = tmp_path / "out.json"
  id = client.functions("turns")[0].id  # So that what it refuses is known to be this one's.
  _, err = run(server, "call", "--id", str(id), *arguments, "--trace", str(path), code=1)
  assert code in err
  tracks, _ = spans_of(path)
  assert [e["name"] for e, _ in tracks["call"]][:2] == ["find function", "bind"]
  assert any(e["name"] == "run" for e, _ in tracks["call"]) == (code == "DEADLINE_EXCEEDED")


def test_a_trace_that_cannot_be_written_is_an_error(server, client):
  server_graphs.register(client, "identity")
  _, err = run(server, "call", "identity", "--input", "[1]", "--trace", "/nowhere/x", code=1)
  assert "cannot write /nowhere/x" in err


@pytest.mark.parametrize("arguments, code", [
    (["call", "nothing", "--input", "1"], "NOT_FOUND"),
    (["call", "identity", "--input", "int32:[1]"], "NOT_FOUND"),
    (["call", "identity", "--input", "[[1], [2, 3]]"], "INVALID_ARGUMENT"),
    (["call", "identity", "--input", "no json"], "INVALID_ARGUMENT"),
    (["read", "nothing"], "NOT_FOUND"),
    (["describe", "nothing"], "NOT_FOUND"),
])
def test_errors_are_told(server, client, arguments, code):
  server_graphs.register(client, "identity")
  out, err = run(server, "--json", *arguments, code=1)
  assert json.loads(out)["error"]["code"] in (code, "INVALID_ARGUMENT") and err


@pytest.mark.parametrize("text", ["3.7", "99999999999999999999", "int32:3000000000", "uint8:-1",
                                  "int8:true", 'float64:"1"', "bool:2", "half:1"])
def test_numbers_that_do_not_fit_their_dtype_are_refused(server, client, text):
  graph, output, entry, _ = server_graphs._traced("identity")
  client.register("wide", graph_def=graph, inputs=[formwork.TensorSpec(entry, "float32", None)],
                  outputs=[output])
  dtype, _, number = text.rpartition(":")
  text = "%s:%s" % (dtype or "int64", number)
  assert "dtype" in run(server, "call", "wide", "--input", text, code=1)[1]


def test_special_numbers_are_read_as_they_are_written(server, client):
  server_graphs.register(client, "identity")
  text = '["NaN", "Infinity", "-Infinity", 2.5]'
  answer = ask(server, "call", "identity", "--input", text)
  assert answer["outputs"][0]["value"] == json.loads(text)


def test_names_are_shown_escaped(server, client):
  done = run(server, "read", "a\x1b[31m", code=1)[1]
  assert "\x1b" not in done and "\\x1b" in done


def test_unknown_commands_are_named(server):
  _, err = run(server, "frobnicate", code=2)
  assert "'frobnicate'" in err and "variables" in err
  assert run(server, "--version")[0].startswith("formwork ")


def test_variables_are_listed_and_read(server, client):
  client.variable("w", initial_value=np.float32([[1, 2], [3, 4]]))
  client.variable("s", initial_value=np.array([b"a", b"bc"], object))
  listed = {v["name"]: v for v in ask(server, "variables")}
  assert listed["w"]["shape"] == [2, 2] and listed["w"]["bytes"] == 16
  assert ask(server, "read", "w")["value"] == [[1.0, 2.0], [3.0, 4.0]]
  assert ask(server, "read", "s")["value"] == ["a", "bc"]
  assert run(server, "read", "w")[0] == "float32[2,2] [[1.0,2.0],[3.0,4.0]]\n"
  run(server, "clear")
  assert ask(server, "variables") == []


def test_an_atomic_call_leaves_nothing_where_it_fails(server, client, tmp_path):
  import tensorflow as tf
  graph = tf.Graph()
  with graph.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    x = tf.compat.v1.placeholder(tf.float32, [], name="x")
    add = tf.raw_ops.AssignAddVariableOp(resource=handle, value=x, name="add")
    with tf.control_dependencies([add]):
      tf.raw_ops.Assert(condition=x > 0, data=[x], name="check")
  v = client.variable("v", np.float32(1))
  client.register("add", graph_def=graph.as_graph_def().SerializeToString(),
                  inputs=[formwork.TensorSpec("x:0", "float32", [])], outputs=[],
                  captures={"v:0": v}, targets=["check"])
  run(server, "call", "add", "--input", "1", "--atomic")
  for more in ([], ["--trace", str(tmp_path / "out.json")]):
    run(server, "call", "add", "--input", "-5", "--atomic", *more, code=1)
    assert v.read() == 2
  run(server, "call", "add", "--input", "-5", code=1)
  assert v.read() == -3


def test_registers_a_graph_from_a_file(server, client, tmp_path):
  graph, output, entry, _ = server_graphs._traced("identity")
  (tmp_path / "g.pb").write_bytes(graph)
  run(server, "register", "f", "--graph", "%s/g.pb" % tmp_path, "--input", entry + "=float32[?]",
      "--output", output)
  assert ask(server, "call", "f", "--input", "[7]")["outputs"][0]["value"] == [7.0]


def test_assigns_and_deletes_variables(server, client):
  client.variable("w", initial_value=np.float32([1, 2]))
  assert ask(server, "assign", "w", "--value", "[3, 4]")["version"] > 0
  assert ask(server, "read", "w")["value"] == [3.0, 4.0]
  assert "INVALID_ARGUMENT" in run(server, "assign", "w", "--value", "[[3]]", code=1)[1]
  run(server, "delete", "w")
  assert "NOT_FOUND" in run(server, "assign", "w", "--value", "[3, 4]", code=1)[1]


def test_releases_kept_tensors(server, client):
  server_graphs.register(client, "identity")
  [kept] = client.call("identity", [np.float32([1])], keep=True)
  assert ask(server, "release", str(kept.id), "7") == {"released": 1}


def test_shows_the_server(server, client):
  client.variable("w", initial_value=np.zeros([1000], np.float32))
  status = ask(server, "status")
  assert status["now"]["variables"] == 1 and status["now"]["variable_bytes"] == 4000
  assert status["epoch"] > 0 and status["ops"] > 100 and status["devices"][0]["threads"] > 0
  assert "calls queued" in run(server, "status")[0]


def test_lists_ops(server, client):
  everything = ask(server, "ops")
  names = [op["name"] for op in everything]
  assert names == sorted(names) == client.info().ops == list(client.ops())
  assert {"If", "VarHandleOp", "MatMul"} <= set(names) and "CollectiveReduceV2" not in names
  rint = ("Rint(x: T) -> (y: T); T: type in bfloat16 float16 float32 float64")
  assert ask(server, "ops", "Rint") == [
      {"name": "Rint", "signature": rint, "devices": ["CPU:0"]}]
  assert client.ops("R?nt") == {"Rint": rint}
  assert rint in run(server, "ops", "Rin*")[0]
  assert "no op 'rint'" in run(server, "ops", "rint", code=1)[1]


def test_bench_measures(server, client):
  server_graphs.register(client, "identity")
  result = ask(server, "bench", "--function", "identity", "--in-flight", "4", "--seconds", "0.3")
  assert result["calls"] > 0 and 0 < result["p50_us"] <= result["p99_us"]


def test_says_when_there_is_no_server():
  done = subprocess.run([server_process.binary("formwork"), "--server", "127.0.0.1:1",
                         "--timeout", "0.5", "functions"], capture_output=True, text=True,
                        timeout=30)
  assert done.returncode == 1
  assert "UNAVAILABLE" in done.stderr and "failed to connect" in done.stderr
