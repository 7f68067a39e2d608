"""What it costs that each answered call is on disk: increments of one counter in a second, from 1,
8 and 64 clients, with --durability=memory and =sync.

The directory is on the disk that the build folder is on. Beside it: what that disk takes for a
write of 256 bytes and its fdatasync, one after the other.

Then the same from threads of Python, ours (in memory) and TensorFlow's remote runtime in turns: a
tf.distribute.Server in a process of its own, a session for each client, one variable by name, which
is what of it several clients share. It keeps nothing on disk.
"""
import argparse
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import formwork

from python_bench import REMOTE, free_port

CLIENTS = (1, 8, 64)


def register_count(server):
  import tensorflow as tf
  variable = server.variable("v", np.int64(0))
  graph = tf.Graph()
  with graph.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.constant(1, tf.int64), name="add")
  server.register("count", graph_def=graph.as_graph_def().SerializeToString(), inputs=[],
                  outputs=[], captures={"v:0": variable}, targets=["add"])
  return variable


def disk_ms(directory, rounds=200):
  """The median of a small write and its fdatasync."""
  took = []
  with open(pathlib.Path(directory) / "probe", "wb", buffering=0) as file:
    for _ in range(rounds):
      began = time.monotonic()
      file.write(bytes(256))
      os.fdatasync(file.fileno())
      took.append((time.monotonic() - began) * 1e3)
  return float(np.median(took))


def call_from_clients(options, address, function, clients):
  """What commit_bench prints, as a dictionary."""
  text = subprocess.run([options.bench, address, function, str(clients), str(options.seconds)],
                        capture_output=True, text=True, check=True).stdout
  return json.loads(text)


def measure(options, durability, directory):
  """{clients: row} on a server of its own."""
  process = subprocess.Popen([options.server, "--port", "0", "--http-port", "-1", "--data-dir",
                              directory, "--durability", durability, "--snapshot-interval", "0"],
                             stdout=subprocess.PIPE, text=True)
  try:
    address = process.stdout.readline().split("grpc=")[1].split()[0]
    rows, calls = {}, 0
    with formwork.connect(address) as server:
      variable = register_count(server)
      for clients in CLIENTS:
        rounds = []
        for _ in range(options.rounds):
          rounds.append(call_from_clients(options, address, "count", clients))
          calls += rounds[-1]["calls"]
        rows[clients] = sorted(rounds, key=lambda row: row["per_second"])[len(rounds) // 2]
      assert variable.read() == calls  # Each once.
    return rows
  finally:
    process.kill()
    process.wait()


def increments(calls, seconds):
  """How many a second, each of `calls` again and again by a thread of its own."""
  done = [0] * len(calls)
  start = time.monotonic() + 0.1
  end = start + seconds

  def go_on(i):
    time.sleep(max(0, start - time.monotonic()))
    while time.monotonic() < end:
      calls[i]()
      done[i] += 1

  threads = [threading.Thread(target=go_on, args=[i]) for i in range(len(calls))]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  return sum(done), sum(done) / (time.monotonic() - start)


def beside_remote(options):
  """{clients: row} of ours and TensorFlow's remote runtime, from Python."""
  import tensorflow as tf
  v1 = tf.compat.v1
  port = free_port()
  remote = subprocess.Popen([sys.executable, "-c", REMOTE, str(port)], stdout=subprocess.PIPE,
                            text=True)
  process = subprocess.Popen([options.server, "--port", "0", "--http-port", "-1"],
                             stdout=subprocess.PIPE, text=True)
  sessions = []
  try:
    address = process.stdout.readline().split("grpc=")[1].split()[0]
    while "ready" not in remote.stdout.readline():
      if remote.poll() is not None:
        sys.exit("TensorFlow's server has not started")
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:worker/task:0"):
      theirs = v1.get_variable("v", initializer=np.int64(0), use_resource=True)
      add, read = theirs.assign_add(1, read_value=False), theirs.read_value()
    for _ in range(max(CLIENTS)):
      sessions.append(v1.Session("grpc://127.0.0.1:%d" % port, graph=graph))
    sessions[0].run(theirs.initializer)
    calls = {"tensorflow": [session.make_callable(add) for session in sessions]}
    servers = [formwork.connect(address) for _ in range(max(CLIENTS))]
    ours = register_count(servers[0])
    calls["ours"] = [functools.partial(server.call, "count", []) for server in servers]
    rows, counted = {}, dict.fromkeys(calls, 0)
    for each in calls.values():
      for call in each:
        call()
    for clients in CLIENTS:
      rounds = {name: [] for name in calls}
      for _ in range(options.rounds):
        for name, each in calls.items():
          count, per_second = increments(each[:clients], options.seconds)
          counted[name] += count
          rounds[name].append(per_second)
      rows[clients] = {name: statistics.median(each) for name, each in rounds.items()}
      rows[clients]["ratio"] = rows[clients]["ours"] / rows[clients]["tensorflow"]
    # Each once, and one by each client before.
    assert ours.read() == counted["ours"] + max(CLIENTS)
    assert sessions[0].run(read) == counted["tensorflow"] + max(CLIENTS)
    for server in servers:
      server.close()
    return rows
  finally:
    for session in sessions:
      session.close()  # It would wait for a server that has gone.
    remote.kill()
    process.kill()
    process.wait()


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--server", default="build/release/bin/formwork-server")
  parser.add_argument("--bench", default="build/release/bin/commit_bench")
  parser.add_argument("--seconds", type=float, default=2)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--out")
  options = parser.parse_args()
  results = {}
  directory = tempfile.mkdtemp(dir="build")
  try:
    results["disk_ms"] = disk_ms(directory)
    for durability in ("memory", "sync"):
      results[durability] = measure(options, durability, str(pathlib.Path(directory) / durability))
  finally:
    shutil.rmtree(directory)
  results["python_beside_remote_runtime"] = beside_remote(options)
  print(json.dumps(results, indent=2))
  if options.out:
    pathlib.Path(options.out).write_text(json.dumps(results))


if __name__ == "__main__":
  main()
