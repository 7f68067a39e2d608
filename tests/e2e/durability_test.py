"""Namespaces of different durability on one server."""
import json
import re
import signal
import subprocess
import threading
import time

import formwork
import numpy as np
import pytest

import lost_connections_test
import server_process
import sync_test

NAMES = ("lost", "as_of_snapshot", "all")
DURABILITIES = dict(zip(NAMES, ("memory", "snapshot", "sync")))


def command(process, *arguments):
  return subprocess.run([server_process.binary("formwork"), "--server", process.grpc, *arguments],
                        capture_output=True, text=True, timeout=60)


def connect_all(process):
  return [formwork.connect(process.grpc, namespace=name) for name in NAMES]


def commits(process):
  return int(re.search(r"^formwork_commits_total (\d+)", process.get("/metrics")[1], re.M)[1])


def test_each_namespace_has_what_it_is_set_to(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--snapshot-interval", "0",
           "--port", str(server_process.free_port())]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
    servers = connect_all(process)
    lost, snapshot, everything = servers
    assert "durability" in lost.info().features and lost.info().durability == "snapshot"
    lost.set_durability("memory")
    set_ = command(process, "--namespace", "all", "durability", "sync")
    assert (set_.returncode, set_.stdout) == (0, "durability: sync\n")
    listed = json.loads(command(process, "--json", "namespaces").stdout)
    assert {one["name"]: one["durability"] for one in listed} == {"lost": "memory", "all": "sync"}
    epochs = [server.info().epoch for server in servers]
    variables = [server.variable("v", np.int64(0)) for server in servers]
    counts = [sync_test.register_counter(server, "count", [v])
              for server, v in zip(servers, variables)]
    for count in counts:
      assert count() == [1]
    snapshot.snapshot()
    before = commits(process)
    for _ in range(20):
      counts[0]()
      counts[1]()
    assert commits(process) == before  # None of them has waited for a disk.
    for _ in range(20):
      counts[2]()
    assert commits(process) == before + 20
    assert {one.name: one.durability for one in lost.namespaces()} == DURABILITIES
    with pytest.raises(formwork.Error, match="namespace 'all' holds something") as error:
      everything.set_durability("memory")
    assert error.value.code == "FAILED_PRECONDITION"
    refused = command(process, "--namespace", "all", "durability", "snapshot")
    assert refused.returncode == 1 and "holds something" in refused.stderr
    assert command(process, "durability", "disk").returncode == 2
    with pytest.raises(formwork.Error, match="expected"):
      lost.set_durability("disk")
    process.terminate(signal.SIGKILL)
    process.exit_code()
  with server_process.running(*flags) as process:
    # Its clients notice nothing: by its ID.
    assert counts[2]() == [22] and variables[2].read() == 22
    # Theirs do, each of its own.
    assert variables[1].read() == 1
    with pytest.raises(formwork.Error, match="'v'") as error:
      variables[0].read()
    assert error.value.code == "NOT_FOUND"
    now = [server.info().epoch for server in servers]
    assert [a == b for a, b in zip(now, epochs)] == [False, False, True]
    assert lost.variables() == [] and lost.functions() == []
    assert {one.name: one.durability for one in lost.namespaces()} == DURABILITIES
    lost.variable("v", np.int64(7))
  # In peace: all but memory.
  with server_process.running(*flags) as process:
    assert counts[2]() == [23] and variables[1].read() == 1
    assert [server.info().epoch for server in servers][1:] == now[1:]
    assert lost.variables() == []
    everything.clear()
    assert {one.name: one.durability for one in lost.namespaces()} == {
        "lost": "memory", "as_of_snapshot": "snapshot"}
    for server in servers:
      server.close()


@pytest.mark.parametrize("killed", [False, True])
def test_a_removal_whose_answer_was_lost_is_done_once(tmp_path, killed):
  flags = ["--data-dir", str(tmp_path), "--snapshot-interval", "0",
           "--port", str(server_process.free_port())]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
    process.terminate(signal.SIGKILL)  # From now on the epoch of "sync" is one of its own.
    process.exit_code()
  exit_code = -signal.SIGKILL if killed else 0
  with server_process.running(*flags, exit_code=exit_code) as process:
    cutter = lost_connections_test.Cutter(process.grpc, 1, 10**9, 10**9 + 1)
    with formwork.connect(process.grpc, namespace="all") as other:
      other.set_durability("sync")
      client = formwork.connect(cutter.target, namespace="all", retry_for=30)
      client.variable("v", np.int64(1))
      epoch = client.info().epoch
      cutter.deaf = True
      failed = []

      def clear():
        try:
          client.clear()
        except formwork.Error as e:
          failed.append(e)

      clearing = threading.Thread(target=clear)
      clearing.start()
      while other.variables():
        time.sleep(.01)
      assert other.info().epoch != epoch
      # Answered: it is on disk.
      while not re.search(r'requests_total\{[^}]*"Clear"[^}]*\} 1$', process.get("/metrics")[1], re.M):
        time.sleep(.01)
      if not killed:
        other.variable("v", np.int64(9))
      assert clearing.is_alive()  # It has not heard of it.
    if killed:
      process.terminate(signal.SIGKILL)
      process.exit_code()
    else:
      cutter.deaf = False
      cutter.cut()
      clearing.join(20)
      assert not clearing.is_alive() and not failed
      assert client.variables()[0].read() == 9
      assert process.metric("formwork_repeats_answered_total") == 1
  if killed:
    with server_process.running(*flags) as process, \
        formwork.connect(process.grpc, namespace="all") as other:
      assert other.variables() == []
      other.variable("v", np.int64(9))
      cutter.deaf = False
      cutter.cut()
      clearing.join(20)
      assert not clearing.is_alive() and not failed
      assert other.variables()[0].read() == 9
      assert process.metric("formwork_repeats_answered_total") == 1
  client.close()
  cutter.close()


def test_memory_is_the_default_of_those_that_have_none(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--durability", "memory"]
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server, \
      formwork.connect(process.grpc, namespace="model") as model:
    assert server.info().durability == "memory"
    model.set_durability("sync")
    model.variable("v", np.int64(1))
    server.variable("v", np.int64(1))
  with server_process.running(*flags) as process, formwork.connect(process.grpc) as server, \
      formwork.connect(process.grpc, namespace="model") as model:
    assert server.variables() == []
    (v,) = model.variables()
    assert v.read() == 1


def test_without_a_data_directory_nothing_outlives_it():
  with server_process.running() as process, formwork.connect(process.grpc) as server:
    server.set_durability("memory")
    with pytest.raises(formwork.Error, match="data directory") as error:
      server.set_durability("sync")
    assert error.value.code == "FAILED_PRECONDITION"
