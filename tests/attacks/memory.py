"""What takes memory: every request is refused before it is too much, and memory comes back."""
import concurrent.futures
import pathlib
import re
import resource
import subprocess
import tempfile
import time

import grpc
import harness
import numpy as np

import formwork

MIB = 1 << 20
GIB = 1 << 30

# pthread_create fails once the file that NO_THREADS names is there: what a limit of tasks does.
NO_THREADS_C = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*), void* arg) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_create");
  const char* path = getenv("NO_THREADS");
  if (path && access(path, F_OK) == 0) return EAGAIN;
  return real(thread, attr, run, arg);
}
"""


def refused(attack, call):
  """The message of the RESOURCE_EXHAUSTED that a call must end with."""
  try:
    call()
  except formwork.Error as error:
    attack.check(error.code == "RESOURCE_EXHAUSTED", "%s: %s" % (error.code, error.message[:300]))
    return error.message
  raise harness.Failed("it was not refused")


def register(client, name, function, *specs):
  graph, inputs, outputs = harness.graph(function, *specs)
  return client.register(name, graph, inputs, outputs)


def peak(server):
  return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(
      "/proc/%d/status" % server.process.pid).read_text()).group(1)) << 10


def reset_peak(server):
  pathlib.Path("/proc/%d/clear_refs" % server.process.pid).write_text("5")


def metric(server, name):
  text = server.get("/metrics")[1]
  return float(re.search(r"^%s (\S+)$" % name, text, re.MULTILINE).group(1))


def mib(n):
  return "%d MiB" % (n >> 20)


@harness.attack("4,000 strings of 1 MB where the address space has room for a few hundred")
def strings_under_an_address_limit(attack):
  import tensorflow as tf
  server = attack.server(limits={resource.RLIMIT_AS: (3 * GIB, 3 * GIB)})
  client = attack.client(server)
  fill = register(client, "fill", lambda n, s: tf.fill([n], s), tf.TensorSpec([], tf.int32),
                  tf.TensorSpec([], tf.string))
  message = refused(attack, lambda: fill(np.int32(4000), b"x" * MIB))
  attack.check(len(fill(np.int32(2), b"x" * MIB)[0]) == 2, "a small call fails afterwards")
  return message[:160]


@harness.attack("the same without limits of the server's own: the system refuses")
def strings_that_the_system_refuses(attack):
  import tensorflow as tf
  server = attack.server("--memory-limit-bytes", "0", "--max-call-bytes", "0",
                         limits={resource.RLIMIT_AS: (3 * GIB, 3 * GIB)})
  client = attack.client(server)
  fill = register(client, "fill", lambda n, s: tf.fill([n], s), tf.TensorSpec([], tf.int32),
                  tf.TensorSpec([], tf.string))
  message = refused(attack, lambda: fill(np.int32(4000), b"x" * MIB))
  attack.check(len(fill(np.int32(2), b"x" * MIB)[0]) == 2, "a small call fails afterwards")
  return message[:160]


@harness.attack("a variable of 8 MB and a large sum when the system starts no more threads")
def no_more_threads(attack):
  import tensorflow as tf
  with tempfile.TemporaryDirectory() as folder:
    source, library, flag = (pathlib.Path(folder) / n for n in ("shim.c", "shim.so", "flag"))
    source.write_text(NO_THREADS_C)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    server = attack.server(env={"LD_PRELOAD": str(library), "NO_THREADS": str(flag)})
    client = attack.client(server)
    add = register(client, "sum", lambda x: tf.reduce_sum(x * 2), tf.TensorSpec([None], tf.float32))
    flag.touch()
    value = np.ones(2 << 20, np.float32)
    client.variable("v", value)
    attack.check(add(value)[0] == 2 * value.size, "a wrong sum")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
      list(pool.map(lambda _: add(value), range(64)))
    flag.unlink()
  return "created, and 65 sums right"


@harness.attack("a server that the system gives no thread at all")
def no_thread_at_the_start(attack):
  with tempfile.TemporaryDirectory() as folder:
    source, library = (pathlib.Path(folder) / n for n in ("shim.c", "shim.so"))
    source.write_text(NO_THREADS_C)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    import server_process
    ended = subprocess.run([server_process.binary(), "--port", "0", "--http-port", "0"], timeout=60,
                           env={"LD_PRELOAD": str(library), "NO_THREADS": folder},
                           capture_output=True, text=True)
  attack.check(ended.returncode > 0, "exit code %d: %s" % (ended.returncode, ended.stderr[-300:]))
  return ended.stderr.strip().splitlines()[-1][-120:]


@harness.attack("values of 16 GB by ten ways, with the defaults")
def huge_values(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server)
  limit = metric(server, "formwork_memory_limit_bytes")
  attack.check(0 < limit < 0.85 * machine_memory(), "the limit is %.0f" % limit)
  before = peak(server)
  n = tf.TensorSpec([], tf.int32)
  ways = {
      "Fill": lambda n: tf.fill([n, n], 1.0),
      "Range": lambda n: tf.range(0, tf.cast(n, tf.int64) * tf.cast(n, tf.int64)),
      "LinSpace": lambda n: tf.linspace(0.0, 1.0, n * 30000),
      "Tile": lambda n: tf.tile([[1.0]], [n, n]),
      "BroadcastTo": lambda n: tf.broadcast_to(tf.constant(1.0), [n, n]),
      "Pad": lambda n: tf.pad([[1.0]], [[0, n], [n, 0]]),
      "OneHot": lambda n: tf.one_hot(tf.range(n), n),
      "Random": lambda n: tf.random.uniform([n, n]),
      "Strings": lambda n: tf.fill([n, n], "x"),
      "Outer": lambda n: tf.range(n)[:, None] * tf.range(n)[None, :],
  }
  for name, body in ways.items():
    function = register(client, name, body, n)
    message = refused(attack, lambda: function(np.int32(64000)))
    attack.check(re.search(r"wanted=\d+.*limit=\d+", message), message)
  grown = peak(server) - before
  attack.check(grown < 256 * MIB, "%s taken" % mib(grown))
  return "%s taken; limit %s" % (mib(grown), mib(int(limit)))


def machine_memory():
  text = pathlib.Path("/proc/meminfo").read_text()
  return int(re.search(r"MemTotal:\s+(\d+) kB", text).group(1)) << 10


@harness.attack("small graphs with sizes of 0.5 to 4 GB, two values at a time, with the defaults")
def absurd_sizes_in_small_graphs(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server)
  worst, answered = 0, 0
  n = tf.TensorSpec([], tf.int32)
  ways = {
      "Fill": lambda n: tf.cumsum(tf.fill([n, n], 1.0)),
      "Tile": lambda n: tf.reverse(tf.tile([[1.0]], [n, n]), [0]),
      "Pad": lambda n: tf.pad(tf.pad([[1.0]], [[0, n - 1], [0, 0]]), [[0, 0], [n - 1, 0]]),
      "Resize": lambda n: tf.image.resize(tf.ones([1, 2, 2, 1]), [n, n]),
      "Conv": lambda n: tf.nn.conv2d(tf.ones([1, n, n, 1]), tf.ones([3, 3, 1, 4]), 1, "SAME"),
      "OneHot": lambda n: tf.reduce_sum(tf.one_hot(tf.range(n), n), 1),
      "Cumsum": lambda n: tf.cumsum(tf.ones([n, n])),
      "Strings": lambda n: tf.strings.as_string(tf.range(n * 1000), width=100)[0],
  }
  for name, body in ways.items():
    function = register(client, name, lambda n, body=body: tf.reduce_sum(
        tf.strings.length(body(n)) if name == "Strings" else body(n)), n)
    for size in (11000, 16000, 32000):
      started, before = time.monotonic(), server.resident_bytes()
      reset_peak(server)
      try:
        function(np.int32(size))
        answered += 1
      except formwork.Error as error:
        attack.check(error.code == "RESOURCE_EXHAUSTED", "%s: %s" % (name, error.message[:300]))
      attack.check(time.monotonic() - started < 10, "%s of %d took over 10 s" % (name, size))
      worst = max(worst, peak(server) - before)
      attack.check(worst < GIB, "%s of %d took %s" % (name, size, mib(worst)))
    function.delete()
  # What is given much may take much.
  large = register(client, "large", lambda x: tf.reduce_sum(tf.ones([16, 1]) * x),
                   tf.TensorSpec([None], tf.float32))
  attack.check(large(np.ones(16 << 20, np.float32))[0] == 1 << 28, "a wrong sum")
  return "at most %s; %d of %d refused" % (mib(worst), 3 * len(ways) - answered, 3 * len(ways))


@harness.attack("functions are registered and called again and again where the limit is reached")
def registrations_at_the_limit(attack):
  import tensorflow as tf
  server = attack.server("--memory-limit-bytes", "192M")
  client = attack.client(server)
  step = tf.TensorSpec([None], tf.float32)

  def body(x):
    for i in range(40):
      x = tf.where(x > i, x * (i + 2), x - tf.reduce_sum(x) / (i + 1))
    return x

  graph, inputs, outputs = harness.graph(body, step)
  held, refusals, made = [], 0, 0
  try:
    while True:  # All but some hundred kilobytes.
      held.append(client.variable("v%d" % len(held), np.array([b"x" * MIB], object)))
  except formwork.Error:
    pass
  for i in range(600):
    try:
      client.register("a function with a long name %d" % i, graph, inputs, outputs)(
          np.ones(1000, np.float32))
      made += 1
    except formwork.Error as error:
      attack.check(error.code == "RESOURCE_EXHAUSTED", "%s: %s" % (error.code, error.message[:300]))
      refusals += 1
      if refusals % 50 == 0 and held:
        held.pop().delete()
  attack.check(refusals > 100, "only %d were refused" % refusals)
  client.clear()
  f = client.register("f", graph, inputs, outputs)
  attack.check(f(np.ones(2, np.float32))[0].size == 2, "f")
  return "%d refused, %d made" % (refusals, made)


@harness.attack("lists, strings and variables that grow in a loop under a limit of 512 MiB")
def what_grows_in_a_loop(attack):
  import tensorflow as tf
  server = attack.server("--memory-limit-bytes", "512M")
  client = attack.client(server, timeout=60)

  def items(n):
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False)
    for i in tf.range(n):
      array = array.write(i, tf.fill([100], 1.0))
    return array.size()

  def doubled(n):
    text = tf.constant("x" * 1000)
    for _ in tf.range(n):
      tf.autograph.experimental.set_loop_options(
          shape_invariants=[(text, tf.TensorShape([]))])
      text = text + text
    return tf.strings.length(text)

  def many(n):
    return tf.strings.length(tf.strings.as_string(tf.range(n), width=100))[0]

  spec = tf.TensorSpec([], tf.int32)
  for name, body, size in (("items", items, 10**7), ("doubled", doubled, 40),
                           ("many", many, 10**7)):
    function = register(client, name, body, spec)
    refused(attack, lambda: function(np.int32(size)))
    function(np.int32(3))
  attack.check(peak(server) < 900 * MIB, "%s taken" % mib(peak(server)))
  return "peak " + mib(peak(server))


@harness.attack("variables of 1 MB of text under a limit of 256 MiB")
def text_in_variables(attack):
  server = attack.server("--memory-limit-bytes", "256M")
  client = attack.client(server)

  def create():
    for i in range(1000):
      client.variable("v%d" % i, np.array([b"x" * MIB], object))
  message = refused(attack, create)
  attack.check(peak(server) < 700 * MIB, "%s taken" % mib(peak(server)))
  client.clear()
  client.variable("v", np.float32(1))
  return "peak %s; %s" % (mib(peak(server)), message[:100])


@harness.attack("256 MiB of zeros in a gzip of 256 KiB, three times")
def inflated_messages(attack):
  server = attack.server()
  before = peak(server)
  with server.channel() as channel:
    call = channel.unary_unary("/formwork.v1.GraphService/Call")
    bomb = bytes(256 * MIB)
    for _ in range(3):
      try:
        call(bomb, timeout=30, compression=grpc.Compression.Gzip)
      except grpc.RpcError as error:
        said = error.code().name
  grown = peak(server) - before
  attack.check(grown < 128 * MIB, "%s taken (%s)" % (mib(grown), said))
  return "%s taken, answered %s" % (mib(grown), said)


@harness.attack(
    "resident memory after clear, when tensors, strings, lists and functions had been there")
def memory_comes_back(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server, timeout=60)
  client.variable("warm", np.float32(1))
  client.clear()
  idle = server.resident_bytes()
  spec = tf.TensorSpec([], tf.int32)
  texts = register(client, "texts", lambda n: tf.strings.as_string(tf.range(n), width=200), spec)
  conv = register(client, "conv", lambda x, f: tf.nn.conv2d(x, f, 1, "SAME"),
                  tf.TensorSpec([None, None, None, 16], tf.float32),
                  tf.TensorSpec([3, 3, 16, None], tf.float32))
  for i in range(40):
    conv(np.zeros((1, 16 + i, 16 + i, 16), np.float32), np.zeros((3, 3, 16, 16 + i), np.float32))
  kept = [texts(np.int32(500000), keep=True) for _ in range(4)]
  for i in range(20):
    client.variable("v%d" % i, np.zeros(4 << 20, np.float32))
  high = server.resident_bytes()
  del kept
  client.clear()
  deadline = time.monotonic() + 5
  while server.resident_bytes() > 1.1 * idle + 64 * MIB and time.monotonic() < deadline:
    time.sleep(0.1)
  left = server.resident_bytes()
  attack.check(left <= 1.1 * idle + 64 * MIB, "idle %s, at most %s, afterwards %s" % (
      mib(idle), mib(high), mib(left)))
  return "idle %s, at most %s, afterwards %s" % (mib(idle), mib(high), mib(left))
