"""Large messages, streams that nobody reads, and what is announced and never comes."""
import resource
import threading
import time

import grpc
import harness
import http2
import server_process
from formwork.v1 import calls_pb2, tensors_pb2
from malformed import varint

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


@harness.attack("answers of 1.3 GB of text, by each way, that the system gives no memory to encode")
def answers_that_the_system_refuses(attack):
  import tensorflow as tf
  most, n = 7 << 29, 1_300_000
  refused = grpc.StatusCode.RESOURCE_EXHAUSTED

  def method(kind, name):
    """A method of a server of its own, whose heap is empty; what makes requests; the channel."""
    server = attack.server("--memory-limit-bytes", "0", "--max-call-bytes", "0",
                           limits={resource.RLIMIT_AS: (most, most)})
    made = register(attack.client(server), "strings",
                    lambda n: tf.fill([n], tf.constant("x" * 1000)), tf.TensorSpec([], tf.int32))
    channel = attack.enter_context(server.channel())

    def request(n, **fields):
      message = calls_pb2.CallRequest(function_id=made.id, **fields)
      value = message.inputs.add().tensor
      value.dtype, value.content = 3, n.to_bytes(4, "little")
      return message.SerializeToString()

    return getattr(channel, kind)(server_process.SERVICE + name), request, channel

  call, request, _ = method("unary_unary", "Call")
  attack.check(call.future(request(n), timeout=60).code() == refused, "Call was answered")
  stream, request, _ = method("stream_stream", "CallStream")
  answers = [calls_pb2.CallResponse.FromString(a) for a in stream(
      iter([request(n, call_id=1), request(3, call_id=2)]), timeout=60)]
  attack.check([a.error.code for a in answers] == [8, 0], "CallStream: %s" % [
      (a.call_id, a.error.code) for a in answers])
  call, request, channel = method("unary_unary", "Call")
  kept = calls_pb2.CallResponse.FromString(call(request(n, keep_outputs=True), timeout=60))
  whole = tensors_pb2.ReadTensorRequest(id=kept.outputs[0].kept_tensor_id)
  read = server_process.unary(channel, "ReadTensor")
  attack.check(read.future(whole.SerializeToString(), timeout=60).code() == refused,
               "ReadTensor was answered")
  in_parts, request, _ = method("unary_stream", "CallInParts")
  sent = sum(map(len, in_parts(request(500_000), timeout=60)))
  attack.check(sent > 500_000_000, "CallInParts sent %d bytes" % sent)
  return "refused by Call, CallStream and ReadTensor; CallInParts sent 500 MB"


# 16 MB that protobuf would make into a gigabyte: empty submessages, unknown fields, alternating
# kinds of a oneof. Each is (a field's tag and content) again and again.
MANY_TIMES = {
    "Register": [("specs", b"\x42\x00"), ("captures", b"\x52\x00"), ("names", b"\x4a\x00"),
                 ("kinds", b"\x52\x06\x12\x04\x10\x7f\x0a\x00")],
    "Resolve": [("parameters", None), ("unknown", b"\xfa\x7f\x00")],
    "ListFunctions": [("unknown", b"\xfa\x7f\x00")],
    "CreateVariable": [("dims", b"\x38\x01"), ("unknown", b"\xfa\x7f\x00")],
    "ReadVariables": [("targets", b"\x2a\x02\x08\x01")],
    "ReleaseTensors": [("ids", b"\x28\x01"), ("unknown", b"\xfa\x7f\x00")],
    "Clear": [("unknown", b"\xfa\x7f\x00")],
    "AssignVariables": [("assignments", b"\x7a\x00")],
}


@harness.attack("messages of 16 MB whose parsed form has a gigabyte, four at a time, under 256 MiB")
def parsed_many_times_their_size(attack):
  server = attack.server("--memory-limit-bytes", "256M")
  size, codes, slowest, before, grown = 16 * MEGABYTE, {}, 0, megabytes(server), 0
  with server.channel() as channel:
    for method, kinds in MANY_TIMES.items():
      for _, field in kinds:
        if field is None:  # Within a signature.
          inner = b"\x0a\x00" * (size // 2)
          data = b"\x2a\x01f\x32" + varint(len(inner)) + inner
        else:
          data = field * (size // len(field))
        started = time.monotonic()
        calls = [server_process.unary(channel, method).future(data, timeout=60) for _ in range(4)]
        while not all(call.done() for call in calls):
          grown = max(grown, megabytes(server) - before)
          time.sleep(0.02)
        for call in calls:
          codes[call.code().name] = codes.get(call.code().name, 0) + 1
          attack.check(call.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL),
                       "%s: %s" % (method, call.code()))
        slowest = max(slowest, time.monotonic() - started)
  attack.check(codes.get("RESOURCE_EXHAUSTED", 0) > 4, "answered with %s" % codes)
  # The limit, half as much for messages that are coming, and what the heap has not given back yet.
  attack.check(grown < 3 * 256, "the server grew by %.0f MB" % grown)
  attack.check(slowest < 30, "four of them took %.1f s" % slowest)
  return "%.0f MB, slowest four %.1f s, %s" % (grown, slowest, codes)


@harness.attack("a client_id of 50 MB, and a function with 100 outputs that are kept")
def client_id_for_each_output(attack):
  import tensorflow as tf
  server = attack.server()
  made = register(attack.client(server), "many", lambda x: [x + i for i in range(100)],
                  tf.TensorSpec([], tf.float32))
  request = calls_pb2.CallRequest(function_id=made.id, keep_outputs=True,
                                  client_id="x" * (50 * MEGABYTE))
  request.inputs.add().tensor.dtype = 1
  request.inputs[0].tensor.content = bytes(4)
  before = megabytes(server)
  with server.channel() as channel:
    call = server_process.unary(channel, "Call")
    code = call.future(request.SerializeToString(), timeout=60).code()
    chunk = tensors_pb2.WriteTensorRequest(client_id="x" * 200, dtype=4, dims=[1], content=b"x")
    write = channel.stream_unary(server_process.SERVICE + "WriteTensor").future(
        iter([chunk.SerializeToString()]), timeout=20).code()
  grown = megabytes(server) - before
  attack.check({code, write} == {grpc.StatusCode.INVALID_ARGUMENT},
               "ended with %s, %s" % (code, write))
  attack.check(grown < 400, "the server grew by %.0f MB" % grown)
  return "%.0f MB" % grown


@harness.attack("100 WriteTensor whose first message has a megabyte of unknown fields")
def heads_of_unknown_fields(attack):
  server = attack.server("--memory-limit-bytes", "1G")
  before, held = megabytes(server), threading.Event()
  first = tensors_pb2.WriteTensorRequest(dtype=4, dims=[9], content=b"x").SerializeToString() + \
      b"\xfa\x7f\x00" * (300 << 10)

  def chunks():
    yield first
    held.wait(60)

  with server.channel() as channel:
    write = channel.stream_unary(server_process.SERVICE + "WriteTensor")
    calls = [write.future(chunks(), timeout=60) for _ in range(100)]
    time.sleep(2)
    grown = megabytes(server) - before
    held.set()
    codes = {call.code() for call in calls}
  attack.check(codes == {grpc.StatusCode.INVALID_ARGUMENT}, "ended with %s" % codes)
  attack.check(grown < 300, "the server grew by %.0f MB" % grown)
  return "%.0f MB" % grown


@harness.attack("40,000 silent streams of calls over 10 connections, under 512 MiB")
def silent_streams(attack):
  server = attack.server("--memory-limit-bytes", "512M")
  before = megabytes(server)
  block = http2.request_headers("CallStream")
  with http2.connections(server.grpc, 10, http2.GREETING + http2.frame(http2.SETTINGS, 1)) as peers:
    for peer in peers:
      for first in range(1, 8000, 200):
        http2.send(peer, b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, block, stream)
                                  for stream in range(first, first + 200, 2)))
    deadline, open_streams, last = time.monotonic() + 20, 0, -1
    while open_streams != last and time.monotonic() < deadline:
      last = open_streams
      time.sleep(1)
      open_streams = next(int(float(line.split()[1]))
                          for line in server.get("/metrics")[1].splitlines()
                          if line.startswith("formwork_call_streams "))
    grown = megabytes(server) - before
    with server.channel() as channel:
      server_process.health(channel)
  attack.check(grown < 800, "the server grew by %.0f MB" % grown)
  return "%.0f MB for %d streams" % (grown, open_streams)
