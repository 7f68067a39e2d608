"""Namespaces of a server: what each holds, its limits, and that one goes for good."""
import json
import re
import signal
import subprocess
import time
import urllib.request

import formwork
import numpy as np
import pytest

import server_graphs
import server_process


def names(server):
  return [one.name for one in server.namespaces()]


def command(process, *arguments):
  return subprocess.run([server_process.binary("formwork"), "--server", process.grpc, *arguments],
                        capture_output=True, text=True, timeout=60, check=True).stdout


def refused(*words):
  return pytest.raises(formwork.Error, match=".*".join(words))


def test_they_are_listed_and_removed():
  with server_process.running() as process, \
      formwork.connect(process.grpc, namespace="mine") as mine, \
      formwork.connect(process.grpc, namespace="theirs") as theirs:
    assert mine.namespaces() == [] and "namespaces" in mine.info().features
    mine.variable("v", np.zeros([1000], np.float32))
    mine.table("t", keys=[b"a"], values=[1])
    server_graphs.register(mine, "identity")
    kept = mine.keep(np.zeros([10], np.float32))
    theirs.variable("v", np.zeros([2], np.float32))
    first, second = mine.namespaces()
    assert (first.name, first.variables, first.other_resources, first.kept_tensors) == (
        "mine", 1, 1, 1)
    assert first.functions >= 1 and first.nbytes > 4040 and first.durability == "memory"
    assert (second.name, second.variables, second.nbytes) == ("theirs", 1, 8)
    assert [one.name for one in mine.namespaces("th*")] == ["theirs"]

    table = command(process, "namespaces").splitlines()
    assert [line.split()[0] for line in table] == ["NAME", "mine", "theirs"]
    listed = json.loads(command(process, "--json", "namespaces"))
    assert listed[0]["bytes"] == first.nbytes and listed[1]["variable_bytes"] == 8
    with urllib.request.urlopen("http://%s/metrics" % process.http) as answer:
      metrics = answer.read().decode()
    assert 'formwork_namespace_items{namespace="mine",of="variables"} 1' in metrics
    assert 'formwork_namespace_bytes{namespace="theirs",of="variables"} 8' in metrics
    assert 'formwork_namespace_items{namespace="other",of="functions"} 0' in metrics

    theirs.delete_namespace("mine")
    theirs.delete_namespace("nothing")
    assert names(mine) == ["theirs"] and mine.variables() == [] and mine.functions() == []
    with refused("no kept tensor of id=%d" % kept.id):
      kept.read()
    assert command(process, "--namespace", "theirs", "reset") == "cleared: theirs\n"
    assert names(mine) == []


def test_each_may_hold_so_much():
  flags = ["--max-namespace-variables", "2", "--max-namespace-functions", "1",
           "--max-namespace-kept-tensors", "2", "--max-namespace-bytes", "1M",
           "--max-client-kept-bytes", "2K"]
  with server_process.running(*flags) as process, \
      formwork.connect(process.grpc, namespace="a") as a, \
      formwork.connect(process.grpc, namespace="b") as b:
    limits = a.info().limits
    assert limits["namespace_variables"] == 2 and limits["client_kept_tensor_bytes"] == 2048
    v = a.variable("v", np.zeros([10], np.float32), shape=[None])
    a.variable("w", np.float32(0))
    with refused("namespace 'a'", "variables", "wanted=1 used=2 limit=2") as error:
      a.variable("x", np.float32(0))
    assert error.value.code == "RESOURCE_EXHAUSTED" and error.value.reason == "QUOTA"
    server_graphs.register(a, "identity")
    with refused("namespace 'a'", "functions", "wanted=1 used=1 limit=1"):
      server_graphs.register(a, "doubled")
    with refused("namespace 'a'", "bytes", "limit=1048576"):
      v.assign(np.zeros([300_000], np.float32))
    assert v.read().shape == (10,)
    a.keep(np.zeros([200], np.float32))
    with refused("client", "namespace 'a'", "limit=2048"):
      a.keep(np.zeros([400], np.float32))
    a.keep(np.float32(1))
    with refused("namespace 'a'", "kept tensors", "wanted=1 used=2 limit=2"):
      a.keep(np.float32(1))
    for name in ("x", "y"):  # Others have limits of their own.
      b.variable(name, np.float32(0))
    v.delete()
    a.variable("x", np.float32(0))


def test_what_is_removed_is_gone_after_a_crash(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--durability", "sync"]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process, \
      formwork.connect(process.grpc, namespace="gone") as gone, \
      formwork.connect(process.grpc, namespace="stays") as stays:
    for server in (gone, stays):
      server.variable("v", np.arange(3))
      server_graphs.register(server, "identity")
    stays.snapshot()  # So that it is removed from a snapshot, too.
    gone.variable("w", np.arange(3))
    gone.clear()
    assert names(stays) == ["stays"]
    process.terminate(signal.SIGKILL)
    process.exit_code()
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
    (left,) = server.namespaces()
    assert (left.name, left.variables, left.functions, left.durability) == ("stays", 1, 1, "sync")


def test_kept_tensors_go_with_their_client():
  with server_process.running("--client-ttl", "1") as process, \
      formwork.connect(process.grpc) as gone, formwork.connect(process.grpc) as lives:
    left, used, mine = (server.keep(np.float32(1)) for server in (gone, gone, lives))
    v = lives.variable("v", np.float32(0))
    deadline = time.monotonic() + 30
    while len(lives.kept_tensors()) == 3 and time.monotonic() < deadline:
      v.assign(np.float32(1))
      server_use(lives, used)
      time.sleep(0.1)
    assert {one.id for one in lives.kept_tensors()} == {used.id, mine.id}
    with refused("no kept tensor of id=%d" % left.id) as error:
      left.read()
    assert error.value.code == "NOT_FOUND" and error.value.reason == "TENSOR_NOT_FOUND"


def server_use(server, kept):
  """Uses what another client has kept, by its ID."""
  (same,) = [one for one in server.kept_tensors() if one.id == kept.id]
  assert same.read() == 1


def test_a_list_says_what_the_last_snapshot_has(tmp_path):
  with server_process.running("--data-dir", str(tmp_path), "--snapshot-interval", "0") as process, \
      formwork.connect(process.grpc) as server:
    v = server.variable("v", np.float32(0))
    assert json.loads(command(process, "--json", "variables"))[0]["snapshot_version"] == 0
    server.snapshot()
    v.assign(np.float32(1))
    (listed,) = json.loads(command(process, "--json", "variables"))
    assert (listed["version"], listed["snapshot_version"]) == (2, 1)
    assert re.search(r" version 1, \d+s ago$", command(process, "variables").splitlines()[1])
