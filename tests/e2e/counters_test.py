"""Counters that many clients add to, on a server that is killed at any time, by its durability.

FORMWORK_KILLS: how often, in each.
"""
import os
import random
import signal
import threading
import time

import formwork
import numpy as np

import lost_connections_test
import server_process

CLIENTS = 16
KILLS = int(os.environ.get("FORMWORK_KILLS", "20"))
SEED = int(os.environ.get("FORMWORK_SEED", "1"))
EACH = 100  # What a call adds, by ones.
NAMES = ["total"] + ["mine%d" % i for i in range(CLIENTS)]


def register(server):
  """The counters, and a function for each client: it adds 1 to its own and to that of all, EACH
  times, and returns its own."""
  import tensorflow as tf
  counters = {name: server.variable(name, np.int64(0)) for name in NAMES}
  graph = tf.Graph()
  with graph.as_default():
    total = tf.compat.v1.placeholder(tf.resource, [], name="total")
    mine = tf.compat.v1.placeholder(tf.resource, [], name="mine")

    def add(i):
      one = tf.constant(1, tf.int64)
      added = [tf.raw_ops.AssignAddVariableOp(resource=v, value=one) for v in (total, mine)]
      with tf.control_dependencies(added):
        return i + 1

    loop = tf.identity(tf.while_loop(lambda i: i < EACH, add, [tf.constant(0)])[0], name="loop")
    with tf.control_dependencies([loop]):
      tf.raw_ops.ReadVariableOp(resource=mine, dtype=tf.int64, name="read")
  for i in range(CLIENTS):
    server.register("count%d" % i, graph_def=graph.as_graph_def().SerializeToString(), inputs=[],
                    outputs=["read:0"], targets=["loop"],
                    captures={"total:0": counters["total"], "mine:0": counters["mine%d" % i]})


def read(server):
  """The counters, as they are between two calls, as a dictionary of ints."""
  variables = {v.name: v for v in server.variables()}
  return dict(zip(NAMES, map(int, server.read([variables[name] for name in NAMES]))))


class Client(threading.Thread):
  """Counts, until its server is gone or it is over. sent, answered: by this one; first: what its
  counter is before."""

  def __init__(self, target, number, retry_for, first=0):
    super().__init__()
    self.target, self.number, self.retry_for = target, number, retry_for
    self.first, self.sent, self.answered = first, 0, 0
    self.over, self.error = False, None

  def run(self):
    try:
      with formwork.connect(self.target, retry_for=self.retry_for) as channel:
        while not self.over:
          self.sent += 1
          (value,) = channel.call("count%d" % self.number, [], timeout=120)
          assert value == self.first + EACH * self.sent, (value, self.first, self.sent)
          self.answered = self.sent
    except Exception as error:
      self.error = error


def test_in_sync_each_is_counted_once(tmp_path):
  """Through crashes, and through connections that break, so that much is sent twice."""
  draw = random.Random(SEED)
  flags = ["--data-dir", str(tmp_path), "--durability", "sync",
           "--port", str(server_process.free_port())]
  clients, cutters = [], []
  repeats = 0
  for kill in range(KILLS + 1):
    interval = ["--snapshot-interval", draw.choice(["0", "0.05", "0.3"])]
    with server_process.running(*flags, *interval, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc) as server:
        if not clients:
          register(server)
          cutters = [lost_connections_test.Cutter(process.grpc, i)
                     for i in range(CLIENTS // 2)]
          targets = [cutter.target for cutter in cutters] + [process.grpc] * (CLIENTS // 2)
          clients = [Client(targets[i], i, retry_for=120) for i in range(CLIENTS)]
          for client in clients:
            client.start()
        values = read(server)
        assert values["total"] == sum(values[name] for name in NAMES[1:])
        assert all(values[name] % EACH == 0 for name in NAMES)
        if kill < KILLS:
          time.sleep(draw.uniform(0.1, 0.5))
        else:
          for client in clients:
            client.over = True
          for cutter in cutters:
            cutter.calm = True
          for client in clients:
            client.join()
          assert [client.error for client in clients] == [None] * CLIENTS
          values = read(server)
          for client in clients:
            assert values["mine%d" % client.number] == EACH * client.sent
        repeats += int(process.metric("formwork_repeats_answered_total"))
      process.terminate(signal.SIGKILL)
      process.exit_code()
  for cutter in cutters:
    cutter.close()
  print("sync: kills=%d clients=%d increments=%d answered again=%d connections cut=%d seed=%d" % (
    KILLS, CLIENTS, values["total"], repeats, sum(c.cuts for c in cutters), SEED))
  assert repeats > 0
  assert values["total"] >= (1_000_000 if KILLS >= 200 else EACH * CLIENTS)


def test_in_snapshot_it_is_one_state_and_no_older_than_the_last(tmp_path):
  draw = random.Random(SEED)
  flags = ["--data-dir", str(tmp_path), "--durability", "snapshot", "--snapshot-interval", "0.05"]
  least, increments, clients, epoch = None, 0, [], None
  for kill in range(KILLS + 1):
    with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc) as server:
        if least is None:
          register(server)
          server.snapshot()
        else:
          assert server.info().epoch != epoch  # Something is lost, perhaps.
        epoch = server.info().epoch
        values = read(server)
        assert values["total"] == sum(values[name] for name in NAMES[1:])
        for name in NAMES:
          assert values[name] % EACH == 0 and values[name] >= (least or values)[name]
        for client in clients:
          assert values["mine%d" % client.number] <= client.first + EACH * client.sent
        clients = [Client(process.grpc, i, 0, values["mine%d" % i]) for i in range(CLIENTS)]
        for client in clients:
          client.start()
        time.sleep(draw.uniform(0.05, 0.3))
        least = read(server)
        server.snapshot()
        time.sleep(draw.uniform(0, 0.1))
        process.terminate(signal.SIGKILL)
        process.exit_code()
        for client in clients:
          client.join()
          assert isinstance(client.error, formwork.Error), client.error
        increments += EACH * sum(client.answered for client in clients)
  print("snapshot: kills=%d clients=%d increments=%d kept=%d seed=%d" % (
    KILLS + 1, CLIENTS, increments, values["total"], SEED))
  assert values["total"] > 0


def test_in_memory_what_is_lost_is_told():
  draw = random.Random(SEED)
  port, increments, epochs = ["--port", str(server_process.free_port())], 0, set()
  for kill in range(KILLS):
    with server_process.running(*port, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc, retry_for=0) as server:
        if kill > 0:  # No fresh zeros.
          assert server.variables() == [] and server.functions() == []
          for lost in (lambda: counter.read(), lambda: function()):
            try:
              lost()
              raise AssertionError("it is there again")
            except formwork.Error as error:
              assert error.code in ("FAILED_PRECONDITION", "NOT_FOUND"), error
          old.close()
        assert server.info().epoch not in epochs
        epochs.add(server.info().epoch)
        register(server)
        old = formwork.connect(process.grpc, retry_for=0)
        (counter,), (function,) = old.variables("total"), old.functions("count0")
        clients = [Client(process.grpc, i, 0) for i in range(CLIENTS)]
        for client in clients:
          client.start()
        time.sleep(draw.uniform(0.05, 0.3))
        for client in clients[::2]:  # These end in time.
          client.over = True
        for client in clients[::2]:
          client.join()
          assert client.error is None
        values = read(server)
        for client in clients[::2]:
          assert values["mine%d" % client.number] == EACH * client.sent
        process.terminate(signal.SIGKILL)
        process.exit_code()
        for client in clients:
          client.join()
        increments += EACH * sum(client.answered for client in clients)
  old.close()
  print("memory: kills=%d clients=%d increments=%d seed=%d" % (KILLS, CLIENTS, increments, SEED))
