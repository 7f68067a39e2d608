"""Work that takes long in one piece: deadlines and cancellation reach into it."""
import threading
import time

import formwork
import numpy as np

import harness

DEADLINE = 0.3
# Machines are noisy; a server that does not look takes seconds longer.
LATE = 1.0
# Some of these kernels take seconds only with more than one call may hold by default.
LARGE_CALLS = ("--max-call-bytes", "8G")


def kernels():
  """By name, functions of a scalar whose kernel takes seconds; the graph makes what it works on."""
  import tensorflow as tf
  raw = tf.raw_ops

  def filled(x, *shape, dtype=tf.float32):
    return tf.fill(shape, tf.cast(x, dtype))

  def scattered(x, n):
    """n different integers, out of order."""
    return tf.range(n, dtype=tf.int64) * 0x5851f42d4c957f2d + tf.cast(x, tf.int64)

  def steps(x):
    y = filled(x, 1 << 22)
    for _ in range(400):
      y = tf.cumsum(y)
    return y

  sliding = dict(strides=[1, 1, 1, 1], padding="SAME")
  windows = dict(ksize=[1, 41, 41, 1], **sliding)
  image, filters = (1, 768, 768, 128), (5, 5, 128, 128)
  narrow, depthwise = (1, 1024, 1024, 32), (31, 31, 32, 1)
  return {
      "MatMul": lambda x: tf.matmul(filled(x, 7000, 7000), filled(x, 7000, 7000)),
      "MatMul of double": lambda x: tf.matmul(filled(x, 5000, 5000, dtype=tf.float64),
                                              filled(x, 5000, 5000, dtype=tf.float64)),
      "MatMul of int32": lambda x: tf.matmul(filled(x, 5000, 5000, dtype=tf.int32),
                                             filled(x, 5000, 5000, dtype=tf.int32)),
      "MatMul of complex64": lambda x: tf.matmul(filled(x, 3000, 3000, dtype=tf.complex64),
                                                 filled(x, 3000, 3000, dtype=tf.complex64)),
      "MatMul, long sums": lambda x: tf.matmul(filled(x, 2000, 40000), filled(x, 40000, 2000)),
      "BatchMatMul": lambda x: tf.matmul(filled(x, 96, 1200, 1200), filled(x, 96, 1200, 1200)),
      "Einsum": lambda x: tf.einsum("bij,bjk->kbi", filled(x, 96, 1200, 1200),
                                    filled(x, 96, 1200, 1200)),
      "Conv2D": lambda x: tf.nn.conv2d(filled(x, *image), filled(x, *filters), 1, "SAME"),
      "Conv2D, input gradient": lambda x: raw.Conv2DBackpropInput(
          input_sizes=image, filter=filled(x, *filters), out_backprop=filled(x, *image), **sliding),
      "Conv2D, filter gradient": lambda x: raw.Conv2DBackpropFilter(
          input=filled(x, *image), filter_sizes=filters, out_backprop=filled(x, *image), **sliding),
      "depthwise": lambda x: tf.nn.depthwise_conv2d(
          filled(x, *narrow), filled(x, *depthwise), [1, 1, 1, 1], "SAME"),
      "depthwise, filter gradient": lambda x: raw.DepthwiseConv2dNativeBackpropFilter(
          input=filled(x, *narrow), filter_sizes=depthwise, out_backprop=filled(x, *narrow),
          **sliding),
      "MaxPool": lambda x: tf.nn.max_pool2d(filled(x, *narrow), 41, 1, "SAME"),
      "MaxPool, gradient": lambda x: raw.MaxPoolGrad(
          orig_input=filled(x, *narrow), orig_output=filled(x, *narrow), grad=filled(x, *narrow),
          **windows),
      "AvgPool, gradient": lambda x: raw.AvgPoolGrad(
          orig_input_shape=narrow, grad=filled(x, *narrow), **windows),
      "sort": lambda x: tf.sort(scattered(x, 1 << 24)),
      "top_k": lambda x: tf.math.top_k(scattered(x, 1 << 24), 1 << 23)[0],
      "Unique": lambda x: tf.unique(scattered(x, 1 << 24))[0],
      "random normal": lambda x: tf.random.stateless_normal([1 << 27], [1, tf.cast(x, tf.int32)]),
      "random shuffle": lambda x: tf.random.shuffle(filled(x, 1 << 26)),
      "resize": lambda x: tf.image.resize(filled(x, 1, 64, 64, 16), [6000, 6000]),
      "resize, gradient": lambda x: raw.ResizeBilinearGrad(
          grads=filled(x, 1, 6000, 6000, 8), original_image=filled(x, 1, 64, 64, 8)),
      "UnsortedSegmentProd": lambda x: tf.math.unsorted_segment_prod(
          filled(x, 1 << 28, dtype=tf.float16), filled(x, 1 << 28, dtype=tf.int32), 10),
      "ScatterNd": lambda x: tf.scatter_nd(filled(x, 1 << 27, 1, dtype=tf.int32),
                                           filled(x, 1 << 27), [1000]),
      "Gather": lambda x: tf.gather(filled(x, 1 << 26), tf.bitwise.bitwise_and(
          scattered(x, 1 << 26), (1 << 26) - 1)),
      "Where": lambda x: tf.where(filled(x, 1 << 14, 1 << 13) >= x),
      "Cumprod": lambda x: tf.math.cumprod(filled(x, 1 << 28, dtype=tf.float16)),
      "Transpose": lambda x: tf.transpose(filled(x, *([2] * 7 + [1 << 20])),
                                          [7, 6, 5, 4, 3, 2, 1, 0]),
      "element by element": lambda x: tf.math.lgamma(filled(x, 1 << 26, dtype=tf.float64)),
      "strings": lambda x: tf.strings.upper(tf.strings.as_string(filled(x, 1 << 23))),
      "softmax of one row": lambda x: tf.nn.softmax(filled(x, 1 << 28)),
      "log_softmax of one row": lambda x: tf.nn.log_softmax(filled(x, 1 << 28)),
      "cross entropy of one row": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
          labels=[0], logits=filled(x, 1, 1 << 27)),
      "text of a tensor": lambda x: tf.strings.format("{}", filled(x + 1.2345678, 1 << 24),
                                                      summarize=-1),
      "substrings of one string": lambda x: tf.strings.substr(
          tf.strings.as_string(tf.cast(x, tf.int32), width=60000),
          filled(x, 1 << 17, dtype=tf.int32), tf.fill([1 << 17], 3), unit="UTF8_CHAR"),
      "SpaceToBatch": lambda x: raw.SpaceToBatchND(
          input=filled(x, 1, 1 << 24, 1), block_shape=[1 << 24], paddings=[[0, 0]]),
      "Split": lambda x: tf.split(filled(x, 1 << 28), 1 << 14)[3],
      "DynamicStitch": lambda x: tf.dynamic_stitch([tf.range(1 << 26)], [filled(x, 1 << 26)]),
      "Conv2D, NCHW": lambda x: raw.Conv2D(
          input=filled(x, 1, 128, 768, 768), filter=filled(x, *filters), data_format="NCHW",
          **sliding),
      "steps": steps,
  }


def register(client, name, graph):
  """With a scalar result, so that no answer is large."""
  import tensorflow as tf

  def small(x):
    value = tf.reshape(graph(x), [-1])[0]
    return tf.strings.length(value) if value.dtype == tf.string else value

  made, inputs, outputs = harness.graph(small, tf.TensorSpec([], tf.float32))
  return client.register(name, graph_def=made, inputs=inputs, outputs=outputs)


def seconds_until_idle(server):
  """How long calls still run; what answers early and computes on would be seen here."""
  started = time.monotonic()
  while time.monotonic() - started < 10:
    for line in server.get("/metrics")[1].splitlines():
      if line.startswith("formwork_calls_running ") and float(line.split()[1]) == 0:
        return time.monotonic() - started
    time.sleep(0.01)
  return 10


@harness.attack("a deadline of 0.3 s on kernels that take seconds")
def deadlines(attack):
  server = attack.server(*LARGE_CALLS)
  client = attack.client(server)
  figures, failures = [], []
  for number, (name, graph) in enumerate(kernels().items()):
    call = register(client, "long%d" % number, graph)
    started = time.monotonic()
    try:
      call(np.float32(0), timeout=DEADLINE)
      code = "OK"
    except formwork.Error as error:
      code = error.code
    answered = time.monotonic() - started - DEADLINE
    late = answered + seconds_until_idle(server)
    figures.append((late, name))
    if code == "OK" and answered < 0:
      continue  # A machine that is faster than this table.
    if code != "DEADLINE_EXCEEDED" or late > LATE:
      failures.append("%s: %s, %.2f s late" % (name, code, late))
  attack.check(not failures, "; ".join(failures))
  return "%d kernels, at most %.0f ms late (%s)" % (len(figures), 1000 * max(figures)[0],
                                                    max(figures)[1])


@harness.attack(
    "a deadline of 0.3 s on a call that counts up a variable, then has 2,000 steps to go")
def steps_after_an_effect(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server)
  client.variable("counted", np.float32(0))

  def steps(x):
    counted = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="counted")
    with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=counted, value=1.0)]):
      y = tf.fill([1 << 20], x)
    for _ in range(2000):
      y = tf.cumsum(y)
    return y[0]

  call = client.register("steps", *harness.graph(steps, tf.TensorSpec([], tf.float32)))
  started = time.monotonic()
  code = "OK"
  try:
    call(np.float32(0), timeout=DEADLINE)
  except formwork.Error as error:
    code = error.code
  late = time.monotonic() - started - DEADLINE + seconds_until_idle(server)
  attack.check(code == "DEADLINE_EXCEEDED" and late < LATE + 0.5, "%s, %.2f s late" % (code, late))
  return "%.0f ms late" % (1000 * late)


@harness.attack("deadlines that fall into changes of a variable of 128 MB: all of it or nothing")
def changes_of_large_variables(attack):
  import tensorflow as tf
  raw, n = tf.raw_ops, 1 << 25
  server = attack.server(*LARGE_CALLS)
  client = attack.client(server, timeout=60)
  for name in ("changed", "velocity", "given"):
    client.variable(name, np.ones(n, np.float32))

  def handle(name):
    return raw.VarHandleOp(dtype=tf.float32, shape=[n], shared_name=name)

  def read(name):
    return raw.ReadVariableOp(resource=handle(name), dtype=tf.float32)

  changes = {
      "AssignAdd": lambda x: raw.AssignAddVariableOp(
          resource=handle("changed"), value=read("given")),
      "AssignSub of a value made for it": lambda x: raw.AssignSubVariableOp(
          resource=handle("changed"), value=tf.fill([n], x)),
      "Momentum": lambda x: raw.ResourceApplyMomentum(
          var=handle("changed"), accum=handle("velocity"), lr=x, grad=read("given"), momentum=x),
      "ScatterAdd": lambda x: raw.ResourceScatterAdd(
          resource=handle("changed"), indices=tf.range(n), updates=read("given")),
      "ScatterUpdate of few rows": lambda x: raw.ResourceScatterUpdate(
          resource=handle("changed"), indices=tf.range(n // 16), updates=tf.fill([n // 16], x)),
  }

  def difference(x):
    return tf.reduce_max(read("changed")) - tf.reduce_min(read("changed")) + x

  spread = client.register("spread", *harness.graph(difference, tf.TensorSpec([], tf.float32)))
  figures, failures = [], []
  for number, (name, change) in enumerate(changes.items()):

    def changed(x, change=change):
      with tf.control_dependencies([change(x)]):
        return tf.identity(x)

    call = client.register("change%d" % number,
                           *harness.graph(changed, tf.TensorSpec([], tf.float32)))
    call(np.float32(1))
    started = time.monotonic()
    call(np.float32(1))
    seconds = time.monotonic() - started
    for part in range(1, 5):
      deadline = seconds * part / 5
      started = time.monotonic()
      try:
        call(np.float32(1), timeout=deadline)
      except formwork.Error as error:
        attack.check(error.code == "DEADLINE_EXCEEDED", "%s: %s" % (name, error))
      late = time.monotonic() - started - deadline + seconds_until_idle(server)
      figures.append((late, name))
      if late > LATE:
        failures.append("%s: %.2f s late" % (name, late))
    if "few" not in name and float(spread(np.float32(0))[0]) != 0:
      failures.append("%s: half a change was left" % name)
  attack.check(not failures, "; ".join(failures))
  return "%d changes, at most %.0f ms late (%s)" % (len(changes), 1000 * max(figures)[0],
                                                    max(figures)[1])


@harness.attack("clients that leave 0.3 s into kernels that take seconds")
def cancellation(attack):
  server = attack.server(*LARGE_CALLS)
  figures, failures = [], []
  for number, (name, graph) in enumerate(kernels().items()):
    client = formwork.connect(server.grpc, timeout=60)
    call = register(client, "long%d" % number, graph)

    def run(call=call):
      try:
        call(np.float32(0))
      except Exception:  # The client is closed under it.
        pass

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(DEADLINE)
    client.close()
    late = seconds_until_idle(server)
    thread.join()
    figures.append((late, name))
    if late > LATE:
      failures.append("%s: ran on for %.2f s" % (name, late))
  attack.check(not failures, "; ".join(failures))
  return "%d kernels, at most %.0f ms more (%s)" % (len(figures), 1000 * max(figures)[0],
                                                    max(figures)[1])


@harness.attack("a graph whose constants take long to fold")
def folding(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server)

  def heavy(x):
    total = x
    for i in range(300):
      a = tf.fill([500, 500], float(i))
      b = tf.range(200000.0) + float(i)
      total += 0 * (tf.matmul(a, a)[0, 0] + tf.sort(b)[0])
    return total

  made, inputs, outputs = harness.graph(heavy, tf.TensorSpec([], tf.float32))
  started = time.monotonic()
  call = client.register("heavy", graph_def=made, inputs=inputs, outputs=outputs)
  seconds = time.monotonic() - started
  before = server.resident_bytes()
  call(np.float32(1), timeout=60)
  attack.check(seconds < 6, "the registration took %.1f s" % seconds)
  attack.check(before < 600 << 20, "the server holds %d MB after it" % (before >> 20))
  return "registered in %.1f s, %d MB" % (seconds, before >> 20)


@harness.attack("10 million iterations of a loop over scalars, then a deadline of 0.3 s on 2 billion")
def loop_of_scalars(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server, timeout=60)

  def loop(n):
    return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x + 0.5), (0, 0.0))[1]

  call = client.register("loop", *harness.graph(loop, tf.TensorSpec([], tf.int32)))
  seconds = []
  for _ in range(3):
    started = time.monotonic()
    total = call(np.int32(10_000_000))
    seconds.append(time.monotonic() - started)
    attack.check(np.ravel(total)[0] == 5_000_000, "the loop gave %s" % total)
  attack.check(min(seconds) < 0.8, "the loop took %.2f s" % min(seconds))
  started = time.monotonic()
  code = "OK"
  try:
    call(np.int32(2**31 - 1), timeout=DEADLINE)
  except formwork.Error as error:
    code = error.code
  late = time.monotonic() - started - DEADLINE + seconds_until_idle(server)
  attack.check(code == "DEADLINE_EXCEEDED" and late < LATE, "%s, %.2f s late" % (code, late))
  return "%.0f ns an iteration, %.0f ms late" % (100 * min(seconds), 1000 * late)
