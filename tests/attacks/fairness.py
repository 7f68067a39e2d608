"""One namespace against another: threads, the queue, waiting lines, compile time."""
import threading
import time

import harness
import numpy as np
import state
import tensorflow as tf


def _endless(n):
  return tf.while_loop(lambda i: i >= 0, lambda i: tf.math.floormod(i + 1, 1000), [n])[0]


def _some(n):
  """About a millisecond."""
  return tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])[0]


def _function(client, name, function, *specs):
  return client.register(name, *harness.graph(function, *specs))


_NUMBER = tf.TensorSpec([], tf.int32)


class Flood:
  """Calls of one function, each from a thread of its own, until the server ends."""

  def __init__(self, function, count, argument=np.int32(0)):
    self.refused = 0
    for _ in range(count):
      threading.Thread(target=self._call, args=(function, argument), daemon=True).start()

  def _call(self, function, argument):
    try:
      function(argument, timeout=60)
    except Exception:  # Refused, or the server has ended.
      self.refused += 1


@harness.attack("200 endless loops in one namespace, a loop of a millisecond in another")
def loops_of_another(attack):
  server = attack.server()
  endless = _function(attack.client(server, "a"), "endless", _endless, _NUMBER)
  some = _function(attack.client(server, "b"), "some", _some, _NUMBER)
  some(np.int32(1000))
  Flood(endless, 200)
  time.sleep(2)
  slowest = 0
  for _ in range(10):
    started = time.monotonic()
    some(np.int32(1000), timeout=10)
    slowest = max(slowest, time.monotonic() - started)
  attack.check(slowest < 5, "a loop of another namespace took %.1f s" % slowest)
  return "%.0f ms the slowest of 10" % (1000 * slowest)


@harness.attack("1,400 endless loops in one namespace, a tiny call and a new function in another")
def full_queue(attack):
  server = attack.server()
  endless = _function(attack.client(server, "a"), "endless", _endless, _NUMBER)
  other = attack.client(server, "b")
  flood = Flood(endless, 1400)
  time.sleep(5)
  started = time.monotonic()
  tiny = _function(other, "tiny", lambda n: n + 1, _NUMBER)
  for i in range(20):
    attack.check(int(tiny(np.int32(i), timeout=10)[0]) == i + 1, "a wrong answer")
  seconds = time.monotonic() - started
  attack.check(seconds < 10, "another namespace's calls took %.1f s" % seconds)
  return "%.0f ms for 20 calls, %d of the others were refused" % (1000 * seconds, flood.refused)


@harness.attack("one namespace waits in line 1,400 times, another assigns")
def full_lines(attack):
  server = attack.server()
  client = attack.client(server, "a")
  client.variable("v", np.float32(0))
  flood = Flood(state.holder(client, "v"), 1400, np.float32(0))
  time.sleep(5)
  w = attack.client(server, "b").variable("w", np.float32(1))
  started = time.monotonic()
  w.assign(np.float32(2))
  seconds = time.monotonic() - started
  attack.check(float(w.read()) == 2, "a wrong value")
  attack.check(seconds < 5, "an assign took %.1f s" % seconds)
  return "%.0f ms for an assign, %d of the others were refused" % (1000 * seconds, flood.refused)
