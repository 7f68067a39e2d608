"""Calls that wait or take long: many at once, and none of them costs much."""
import concurrent.futures
import json
import pathlib
import re
import tempfile
import time

import fairness
import formwork
import harness
import memory
import numpy as np
import state
import tensorflow as tf


def _threads(server):
  return int(re.search(r"Threads:\s+(\d+)", pathlib.Path(
      "/proc/%d/status" % server.process.pid).read_text()).group(1))


def _until(attack, condition, seconds, what):
  """How many seconds it took."""
  started = time.monotonic()
  while not condition():
    attack.check(time.monotonic() - started < seconds, what)
    time.sleep(.02)
  return time.monotonic() - started


def _turns(n):
  """A loop whose body is no scalar's."""
  return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.reverse(x, [0])),
                       [0, tf.range(100)])


@harness.attack("10,000 calls wait for one variable, and are cancelled together")
def long_line(attack):
  server = attack.server("--max-queued-calls", "16384")
  client = attack.client(server, "a")
  v = client.variable("v", np.float32(0))
  state.holder(client, "v")
  running = fairness.Flood(attack, server, "a", "hold", "float32", 1)
  _until(attack, lambda: memory.metric(server, "formwork_calls_running") == 1, 10, "nothing runs")
  before, threads = memory.peak(server), _threads(server)
  # A connection has room for 4,096.
  floods = [fairness.Flood(attack, server, "a", "hold", "float32", 2500) for _ in range(4)]
  queued = lambda: memory.metric(server, "formwork_calls_queued")
  _until(attack, lambda: queued() == 10_000, 30, "not all of them came to wait")
  each = (memory.peak(server) - before) / 10_000
  more = _threads(server) - threads
  attack.check(each < 64 << 10, "%d bytes for each" % each)
  attack.check(more < 100, "%d more threads" % more)
  for flood in floods:
    flood.kill()
  # Calls go on for ten seconds whose connection has broken (server/README.md).
  seconds = _until(attack, lambda: queued() == 0, 10 + 10, "they still wait after 20 s") - 10
  running.kill()
  v.assign(np.float32(1))
  attack.check(float(v.read()) == 1, "a wrong value")
  attack.check(seconds < 5, "cancelling them took %.1f s" % seconds)
  return "%.1f KiB for each, %d more threads, cancelled in %.2f s" % (each / 1024, more, seconds)


@harness.attack("a loop of 10,000,000 iterations")
def long_loop(attack):
  server = attack.server()
  client = attack.client(server, timeout=300)
  run = memory.register(client, "turns", _turns, tf.TensorSpec([], tf.int32))
  run(np.int32(1000))
  before = memory.peak(server)
  started = time.monotonic()
  i, x = run(np.int32(10_000_000))
  seconds = time.monotonic() - started
  grown = memory.peak(server) - before
  attack.check(int(i) == 10_000_000 and int(x[1]) == 1, "a wrong result")
  attack.check(grown < 32 << 20, "it took %s" % memory.mib(grown))
  return "%.1f s, %s more" % (seconds, memory.mib(grown))


@harness.attack("64 timelines of loops of 200,000 iterations, 16 at a time, half of them cut short")
def recorded_loops(attack):
  server = attack.server()
  client = attack.client(server, timeout=300)
  run = memory.register(client, "turns", _turns, tf.TensorSpec([], tf.int32))
  run(np.int32(1000))
  before = memory.peak(server)
  folder = pathlib.Path(attack.enter_context(tempfile.TemporaryDirectory()))

  def record(k):
    path = folder / ("%d.json" % k)
    code = "OK"
    try:
      client.call("turns", [np.int32(200_000)], timeout=.01 if k % 2 else None, trace=str(path))
    except formwork.Error as error:
      code = error.code
    return path, code

  started = time.monotonic()
  with concurrent.futures.ThreadPoolExecutor(16) as pool:
    recorded = list(pool.map(record, range(64)))
  seconds = time.monotonic() - started
  grown = memory.peak(server) - before
  for k, (path, code) in enumerate(recorded):
    attack.check(code == ("DEADLINE_EXCEEDED" if k % 2 else "OK"), "call %d: %s" % (k, code))
    if code != "OK":  # Who has given up hears no more.
      continue
    attack.check(path.stat().st_size < 8 << 20, "a file of %s" % memory.mib(path.stat().st_size))
    trace = json.loads(path.read_text())
    steps = sum(event["ph"] == "X" for event in trace["traceEvents"])
    attack.check(10_000 < steps < 30_000, "%d steps are recorded" % steps)
  attack.check(grown < 256 << 20, "it took %s" % memory.mib(grown))
  return "%.1f s, %s more" % (seconds, memory.mib(grown))
