"""Many calls that end at once, and clients that go in the middle of something."""
import threading
import time

import fairness
import formwork
import harness
import numpy as np
import state
import tensorflow as tf

_NUMBER = tf.TensorSpec([], tf.float32)


def _slowest_tiny(attack, server, seconds):
  """Seconds that the slowest of tiny calls took, which go on for so long."""
  client = attack.client(server, "tiny")
  tiny = client.register("tiny", *harness.graph(lambda x: x + 1, _NUMBER))
  slowest, ends = 0, time.monotonic() + seconds
  while time.monotonic() < ends:
    started = time.monotonic()
    attack.check(float(tiny(np.float32(1), timeout=10)[0]) == 2, "a wrong answer")
    slowest = max(slowest, time.monotonic() - started)
  return slowest


def _await_idle(attack, server):
  """Nothing runs or waits any more."""
  started = time.monotonic()
  while time.monotonic() - started < 10:
    lines = dict(line.rsplit(" ", 1) for line in server.get("/metrics")[1].splitlines()
                 if line and line[0] != "#")
    if float(lines["formwork_calls_running"]) == 0 and float(lines["formwork_calls_queued"]) == 0:
      return time.monotonic() - started
    time.sleep(.02)
  attack.check(False, "calls are left after 10 s")


@harness.attack(
    "10,000 calls in line and in the queue, cancelled at once when their client is killed")
def cancelled_at_once(attack):
  server = attack.server("--max-queued-calls", "20000")
  client = attack.client(server, "a")
  client.variable("v", np.float32(5))
  hold = state.holder(client, "v")
  flood = fairness.Flood(attack, server, "a", "hold", "float32", 10000)
  before = server.resident_bytes()
  flood.kill()
  slowest = _slowest_tiny(attack, server, 2)
  seconds = _await_idle(attack, server)
  attack.check(slowest < 2, "a tiny call took %.1f s meanwhile" % slowest)
  value = float(client.variable("v", dtype="float32", shape=[]).read())
  attack.check(value == 5, "a cancelled call has written %g" % value)
  hold(np.float32(-1), timeout=10)
  return "idle %.1f s later, tiny calls at most %.0f ms, %d MB" % (
      seconds, 1000 * slowest, before >> 20)


@harness.attack("a client that is killed in the middle of a call, with writers in line behind it")
def killed_writer(attack):
  server = attack.server()
  client = attack.client(server, "a")
  v = client.variable("v", np.float32(1))
  state.holder(client, "v")
  flood = fairness.Flood(attack, server, "a", "hold", "float32", 1)
  answers = []
  write = lambda i: answers.append(v.assign(np.float32(i), timeout=20))
  writers = [threading.Thread(target=write, args=(i,)) for i in range(20)]
  for writer in writers:
    writer.start()
  time.sleep(.5)
  attack.check(not answers, "a writer did not wait")
  started = time.monotonic()
  flood.kill()
  for writer in writers:
    writer.join()
  seconds = time.monotonic() - started
  attack.check(len(answers) == 20, "%d of 20 writers were answered" % len(answers))
  # A call goes on for ten seconds whose connection has broken (server/README.md).
  attack.check(seconds < 10 + 3, "the writers waited for %.1f s" % seconds)
  attack.check(0 <= float(v.read()) < 20, "a wrong value")
  return "the 20 writers went on %.0f ms later" % (1000 * seconds)


@harness.attack("variables deleted while calls wait for them")
def deleted_in_line(attack):
  server = attack.server()
  client = attack.client(server, "a")
  v = client.variable("v", np.float32(1))
  hold = state.holder(client, "v")
  said = []

  def call(argument):
    try:
      said.append(hold(np.float32(argument), timeout=3))
    except formwork.Error as error:
      said.append(error.code)

  threads = [threading.Thread(target=call, args=(0 if i == 0 else -1,)) for i in range(10)]
  for thread in threads:
    thread.start()
    time.sleep(.05)
  v.delete()
  for thread in threads:
    thread.join()
  _await_idle(attack, server)
  attack.check(len(said) == 10, "%d of 10 were answered" % len(said))
  try:
    hold(np.float32(-1), timeout=3)
    attack.check(False, "a function whose variable was deleted was called")
  except formwork.Error as error:
    attack.check(error.code == "FAILED_PRECONDITION", "another error: %s" % error)
  return "10 answers: %s" % sorted(set(map(str, said)))[:2]
