"""Readers beside a writer: calls of 8 clients in a second that sum a variable of 256 KiB, while
nobody writes, while another client adds to that variable, and while it adds to another one instead,
which takes as much of the machine. The writer calls without pause, or 100 times a second.

The readers are a process of their own (commit_bench). All are measured in turns.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import threading
import time

import numpy as np

import formwork

from commit_bench import call_from_clients

CLIENTS, ELEMENTS = 8, 1 << 16
PAUSES = {"without_pause": 0, "100_a_second": 0.01}


def register(server):
  """`sum` of one variable, and what adds to it and to another of the same size."""
  import tensorflow as tf
  of_sum, of_add = tf.Graph(), tf.Graph()
  with of_sum.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    tf.reduce_sum(tf.ensure_shape(value, [ELEMENTS]), name="sum")
  with of_add.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.ones([ELEMENTS]), name="add")
  variables = [server.variable(name, np.zeros(ELEMENTS, np.float32)) for name in "vw"]
  server.register("sum", graph_def=of_sum.as_graph_def().SerializeToString(), inputs=[],
                  outputs=["sum:0"], captures={"v:0": variables[0]})
  return [server.register("add_to_" + variable.name, inputs=[], outputs=[], targets=["add"],
                          graph_def=of_add.as_graph_def().SerializeToString(),
                          captures={"v:0": variable}) for variable in variables]


class Writer:
  """Calls again and again until it is left."""

  def __init__(self, call, pause):
    self._call, self._pause, self._ended, self.calls = call, pause, threading.Event(), 0
    self._thread = threading.Thread(target=self._go_on)

  def _go_on(self):
    while not self._ended.is_set():
      self._call()
      self.calls += 1
      if self._pause:
        time.sleep(self._pause)

  def __enter__(self):
    self._began = time.monotonic()
    self._thread.start()
    return self

  def __exit__(self, *unused):
    self._ended.set()
    self._thread.join()
    self.per_second = self.calls / (time.monotonic() - self._began)


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--server", default="build/release/bin/formwork-server")
  parser.add_argument("--bench", default="build/release/bin/commit_bench")
  parser.add_argument("--seconds", type=float, default=2)
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--out")
  options = parser.parse_args()
  process = subprocess.Popen([options.server, "--port", "0", "--http-port", "-1"],
                             stdout=subprocess.PIPE, text=True)
  rounds, writes = {}, {}
  try:
    address = process.stdout.readline().split("grpc=")[1].split()[0]
    with formwork.connect(address) as server:
      add, add_to_other = register(server)

      def read(name):
        row = call_from_clients(options, address, "sum", CLIENTS)
        rounds.setdefault(name, []).append(row["per_second"])

      for _ in range(options.rounds):
        read("alone")
        for pace, pause in PAUSES.items():
          for of, call in (("the_same", add), ("another", add_to_other)):
            name = "writer_of_%s_%s" % (of, pace)
            with Writer(call, pause) as writer:
              read(name)
            writes.setdefault(name, []).append(writer.per_second)
  finally:
    process.kill()
    process.wait()
  results = {"alone": statistics.median(rounds["alone"])}
  for name in writes:
    reads = statistics.median(rounds[name])
    results[name] = {"reads_per_second": reads, "of_alone": reads / results["alone"],
                     "writes_per_second": statistics.median(writes[name])}
  print(json.dumps(results, indent=2))
  if options.out:
    pathlib.Path(options.out).write_text(json.dumps(results))


if __name__ == "__main__":
  main()
