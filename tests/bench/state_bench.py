"""Snapshots of a server with variables of 1 GiB, and what calls beside them wait.

Prints what a snapshot takes that writes all of it and one that has little to write, the time to
start again, and the latency of calls (p50, p99) with no snapshot under way and with one. The calls
add to one of the variables, of 4 MiB, which a snapshot holds on to; and, in turn, to a counter in a
namespace of durability "sync", each of whose calls waits for the same disk.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import numpy as np

import formwork


def start(binary, directory):
  process = subprocess.Popen([binary, "--port", "0", "--http-port", "-1", "--data-dir", directory,
                              "--snapshot-interval", "0"], stdout=subprocess.PIPE, text=True)
  began = time.monotonic()
  line = process.stdout.readline()
  return process, line.split("grpc=")[1].split()[0], time.monotonic() - began


def counter(server, variable):
  import tensorflow as tf
  graph = tf.Graph()
  with graph.as_default():
    x = tf.compat.v1.placeholder(tf.float32, [], name="x")
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    tf.raw_ops.AssignAddVariableOp(resource=handle, value=x + tf.zeros(variable.shape), name="add")
  return server.register("count", graph_def=graph.as_graph_def().SerializeToString(),
                         inputs=[formwork.TensorSpec("x:0", "float32", [])], outputs=[],
                         captures={"v:0": variable}, targets=["add"])


def latencies(count, until):
  """Of calls made one after the other until `until()`, in ms."""
  took = []
  while not until():
    began = time.monotonic()
    count(np.float32(1))
    took.append((time.monotonic() - began) * 1e3)
  return took


def ratio(alone, beside):
  """A row: the latencies of both, and of their p99."""
  row = {"calls_alone": percentiles(alone), "calls_beside": percentiles(beside)}
  row["p99_ratio"] = row["calls_beside"]["p99_ms"] / row["calls_alone"]["p99_ms"]
  return row


def percentiles(took):
  return {"calls": len(took), "p50_ms": float(np.percentile(took, 50)),
          "p99_ms": float(np.percentile(took, 99)), "most_ms": max(took)}


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--server", default="build/release/bin/formwork-server")
  parser.add_argument("--mib", type=int, default=1024)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--out")
  options = parser.parse_args()
  directory = tempfile.mkdtemp(dir="build")
  process, address, _ = start(options.server, directory)
  results = {"full_seconds": [], "small_seconds": [], "snapshot_beside_seconds": [],
             "sync_beside_seconds": []}
  took = {kind: ([], []) for kind in ("snapshot", "sync")}
  try:
    with formwork.connect(address) as server, \
        formwork.connect(address, namespace="sync") as synced:
      value = np.zeros([1 << 20], np.float32)
      variables = [server.variable("v%d" % i, value) for i in range(options.mib // 4)]
      synced.set_durability("sync")
      counts = {"snapshot": counter(server, variables[0]),
                "sync": counter(synced, synced.variable("v", np.float32(0)))}

      def snapshot(into):
        began = time.monotonic()
        server.snapshot(timeout=600)
        results[into].append(time.monotonic() - began)

      for _ in range(options.rounds):
        server.assign(dict.fromkeys(variables, value))
        snapshot("full_seconds")
        counts["snapshot"](np.float32(1))
        snapshot("small_seconds")
        for kind, count in counts.items():
          count(np.float32(1))
          alone, beside = took[kind]
          end = time.monotonic() + max(1, results["full_seconds"][-1])
          alone += latencies(count, lambda: time.monotonic() > end)
          server.assign(dict.fromkeys(variables, value))
          taking = threading.Thread(target=snapshot, args=[kind + "_beside_seconds"])
          taking.start()
          beside += latencies(count, lambda: not taking.is_alive())
          taking.join()
    process.terminate()
    began = time.monotonic()
    process.wait()
    results["end_seconds"] = time.monotonic() - began
    process, _, results["start_seconds"] = start(options.server, directory)
    results["disk_mib"] = sum(f.stat().st_size for f in pathlib.Path(directory).iterdir()) / 2**20
  finally:
    process.terminate()
    process.wait()
    shutil.rmtree(directory)
  for name in [name for name, value in results.items() if isinstance(value, list)]:
    results[name] = float(np.median(results[name]))
  for kind, (alone, beside) in took.items():
    results["calls_of_" + kind] = ratio(alone, beside)
  print(json.dumps(results, indent=2))
  if options.out:
    pathlib.Path(options.out).write_text(json.dumps(results))


if __name__ == "__main__":
  main()
