"""Large messages, streams that nobody reads, and what is announced and never comes."""
import threading
import time

import grpc
import harness
import server_process
from formwork.v1 import calls_pb2, tensors_pb2

MEGABYTE = 1 << 20


def register(client, name, function, *specs):
  graph, inputs, outputs = harness.graph(function, *specs)
  return client.register(name, graph_def=graph, inputs=inputs, outputs=outputs)


def identity(client):
  import tensorflow as tf
  return register(client, "identity", tf.identity, tf.TensorSpec([None], tf.float32))


def megabytes(server):
  return server.resident_bytes() / MEGABYTE


class HealthChecks(threading.Thread):
  """Asks for the server's health again and again; `slowest` is in seconds."""

  def __init__(self, server):
    super().__init__(daemon=True)
    self.channel, self.ended, self.slowest = server.channel(), threading.Event(), 0
    server_process.health(self.channel)
    self.start()

  def run(self):
    while not self.ended.wait(0.01):
      started = time.monotonic()
      server_process.health(self.channel)
      self.slowest = max(self.slowest, time.monotonic() - started)

  def end(self):
    self.ended.set()
    self.join()
    self.channel.close()
    return self.slowest


@harness.attack("8 clients read 200 MB of strings at once; others ask for the server's health")
def strings_are_encoded(attack):
  import tensorflow as tf
  server = attack.server()
  client = attack.client(server)
  made = register(client, "strings", lambda n: tf.fill([n], tf.constant("x" * 1000)),
                  tf.TensorSpec([], tf.int32))
  request = calls_pb2.CallRequest(namespace="default", function_id=made.id)
  value = request.inputs.add().tensor
  value.dtype, value.content = 3, (200_000).to_bytes(4, "little")
  checks = HealthChecks(server)
  with server.channel() as channel:
    call = server_process.unary(channel, "Call")
    calls = [call.future(request.SerializeToString(), timeout=120) for _ in range(8)]
    sizes = [len(one.result()) for one in calls]
  slowest = checks.end()
  attack.check(min(sizes) > 200_000_000, "short answers: %s" % sizes)
  attack.check(slowest < 5, "a health check took %.1f s" % slowest)
  return "slowest health check %.0f ms" % (1000 * slowest)


@harness.attack("a stream of 24 calls of 16 MB each, whose answers nobody reads")
def answers_nobody_reads(attack):
  server = attack.server()
  function = identity(attack.client(server))
  request = calls_pb2.CallRequest(namespace="default", function_id=function.id)
  tensor = request.inputs.add().tensor
  tensor.dtype, tensor.content = 1, bytes(16 * MEGABYTE)
  tensor.dims.append(4 * MEGABYTE)
  data = request.SerializeToString()
  before = megabytes(server)
  with server.channel() as channel:
    answers = channel.stream_stream(server_process.SERVICE + "CallStream")(
        iter([data] * 24), timeout=60)
    grown, deadline = 0, time.monotonic() + 5
    while time.monotonic() < deadline:
      grown = max(grown, megabytes(server) - before)
      time.sleep(0.05)
    attack.check(grown < 300, "the server grew by %.0f MB" % grown)
    read = sum(len(answer) for answer in answers) / MEGABYTE  # All come once they are read.
  attack.check(read > 24 * 16, "only %.0f MB came" % read)
  return "%.0f MB" % grown


@harness.attack("WriteTensor announces 100 GB, and 1 GB for 20 values, and sends a byte of each")
def announced_and_never_sent(attack):
  server = attack.server()
  before = megabytes(server)
  held = threading.Event()

  def chunks(elements):
    yield tensors_pb2.WriteTensorRequest(dtype=4, dims=[elements], content=b"x").SerializeToString()
    held.wait(30)

  with server.channel() as channel:
    write = channel.stream_unary(server_process.SERVICE + "WriteTensor")
    calls = [write.future(chunks(n), timeout=30) for n in [100 << 30] + 20 * [1 << 30]]
    time.sleep(1)
    grown = megabytes(server) - before
    tensor = write(iter([tensors_pb2.WriteTensorRequest(
        dtype=4, dims=[MEGABYTE], content=bytes(MEGABYTE)).SerializeToString()]), timeout=20)
    held.set()
    codes = {call.code() for call in calls}
  attack.check(tensors_pb2.WriteTensorResponse.FromString(tensor).tensor.id, "no tensor was kept")
  attack.check(grown < 150, "the server grew by %.0f MB" % grown)
  attack.check(codes == {grpc.StatusCode.INVALID_ARGUMENT}, "ended with %s" % codes)
  return "%.0f MB" % grown


@harness.attack("a loop prints without end into an answer in parts that nobody reads")
def prints_nobody_reads(attack):
  import sys
  import tensorflow as tf

  def chatter(n):
    for _ in tf.range(n):
      tf.print("x" * 1000, output_stream=sys.stderr)
    return n

  server = attack.server()
  function = register(attack.client(server), "chatter", tf.autograph.to_graph(chatter),
                      tf.TensorSpec([], tf.int32))
  request = calls_pb2.CallRequest(namespace="default", function_id=function.id)
  value = request.inputs.add().tensor
  value.dtype, value.content = 3, (300_000).to_bytes(4, "little")
  before = megabytes(server)
  with server.channel() as channel:
    parts = channel.unary_stream(server_process.SERVICE + "CallInParts")(
        request.SerializeToString(), timeout=60)
    grown, deadline = 0, time.monotonic() + 4
    while time.monotonic() < deadline:
      grown = max(grown, megabytes(server) - before)
      time.sleep(0.05)
    last = calls_pb2.CallResponse.FromString(list(parts)[-1])
  attack.check(not last.more, "the answer has no end")
  attack.check(grown < 100, "the server grew by %.0f MB" % grown)
  return "%.0f MB" % grown


@harness.attack("30,000 inputs of a byte each, by 16 clients; others ask for the server's health")
def many_small_inputs(attack):
  server = attack.server()
  request = calls_pb2.CallRequest(function_name="none")
  for _ in range(30_000):
    request.inputs.add().tensor.dtype = 4
  data = request.SerializeToString()
  checks = HealthChecks(server)
  with server.channel() as channel:
    call = server_process.unary(channel, "Call")
    for _ in range(10):
      calls = [call.future(data, timeout=60) for _ in range(16)]
      codes = {one.code() for one in calls}
  slowest = checks.end()
  attack.check(codes == {grpc.StatusCode.INVALID_ARGUMENT}, "ended with %s" % codes)
  attack.check(slowest < 1, "a health check took %.1f s" % slowest)
  return "slowest health check %.0f ms" % (1000 * slowest)
