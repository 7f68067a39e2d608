"""A server whose answered calls are on disk, killed at any time."""
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import formwork
import numpy as np
import pytest

import server_process

CLIENTS = 4
KILLS = int(os.environ.get("FORMWORK_KILLS", "20"))
SEED = int(os.environ.get("FORMWORK_SEED", "1"))


def register_counter(server, name, variables):
  """A function that adds 1 to each element of these, and returns the last one before anybody else
  adds to it."""
  import tensorflow as tf
  graph = tf.Graph()
  with graph.as_default():
    adds = []
    for i, variable in enumerate(variables):
      handle = tf.compat.v1.placeholder(tf.resource, [], name="v%d" % i)
      adds.append(tf.raw_ops.AssignAddVariableOp(
          resource=handle, value=tf.ones(variable.shape, tf.int64), name="add%d" % i))
    with tf.control_dependencies(adds):
      tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.int64, name="read")
  return server.register(name, graph_def=graph.as_graph_def().SerializeToString(), inputs=[],
                         outputs=["read:0"],
                         captures={"v%d:0" % i: v for i, v in enumerate(variables)},
                         targets=["add%d" % i for i in range(len(variables))])


class Client(threading.Thread):
  """Counts, one call after the other, until the server is gone. sent, answered: of all its lives."""

  def __init__(self, number, sent=0, answered=0):
    super().__init__()
    self.number, self.sent, self.answered = number, sent, answered

  def begin(self, target):
    """It again, on a server that has all that was answered and perhaps one more."""
    made = Client(self.number, self.answered, self.answered)
    made.channel = formwork.connect(target, retry_for=0)
    made.start()
    return made

  def run(self):
    with self.channel:
      try:
        while True:
          self.sent += 1
          (value,) = self.channel.call("count%d" % self.number, [], timeout=30)
          assert value == self.sent, (value, self.sent)
          self.answered = self.sent
      except formwork.Error as error:
        self.error = error


class Churner(threading.Thread):
  """Makes variables and deletes them. there: name -> value, of what has been answered; unsure: the
  name that it was about to make or delete."""

  def __init__(self, there=None, next_number=0):
    super().__init__()
    self.there, self.next_number, self.unsure = dict(there or {}), next_number, None

  def begin(self, target):
    made = Churner(self.there, self.next_number + 1)
    made.channel = formwork.connect(target, retry_for=0)
    made.start()
    return made

  def run(self):
    with self.channel:
      try:
        while True:
          self.unsure = "churn%d" % self.next_number
          made = self.channel.variable(self.unsure, np.int64(self.next_number))
          self.there[self.unsure] = self.next_number
          self.next_number += 1
          if len(self.there) > 5:
            self.unsure = random.choice(list(self.there))
            {v.name: v for v in self.channel.variables()}[self.unsure].delete()
            del self.there[self.unsure]
          del made
      except formwork.Error as error:
        self.error = error


class Inserter(threading.Thread):
  """Sets and removes entries of a table, a few of many. there: key -> value, of what has been
  answered; unsure: {key: value, or None where it is to go} of what it was about to do."""
  ENTRIES = 2000

  def __init__(self, there=None):
    super().__init__()
    self.there, self.unsure, self.error = dict(there or {}), {}, None

  def begin(self, target):
    made = Inserter(self.there)
    made.channel = formwork.connect(target, retry_for=0)
    made.start()
    return made

  @staticmethod
  def table(server):
    return server.table("entries", key_dtype="int64", value_dtype="int64", default_value=-1)

  def run(self):
    with self.channel:
      try:
        table = self.table(self.channel)
        while True:
          keys = random.sample(range(self.ENTRIES), 3)
          if random.random() < 0.3:
            self.unsure = dict.fromkeys(keys)
            table.remove(np.array(keys))
          else:
            self.unsure = {key: random.randrange(1 << 30) for key in keys}
            table.insert(np.array(keys), np.array(list(self.unsure.values())))
          self.done()
      except formwork.Error as error:
        self.error = error

  def done(self):
    for key, value in self.unsure.items():
      if value is None:
        self.there.pop(key, None)
      else:
        self.there[key] = value
    self.unsure = {}

  def check(self, server):
    keys, values = self.table(server).export()
    now = dict(zip(keys.tolist(), values.tolist()))
    if now != self.there:
      self.done()  # All of what was under way has been done, or nothing of it.
    assert now == self.there


def check(server, clients, churner, epoch):
  """That all that was answered is there, once, and as one state."""
  assert server.info().epoch == epoch
  variables = {v.name: v for v in server.variables()}
  names = ["total", "wide"] + ["mine%d" % i for i in range(CLIENTS)]
  values = dict(zip(names, server.read([variables[name] for name in names])))
  for client in clients:
    mine = int(values["mine%d" % client.number])
    assert client.answered <= mine <= client.sent, (client.number, client.answered, mine,
                                                    client.sent)
    client.answered = mine  # What was under way has been done, too, or has not.
  total = sum(client.answered for client in clients)
  assert values["total"] == total
  np.testing.assert_array_equal(values["wide"], np.full([1000], total))
  churned = {name: v for name, v in variables.items() if name.startswith("churn")}
  for name, value in churner.there.items():
    if name != churner.unsure:
      assert churned[name].read() == value
  assert set(churned) ^ set(churner.there) <= {churner.unsure}
  churner.there = {name: int(v.read()) for name, v in churned.items()}
  return total


def test_whenever_it_is_killed_what_was_answered_is_there_once(tmp_path):
  draw = random.Random(SEED)
  clients, churner, epoch = [Client(i) for i in range(CLIENTS)], Churner(), None
  inserter = Inserter({key: key for key in range(Inserter.ENTRIES)})
  for kill in range(KILLS + 1):
    flags = ["--data-dir", str(tmp_path), "--durability", "sync", "--snapshot-interval",
             draw.choice(["0", "0.05", "0.3"])]
    with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc) as server:
        if epoch is None:
          epoch = server.info().epoch
          assert server.info().durability == "sync"
          shared = [server.variable("total", np.int64(0)),
                    server.variable("wide", np.zeros([1000], np.int64))]
          for i in range(CLIENTS):
            mine = server.variable("mine%d" % i, np.int64(0))
            register_counter(server, "count%d" % i, shared + [mine])
          keys = np.arange(Inserter.ENTRIES)
          Inserter.table(server).insert(keys, keys)
        total = check(server, clients, churner, epoch)
        inserter.check(server)
        if kill < KILLS:
          clients = [client.begin(process.grpc) for client in clients]
          churner = churner.begin(process.grpc)
          inserter = inserter.begin(process.grpc)
          time.sleep(draw.uniform(0, 0.5))
      process.terminate(signal.SIGKILL)
      process.exit_code()
      for thread in [*clients, churner, inserter] if kill < KILLS else []:
        thread.join()
  print("kills=%d counted=%d seed=%d" % (KILLS, total, SEED))
  assert total > KILLS


def test_a_client_notices_nothing_of_a_crash(tmp_path):
  flags = ["--data-dir", str(tmp_path), "--durability", "sync", "--snapshot-interval", "0",
           "--port", str(server_process.free_port())]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process:
    server = formwork.connect(process.grpc)
    v = server.variable("v", np.int64(0))
    count = register_counter(server, "count", [v])
    assert count() == [1]
    process.terminate(signal.SIGKILL)
    process.exit_code()
  with server_process.running(*flags) as process, server:
    assert count() == [2]  # By its ID.
    assert v.read() == 2


class Insistent(threading.Thread):
  """Counts through all crashes: what it has not heard the answer of its client sends again."""

  def __init__(self, target, number):
    super().__init__()
    self.target, self.number, self.sent, self.error, self.over = target, number, 0, None, False

  def run(self):
    try:
      with formwork.connect(self.target, retry_for=120) as channel:
        mine = "made%d" % self.number
        while not self.over:
          self.sent += 1
          (value,) = channel.call("count%d" % self.number, [], timeout=120)
          assert value == self.sent, (value, self.sent)
          if self.sent % 8 == 1:
            channel.variable(mine, np.int64(self.sent))
          if self.sent % 8 == 5:
            (made,) = channel.variables(mine)
            assert made.read() == self.sent - 4
            made.delete()
    except Exception as error:
      self.error = error


def test_what_is_sent_again_after_a_crash_is_done_once(tmp_path):
  draw = random.Random(SEED)
  flags = ["--data-dir", str(tmp_path), "--durability", "sync",
           "--port", str(server_process.free_port())]
  clients, repeats = [], 0
  for kill in range(KILLS // 2 + 1):
    interval = ["--snapshot-interval", draw.choice(["0", "0.05", "0.3"])]
    with server_process.running(*flags, *interval, exit_code=-signal.SIGKILL) as process:
      with formwork.connect(process.grpc) as server:
        if not clients:
          for i in range(CLIENTS):
            register_counter(server, "count%d" % i, [server.variable("mine%d" % i, np.int64(0))])
          clients = [Insistent(process.grpc, i) for i in range(CLIENTS)]
          for client in clients:
            client.start()
        if kill < KILLS // 2:
          time.sleep(draw.uniform(0.1, 0.6))
        else:
          for client in clients:
            client.over = True
          for client in clients:
            client.join()
          assert [client.error for client in clients] == [None] * CLIENTS
          for client in clients:
            (mine,) = server.variables("mine%d" % client.number)
            assert mine.read() == client.sent
        repeats += server_repeats(process)
      process.terminate(signal.SIGKILL)
      process.exit_code()
  print("counted=%d answered again=%d seed=%d" % (
      sum(client.sent for client in clients), repeats, SEED))
  assert repeats > 0


def server_repeats(process):
  (line,) = [line for line in process.get("/metrics")[1].splitlines()
             if line.startswith("formwork_repeats_answered_total ")]
  return float(line.split()[1])


def test_a_call_that_is_atomic_leaves_nothing_where_it_fails(tmp_path):
  import tensorflow as tf
  graph = tf.Graph()
  with graph.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    x = tf.compat.v1.placeholder(tf.int64, [], name="x")
    add = tf.raw_ops.AssignAddVariableOp(resource=handle, value=x, name="add")
    with tf.control_dependencies([add]):
      shown = tf.raw_ops.PrintV2(input="added", output_stream="stderr")
    with tf.control_dependencies([shown]):
      tf.raw_ops.Assert(condition=x > 0, data=[x], name="check")
  flags = ["--data-dir", str(tmp_path), "--durability", "sync"]
  with server_process.running(*flags, exit_code=-signal.SIGKILL) as process, \
      formwork.connect(process.grpc) as server:
    v = server.variable("v", np.int64(1))
    add = server.register("add", graph_def=graph.as_graph_def().SerializeToString(),
                          inputs=[formwork.TensorSpec("x:0", "int64", [])], outputs=[],
                          captures={"v:0": v}, targets=["check"])
    for call in (lambda x, **how: server.call("add", [np.int64(x)], **how),
                 lambda x, **how: add(np.int64(x), **how)):
      before, printed = int(v.read()), []
      with pytest.raises(formwork.Error) as failed:
        call(-5, atomic=True, on_print=printed.append)
      assert failed.value.code == "INVALID_ARGUMENT" and failed.value.effects == "none"
      assert (v.read(), printed) == (before, [])
      call(5, atomic=True, on_print=printed.append)
      assert (v.read(), printed) == (before + 5, ["added\n"])
      with pytest.raises(formwork.Error) as failed:
        call(-5, on_print=printed.append)
      assert failed.value.effects == "some"
      assert v.read() == before
    process.terminate(signal.SIGKILL)
    process.exit_code()


def test_metrics_and_info_tell(tmp_path):
  with server_process.running("--data-dir", str(tmp_path), "--durability", "sync",
                              "--snapshot-interval", "0") as process:
    with formwork.connect(process.grpc) as server:
      count = register_counter(server, "count", [server.variable("v", np.int64(0))])
      for _ in range(5):
        count()

      # The variable and the function, then what their requests were answered, and five calls.
      assert process.metric("formwork_commits_total") == 9
      assert 0 < process.metric("formwork_commit_duration_seconds_count") <= 7
      assert process.metric("formwork_commit_duration_seconds_sum") > 0
      assert process.metric("formwork_commits_waiting") == 0
      assert process.metric("formwork_commit_bytes_total") == process.metric("formwork_log_bytes") > 0
      server.snapshot()
      assert process.metric("formwork_log_bytes") == 0


def small_disk(path, mebibytes):
  if os.geteuid() != 0 or subprocess.run(
      ["mount", "-t", "tmpfs", "-o", "size=%dm" % mebibytes, "none", str(path)],
      capture_output=True).returncode != 0:
    pytest.skip("no small file system can be mounted here")


def until_it_works(run):
  until = time.monotonic() + 30
  while True:  # The database looks for room every few seconds.
    try:
      return run()
    except formwork.Error:
      assert time.monotonic() < until
      time.sleep(0.2)


def test_a_full_disk_refuses_what_writes_before_it_does(tmp_path):
  small_disk(tmp_path, 48)
  try:
    flags = ["--data-dir", str(tmp_path / "d"), "--durability", "sync", "--snapshot-interval", "0"]
    with server_process.running(*flags, exit_code=-signal.SIGKILL) as process, \
        formwork.connect(process.grpc) as server:
      v = server.variable("v", np.int64(0))
      count = register_counter(server, "count", [v])
      assert count() == [1]
      filler = pathlib.Path(tmp_path / "filler")
      with open(filler, "wb") as file:
        file.write(bytes(36 << 20))
      for write in (count, lambda: v.assign(np.int64(7)),
                    lambda: server.variable("w", np.int64(0)),
                    lambda: register_counter(server, "other", [v])):
        with pytest.raises(formwork.Error) as refused:
          write()
        assert refused.value.code == "RESOURCE_EXHAUSTED", refused.value
        assert "the disk is full" in str(refused.value)
        assert str(tmp_path) not in str(refused.value)
      assert v.read() == 1
      filler.unlink()
      assert count() == [2]
      process.terminate(signal.SIGKILL)
      process.exit_code()
    with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
      assert server.call("count", [])[0] == 3
  finally:
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_what_finds_the_disk_full_is_told_and_not_lost(tmp_path):
  import tensorflow as tf
  small_disk(tmp_path, 160)
  try:
    flags = ["--data-dir", str(tmp_path / "d"), "--durability", "sync", "--snapshot-interval", "0"]
    with server_process.running(*flags, exit_code=-signal.SIGKILL) as process, \
        formwork.connect(process.grpc) as server:
      other = server.variable("other", np.int64(5))
      v = server.variable("v", np.zeros([1], np.float32), shape=[None])
      graph = tf.Graph()
      with graph.as_default():
        handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
        n = tf.compat.v1.placeholder(tf.int32, [], name="n")
        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.fill([n], 1.0), name="grow")
      server.register("grow", graph_def=graph.as_graph_def().SerializeToString(),
                      inputs=[formwork.TensorSpec("n:0", "int32", [])], outputs=[],
                      captures={"v:0": v}, targets=["grow"])
      filler = pathlib.Path(tmp_path / "filler")
      with open(filler, "wb") as file:
        file.write(bytes(120 << 20))
      # Nobody can know beforehand how large it becomes.
      with pytest.raises(formwork.Error) as refused:
        server.call("grow", [np.int32(10 << 20)])
      assert refused.value.code == "RESOURCE_EXHAUSTED", refused.value
      assert "could not be made durable" in str(refused.value)
      assert str(tmp_path) not in str(refused.value)
      with pytest.raises(formwork.Error) as refused:
        other.assign(np.int64(6))
      assert refused.value.code == "RESOURCE_EXHAUSTED", refused.value
      assert other.read() == 5
      filler.unlink()
      until_it_works(lambda: other.assign(np.int64(6)))
      assert process.get("/metrics")[1].count("formwork_commit_failures_total 0") == 0
      assert v.read().shape == (10 << 20,)
      process.terminate(signal.SIGKILL)
      process.exit_code()
    with server_process.running(*flags) as process, formwork.connect(process.grpc) as server:
      variables = {v.name: v for v in server.variables()}
      assert variables["other"].read() == 6
      np.testing.assert_array_equal(variables["v"].read(), np.ones([10 << 20], np.float32))
  finally:
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)
