"""One namespace against another: threads, the queue, waiting lines, compile time."""
import pathlib
import subprocess
import sys
import time

import harness
import numpy as np
import state
import tensorflow as tf


def _endless(n):
  return tf.while_loop(lambda i: i >= 0, lambda i: tf.math.floormod(i + 1, 1000), [n])[0]


def _endless_pair(x):
  """Two loops of products, which run side by side."""
  def loop(transposed):
    return tf.while_loop(lambda i, y: i >= 0,
                         lambda i, y: (tf.math.floormod(i + 1, 1000),
                                       tf.linalg.matmul(y, y, transpose_a=transposed)), [0, x])[1]
  return loop(False) - loop(True)


def _some(n):
  """About a millisecond."""
  return tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])[0]


def _function(client, name, function, *specs):
  return client.register(name, *harness.graph(function, *specs))


_NUMBER = tf.TensorSpec([], tf.int32)


class Flood:
  """Calls of one function, all at once, from a process (flood.py) that ends with the attack."""

  def __init__(self, attack, server, namespace, function, dtype, count):
    self._process = attack.enter_context(subprocess.Popen(
        [sys.executable, pathlib.Path(__file__).with_name("flood.py"), server.grpc, namespace,
         function, dtype, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    attack.callback(self.kill)
    attack.check(self._process.stdout.readline() == "sent\n", "the flood did not start")

  def kill(self):
    self._process.kill()

  def refused(self):
    self._process.stdin.write("\n")
    self._process.stdin.flush()
    return int(self._process.stdout.readline())


def _slowest(call, times):
  """Seconds of the slowest of some calls."""
  slowest = 0
  for _ in range(times):
    started = time.monotonic()
    call()
    slowest = max(slowest, time.monotonic() - started)
  return slowest


@harness.attack("200 endless loops in one namespace, a loop of a millisecond in another")
def loops_of_another(attack):
  server = attack.server()
  _function(attack.client(server, "a"), "endless", _endless, _NUMBER)
  some = _function(attack.client(server, "b"), "some", _some, _NUMBER)
  some(np.int32(1000))
  Flood(attack, server, "a", "endless", "int32", 200)
  slowest = _slowest(lambda: some(np.int32(1000), timeout=10), 10)
  attack.check(slowest < 5, "a loop of another namespace took %.1f s" % slowest)
  return "%.0f ms the slowest of 10" % (1000 * slowest)


@harness.attack("200 calls of two endless loops side by side, a loop of a millisecond in another")
def loops_side_by_side(attack):
  server = attack.server()
  _function(attack.client(server, "a"), "endless", lambda x: _endless_pair(tf.fill([64, 64], x)),
            tf.TensorSpec([], tf.float32))
  some = _function(attack.client(server, "b"), "some", _some, _NUMBER)
  some(np.int32(1000))
  Flood(attack, server, "a", "endless", "float32", 200)
  slowest = _slowest(lambda: some(np.int32(1000), timeout=10), 10)
  attack.check(slowest < 5, "a loop of another namespace took %.1f s" % slowest)
  return "%.0f ms the slowest of 10" % (1000 * slowest)


@harness.attack("200 endless loops, and a loop of a millisecond in the same namespace")
def loops_of_its_own(attack):
  server = attack.server()
  client = attack.client(server)
  _function(client, "endless", _endless, _NUMBER)
  some = _function(client, "some", _some, _NUMBER)
  some(np.int32(1000))
  Flood(attack, server, "default", "endless", "int32", 200)
  slowest = _slowest(lambda: some(np.int32(1000), timeout=20), 5)
  attack.check(slowest < 20, "a loop took %.1f s" % slowest)
  return "%.0f ms the slowest of 5" % (1000 * slowest)


@harness.attack("40 calls of long steps in one namespace, a loop of a millisecond in another")
def long_steps(attack):
  server = attack.server()

  def long(x):  # 128 GFLOP in one step.
    n = tf.cast(x, tf.int32) + 4000
    return tf.reduce_sum(tf.linalg.matmul(tf.ones([n, n]), tf.ones([n, n])))

  _function(attack.client(server, "a"), "long", long, tf.TensorSpec([], tf.float32))
  some = _function(attack.client(server, "b"), "some", _some, _NUMBER)
  some(np.int32(1000))
  Flood(attack, server, "a", "long", "float32", 40)
  slowest = _slowest(lambda: some(np.int32(1000), timeout=20), 5)
  attack.check(slowest < 10, "a loop of another namespace took %.1f s" % slowest)
  return "%.0f ms the slowest of 5" % (1000 * slowest)


@harness.attack("1,400 endless loops in one namespace, a tiny call and a new function in another")
def full_queue(attack):
  server = attack.server()
  _function(attack.client(server, "a"), "endless", _endless, _NUMBER)
  other = attack.client(server, "b")
  graph = harness.graph(lambda n: n + 1, _NUMBER)
  flood = Flood(attack, server, "a", "endless", "int32", 1400)
  started = time.monotonic()
  tiny = other.register("tiny", *graph)
  registered = time.monotonic() - started

  def call():
    attack.check(int(tiny(np.int32(1), timeout=10)[0]) == 2, "a wrong answer")

  slowest = _slowest(call, 50)
  attack.check(slowest < 2, "another namespace's call took %.1f s" % slowest)
  attack.check(registered < 5, "another namespace's registration took %.1f s" % registered)
  return "%.0f ms the slowest of 50 calls, %.0f ms to register, %d of the others were refused" % (
      1000 * slowest, 1000 * registered, flood.refused())


@harness.attack("one namespace waits in line 1,400 times, another assigns")
def full_lines(attack):
  server = attack.server()
  client = attack.client(server, "a")
  client.variable("v", np.float32(0))
  state.holder(client, "v")
  flood = Flood(attack, server, "a", "hold", "float32", 1400)
  w = attack.client(server, "b").variable("w", np.float32(1))
  started = time.monotonic()
  w.assign(np.float32(2))
  seconds = time.monotonic() - started
  attack.check(float(w.read()) == 2, "a wrong value")
  attack.check(seconds < 5, "an assign took %.1f s" % seconds)
  return "%.0f ms for an assign, %d of the others were refused" % (
      1000 * seconds, flood.refused())
