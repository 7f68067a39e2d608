"""What it costs that each answered call is on disk: increments of one counter in a second, from 1,
8 and 64 clients, with --durability=memory and =sync.

The directory is on the disk that the build folder is on. Beside it: what that disk takes for a
write of 256 bytes and its fdatasync, one after the other.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import numpy as np

import formwork

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
          text = subprocess.run([options.bench, address, "count", str(clients),
                                 str(options.seconds)], capture_output=True, text=True,
                                check=True).stdout
          rounds.append(json.loads(text))
          calls += rounds[-1]["calls"]
        rows[clients] = sorted(rounds, key=lambda row: row["per_second"])[len(rounds) // 2]
      assert variable.read() == calls  # Each once.
    return rows
  finally:
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
  print(json.dumps(results, indent=2))
  if options.out:
    pathlib.Path(options.out).write_text(json.dumps(results))


if __name__ == "__main__":
  main()
