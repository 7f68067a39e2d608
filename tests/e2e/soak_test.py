"""Functions, variables and tables come and go for a while: the server stays as large as it was.

FORMWORK_SOAK: for at least so many seconds.
"""
import os
import pathlib
import threading
import time

import formwork
import numpy as np
import pytest

import server_process

SECONDS = float(os.environ.get("FORMWORK_SOAK", "0"))
# Of all clients together: until caches are full (of graphs that it knows, of what its threads keep),
# and from then on. A variable that stayed each time would be 8 MB at the least.
WARM_ROUNDS, ROUNDS = 250, 500
WARM_SECONDS = min(60, SECONDS / 2)
CLIENTS = 2
# A machine may be slow.
PATIENCE_SECONDS = 240


def graph():
  import tensorflow as tf
  made = tf.Graph()
  with made.as_default():
    v = tf.compat.v1.placeholder(tf.resource, [], name="v")
    x = tf.compat.v1.placeholder(tf.float32, [None, 64], name="x")
    w = tf.raw_ops.ReadVariableOp(resource=v, dtype=tf.float32)
    y = tf.nn.relu(tf.matmul(x, w), name="y")
    tf.raw_ops.AssignSubVariableOp(resource=v, value=tf.matmul(x, y, transpose_a=True) * 0.01,
                                   name="step")
  return made.as_graph_def().SerializeToString()


class Client(threading.Thread):
  """Registers, calls and deletes, by names of its own, until `over`. rounds: how many so far."""

  def __init__(self, target, number, graph_def, over):
    super().__init__()
    self.target, self.number, self.graph_def, self.over = target, number, graph_def, over
    self.rounds, self.error = 0, None

  def run(self):
    try:
      with formwork.connect(self.target) as server:
        while not self.over.is_set():
          self.round(server)
          self.rounds += 1
    except Exception as error:
      self.error = error

  def round(self, server):
    name = "%d/%d" % (self.number, self.rounds)
    v = server.variable(name, np.ones([64, 64], np.float32))
    step = server.register(name, graph_def=self.graph_def,
                           inputs=[formwork.TensorSpec("x:0", "float32", [None, 64])],
                           outputs=["y:0"], captures={"v:0": v}, targets=["step"])
    for rows in (1, 7, 32):
      (y,) = step(np.ones([rows, 64], np.float32))
      assert y.shape == (rows, 64)
    server.call(name, [np.ones([3, 64], np.float32)], relaxed=self.rounds % 2 == 0)
    (kept,) = step(np.ones([2, 64], np.float32), keep=True)
    kept.release()
    # One name: of what tables are named the server keeps graphs, as many as it has room for.
    table = server.table("table%d" % self.number, keys=["a", "b"], values=[1, 2])
    table.delete()
    step.delete()
    v.delete()


def test_what_comes_and_goes_leaves_nothing():
  if pathlib.Path(server_process.binary()).parent.name == "simulated":
    pytest.skip("the simulated device remembers what there was")
  with server_process.running() as process:
    over, graph_def = threading.Event(), graph()
    clients = [Client(process.grpc, i, graph_def, over) for i in range(CLIENTS)]
    began = time.monotonic()

    def rounds():
      return sum(client.rounds for client in clients)

    def resident_after(least_rounds, seconds):
      while rounds() < least_rounds or time.monotonic() < began + seconds:
        assert all(client.is_alive() for client in clients), [client.error for client in clients]
        assert time.monotonic() < began + seconds + PATIENCE_SECONDS, "rounds=%d" % rounds()
        time.sleep(0.02)
      # The least in a second: what is on its way is not counted.
      least = process.resident_bytes()
      for _ in range(50):
        time.sleep(0.02)
        least = min(least, process.resident_bytes())
      return least

    for client in clients:
      client.start()
    try:
      before, warm = resident_after(WARM_ROUNDS, WARM_SECONDS), rounds()
      after = resident_after(warm + ROUNDS, SECONDS)
    finally:
      over.set()
      for client in clients:
        client.join()
    assert [client.error for client in clients] == [None] * CLIENTS
    with formwork.connect(process.grpc) as server:
      assert server.variables() == []
      assert [server.functions("%d/*" % i) for i in range(CLIENTS)] == [[]] * CLIENTS
  print("seconds=%.0f rounds=%d, %d of them warm; resident: %.1f MB, then %.1f MB" % (
      time.monotonic() - began, rounds(), warm, before / 1e6, after / 1e6))
  assert after <= 1.05 * before
