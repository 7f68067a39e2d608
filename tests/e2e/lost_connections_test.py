"""Connections that break at random while clients count: no call is lost, and none is done twice."""
import asyncio
import json
import random
import signal
import socket
import subprocess
import threading
import time

import formwork
import formwork.aio
import numpy as np
import pytest

import server_graphs
import server_process
import snapshot_test


class Cutter:
  """A proxy, each of whose connections breaks after a random number of bytes.

  Attributes: target: host:port; cuts: how many have; calm: whether none breaks any more; deaf:
    whether what the server says is lost.
  """

  def __init__(self, server, seed, least=500, most=4000):
    self._limits = least, most
    self.cuts = 0
    self.calm = self.deaf = False
    self._server = server.rpartition(":")
    self._random = random.Random(seed)
    self._listener = socket.create_server(("127.0.0.1", 0))
    self._open = set()
    self.target = "127.0.0.1:%d" % self._listener.getsockname()[1]
    threading.Thread(target=self._listen, daemon=True).start()

  def _listen(self):
    while True:
      try:
        client = self._listener.accept()[0]
      except OSError:
        return
      try:
        server = socket.create_connection((self._server[0], int(self._server[2])))
      except OSError:  # It has ended.
        client.close()
        continue
      # In either direction: some requests are lost, and some answers.
      limit = {end: self._random.randrange(*self._limits) for end in (client, server)}
      self._open |= {client, server}
      for source, sink in ((client, server), (server, client)):
        threading.Thread(target=self._pass_on, args=(source, sink, limit[source]),
                         daemon=True).start()

  def _pass_on(self, source, sink, left):
    try:
      while data := source.recv(4096):
        if self.deaf and source.getpeername()[1] == int(self._server[2]):
          continue
        if len(data) >= left and not self.calm:
          sink.sendall(data[:left])
          self.cuts += 1
          break
        sink.sendall(data)
        left -= len(data)
    except OSError:
      pass
    for end in (source, sink):
      try:
        end.shutdown(socket.SHUT_RDWR)
      except OSError:
        pass

  def cut(self):
    """Breaks the connections that there are."""
    for end in self._open:
      try:
        end.shutdown(socket.SHUT_RDWR)
      except OSError:
        pass

  def close(self):
    self._listener.shutdown(socket.SHUT_RDWR)  # Else who waits for a connection waits on.
    self._listener.close()
    self.cut()
    for end in self._open:
      end.close()


def test_counters_are_exact_while_connections_break():
  clients, calls = 16, 40
  with server_process.running() as process:
    with formwork.connect(process.grpc) as server:
      _, a, _ = snapshot_test.counter(server)
      c = server.variable("c", np.zeros([], np.float32))
      cutters = [Cutter(process.grpc, seed) for seed in range(clients)]
      failures = []

      def count(k):
        try:
          with formwork.connect(cutters[k].target, retry_for=60) as client:
            (function,) = client.functions("count")
            for i in range(calls):
              function(np.float32(1))
              if i % 8 == 0:
                client.variable("made/%d/%d" % (k, i), np.float32(i))
              if i % 8 == 4:
                client.variables("made/%d/%d" % (k, i - 4))[0].delete()
            cutters[k].calm = True
        except Exception as error:
          failures.append(error)

      threads = [threading.Thread(target=count, args=(k,)) for k in range(clients)]
      for thread in threads:
        thread.start()
      for thread in threads:
        thread.join()
      for cutter in cutters:
        cutter.close()
      assert not failures, failures
      assert a.read() == clients * calls
      assert not server.variables("made/*")
      assert c.read() == 0
    # Else nothing has been tried.
    assert sum(cutter.cuts for cutter in cutters) > clients
    assert process.metric("formwork_repeats_answered_total") > 0
    # What clients acknowledge goes: a client's last answers are left.
    assert process.metric("formwork_answers") <= 4 * clients
    assert process.metric("formwork_repeats_forgotten_total") == 0


def test_what_runs_while_its_connection_breaks_goes_on():
  """It answers who sends it again, and is neither cut short nor done twice."""
  import tensorflow as tf
  total, answers = tf.Variable(0), []
  with server_process.running() as process:
    cutter = Cutter(process.grpc, 0)
    cutter.calm = True
    with formwork.connect(cutter.target, retry_for=20) as client:
      @client.function
      def count(n):
        for _ in tf.range(n):
          total.assign_add(1)
        return total.read_value()

      counted = server_graphs.turns_of(lambda n: answers.append(int(count(tf.constant(n)))), 1)
      thread = threading.Thread(target=lambda: answers.append(int(count(tf.constant(counted)))))
      thread.start()
      while process.metric("formwork_calls_running") < 1:
        time.sleep(.01)
      cutter.cut()
      thread.join()
    cutter.close()
    assert answers[-1] == answers[-2] + counted
    assert process.metric("formwork_repeats_answered_total") == 1


def test_what_runs_while_its_client_leaves_ends():
  """It is cancelled, and not taken for what runs while its connection breaks."""
  with server_process.running() as process:
    client = formwork.connect(process.grpc)
    spin = server_graphs.register(client, "spin")
    codes = []

    def run():
      with pytest.raises(formwork.Error) as e:
        spin(np.int32(2**31 - 1))
      codes.append(e.value.code)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
      thread.start()
    while process.metric("formwork_calls_running") + process.metric("formwork_calls_queued") < 3:
      time.sleep(.01)
    client.close()
    for thread in threads:
      thread.join()
    assert codes == 3 * ["CANCELLED"]
    left = time.monotonic() + 8  # The server lets what may be asked for again go on for ten seconds.
    while process.metric("formwork_calls_running") and time.monotonic() < left:
      time.sleep(.01)
    assert process.metric("formwork_calls_running") == 0


def test_it_is_not_sent_again_where_that_is_switched_off():
  with server_process.running() as process:
    with formwork.connect(process.grpc) as server:
      snapshot_test.counter(server)
      cutter = Cutter(process.grpc, 0)
      with formwork.connect(cutter.target, retry_for=0) as client:
        with pytest.raises(formwork.Error) as e:
          (function,) = client.functions("count")
          for _ in range(1000):
            function(np.float32(1))
        assert e.value.code == "UNAVAILABLE"
      cutter.close()


def test_asyncio_counts_right():
  async def count(target):
    async with await formwork.aio.connect(target, retry_for=60) as client:
      (function,) = await client.functions("count")
      for _ in range(10):
        await asyncio.gather(*(function(np.float32(1)) for _ in range(8)))

  with server_process.running() as process:
    with formwork.connect(process.grpc) as server:
      _, a, _ = snapshot_test.counter(server)
      cutter = Cutter(process.grpc, 3, 2000, 8000)
      asyncio.run(count(cutter.target))
      cutter.close()
      assert a.read() == 80
      assert cutter.cuts > 2


def test_the_command_counts_right():
  """The C++ client, with calls under way side by side on each connection."""
  with server_process.running() as process:
    with formwork.connect(process.grpc) as server:
      _, a, _ = snapshot_test.counter(server)
      cutter = Cutter(process.grpc, 5, 2000, 20000)
      done = subprocess.run(
          [server_process.binary("formwork"), "--server", cutter.target, "--json", "bench",
           "--function", "count", "--input", "1", "--in-flight", "8", "--seconds", "2"],
          capture_output=True, text=True, timeout=60)
      cutter.close()
      assert done.returncode == 0, done.stderr
      assert cutter.cuts > 2
      assert a.read() == json.loads(done.stdout)["calls"] + 1  # One before they are counted.


@pytest.mark.parametrize("durable", [False, True])
def test_a_request_is_not_sent_to_another_life_of_the_server(tmp_path, durable):
  """Unless that knows what the one before has done, the client cannot know it either, and says so."""
  flags = ["--port", str(server_process.free_port())]
  if durable:
    flags += ["--data-dir", str(tmp_path / "state")]
  with server_process.running(*flags, exit_code=0 if durable else -signal.SIGKILL) as process:
    cutter = Cutter(process.grpc, 0)
    cutter.calm = True
    client = formwork.connect(cutter.target, retry_for=20)
    function, a, _ = snapshot_test.counter(client)
    function(np.float32(1))
    cutter.deaf = True
    raised = []

    def call():
      try:
        function(np.float32(1))
      except formwork.Error as error:
        raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    with formwork.connect(process.grpc) as other:
      while other.variables("a")[0].read() < 2:
        time.sleep(.01)
    process.terminate(signal.SIGTERM if durable else signal.SIGKILL)
    process.process.wait()
  cutter.deaf = False
  with server_process.running(*flags) as process:
    thread.join()
    if durable:
      assert not raised
      assert a.read() == 2
      assert process.metric("formwork_repeats_answered_total") == 1
    else:
      (error,) = raised
      assert error.code == "UNAVAILABLE" and "restarted" in error.message
      assert not client.variables()
    client.close()
  cutter.close()
