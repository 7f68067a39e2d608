"""Bytes, numbers and messages that no client library would send."""
import random
import subprocess
import sys
import threading
import time

import grpc
import harness
import http2
import numpy as np
import server_graphs
import server_process
from formwork.v1 import calls_pb2, functions_pb2, server_pb2, tensors_pb2, variables_pb2

MEGABYTE = 1 << 20


def megabytes(server):
  return server.resident_bytes() / MEGABYTE


def health_seconds(server):
  started = time.monotonic()
  with server.channel() as channel:
    server_process.health(channel)
  return time.monotonic() - started


def varint(value):
  made = []
  while value > 127:
    made.append(value & 127 | 128)
    value >>= 7
  return bytes(made + [value])


def nested(depth, field, innermost=b""):
  """A message within a message within a message: the field of bytes at each level."""
  made = innermost
  for _ in range(depth):
    made = varint(field << 3 | 2) + varint(len(made)) + made
  return made


@harness.attack("2,000 connections of random bytes, half of them as frames of HTTP/2")
def random_bytes(attack):
  server = attack.server()
  before, chance = megabytes(server), random.Random(7)
  for i in range(2000):
    with http2.connect(server.grpc) as peer:
      if i % 2:
        http2.send(peer, http2.GREETING + b"".join(
            http2.frame(chance.randrange(12), chance.randrange(256),
                        chance.randbytes(chance.randrange(60)), chance.choice([0, 1, 3, 2**31 - 1]))
            for _ in range(20)))
      else:
        http2.send(peer, chance.randbytes(300))
  seconds, grown = health_seconds(server), megabytes(server) - before
  raw = [c for c in server.log_text() if not c.isprintable() and c != "\n"]
  attack.check(not raw, "bytes of peers are in the log: %r" % raw)
  attack.check(seconds < 2, "a health check took %.1f s" % seconds)
  attack.check(grown < 100, "the server grew by %.0f MB" % grown)
  return "%.0f MB, health check %.0f ms" % (grown, 1000 * seconds)


@harness.attack("100 requests with metadata of 16 MB, and headers that never end")
def huge_metadata(attack):
  server = attack.server()
  before, grown = megabytes(server), 0
  block = http2.header(b"x-filler", b"y" * 16000)
  for _ in range(100):
    with http2.connect(server.grpc) as peer:
      http2.send(peer, http2.GREETING + http2.frame(
          http2.HEADERS, 0, http2.request_headers("Call"), 1))
      for _ in range(1000):
        if not http2.send(peer, http2.frame(http2.CONTINUATION, 0, block, 1)):
          break
      grown = max(grown, megabytes(server) - before)
  seconds = health_seconds(server)
  attack.check(seconds < 2, "a health check took %.1f s" % seconds)
  attack.check(grown < 400, "the server grew by %.0f MB" % grown)
  return "%.0f MB, health check %.0f ms" % (grown, 1000 * seconds)


# gRPC 1.51 works off all that one connection has sent before it turns to others, at about 0.2 ms of
# CPU time for each reset, and has no bound for them.
@harness.attack("5,000 streams that are opened and reset at once, then 20,000 empty ones")
def resets(attack):
  server = attack.server()
  before, slowest = megabytes(server), 0
  for kind, streams in (("resets", "5000"), ("empty", "20000")):
    # In a process of its own, so that it does not hold up those who ask.
    flood = subprocess.Popen([sys.executable, http2.__file__, server.grpc, kind, streams])
    attack.callback(flood.kill)
    while flood.poll() is None:
      slowest = max(slowest, health_seconds(server))
      time.sleep(0.1)
    attack.check(flood.returncode == 0, "the flood ended with %s" % flood.returncode)
  grown = megabytes(server) - before
  attack.check(slowest < 3, "a health check took %.1f s" % slowest)
  attack.check(grown < 300, "the server grew by %.0f MB" % grown)
  return "%.0f MB, slowest health check %.0f ms" % (grown, 1000 * slowest)


@harness.attack("500 messages that announce up to 4 GB and send four bytes")
def absurd_lengths(attack):
  server = attack.server()
  before = megabytes(server)
  lengths = [2**32 - 1, 2**31, 2**31 - 1, 2**30, 5]
  greeting = http2.GREETING + http2.frame(http2.HEADERS, http2.END_HEADERS,
                                          http2.request_headers("Call"), 1)
  with http2.connections(server.grpc, 500, greeting) as peers:
    for i, peer in enumerate(peers):
      http2.send(peer, http2.frame(http2.DATA, 0, http2.message(b"abcd", lengths[i % 5]), 1))
    time.sleep(1)
    grown, seconds = megabytes(server) - before, health_seconds(server)
  attack.check(seconds < 2, "a health check took %.1f s" % seconds)
  attack.check(grown < 100, "the server grew by %.0f MB" % grown)
  return "%.0f MB, health check %.0f ms" % (grown, 1000 * seconds)


def seeds(function):
  """A valid message of each unary method."""
  tensor = {"dtype": 1, "dims": [2], "content": b"12345678"}
  value = {"tensor": tensor}
  shape = {"dims": [2]}
  register = functions_pb2.RegisterRequest(
      name="f", graph_def=server_graphs._traced("identity")[0], outputs=["Identity:0"],
      inputs=[{"name": "x:0", "dtype": 1, "shape": shape}],
      captures=[{"tensor": "c:0", "value": value}])
  signature = {"parameters": [{"name": "x", "type": {"tuple": {"items": [
      {"tensor": {"dtype": 1, "shape": shape}}, {"literal": {"py": "int", "json": "1"}}]}}}]}
  return {
      "Call": calls_pb2.CallRequest(
          function_id=function.id, inputs=[value], keep_for={"seconds": 1}),
      "Register": register,
      "Resolve": functions_pb2.ResolveRequest(name="f", signature=signature),
      "ListFunctions": functions_pb2.ListFunctionsRequest(page_size=3, filter="*"),
      "DescribeFunction": functions_pb2.DescribeFunctionRequest(name="f"),
      "Unregister": functions_pb2.UnregisterRequest(function_name="f"),
      "CreateVariable": variables_pb2.CreateVariableRequest(
          name="v", dtype=1, shape=shape, initial_value=value),
      "GetVariable": variables_pb2.GetVariableRequest(variable={"name": "v"}),
      "ReadVariables": variables_pb2.ReadVariablesRequest(
          variables=[{"name": "v"}], range={"begin": 1, "count": 1}),
      "AssignVariables": variables_pb2.AssignVariablesRequest(
          assignments=[{"variable": {"name": "v"}, "value": value}]),
      "ListVariables": variables_pb2.ListVariablesRequest(page_size=3, page_token="MS92"),
      "DeleteVariable": variables_pb2.DeleteVariableRequest(variable={"name": "v"}),
      "ReadTensor": tensors_pb2.ReadTensorRequest(id=1, range={"begin": 1, "count": 1}),
      "ListTensors": tensors_pb2.ListTensorsRequest(owner="x"),
      "ReleaseTensors": tensors_pb2.ReleaseTensorsRequest(ids=[1, 2]),
      "GetServerInfo": server_pb2.GetServerInfoRequest(),
      "ListNamespaces": server_pb2.ListNamespacesRequest(page_size=3, filter="*a"),
      "Clear": server_pb2.ClearRequest(namespace="cleared"),
  }


def mutated(data, chance):
  data = bytearray(data)
  for _ in range(chance.randrange(1, 6)):
    at = chance.randrange(len(data) + 1)
    how = chance.randrange(5)
    if how == 0:
      data[at:at] = chance.randbytes(chance.randrange(1, 9))
    elif how == 1:
      del data[at:at + chance.randrange(1, 9)]
    elif how == 2:
      data[at:at + 1] = bytes([chance.choice([0, 1, 127, 128, 255])])
    elif how == 3:
      data[at:at] = b"\xff" * 9 + b"\x01"  # The largest varint.
    elif data:
      begin = chance.randrange(len(data))
      data[at:at] = data[begin:begin + chance.randrange(1, 20)]
  return bytes(data)


@harness.attack("17,000 valid messages with some bytes changed, to each unary method")
def mutations(attack):
  server = attack.server()
  function = server_graphs.register(attack.client(server), "identity")
  before, chance, slowest, codes = megabytes(server), random.Random(11), 0, {}
  with server.channel() as channel:
    for method, seed in seeds(function).items():
      call, seed = server_process.unary(channel, method), seed.SerializeToString()
      for _ in range(50):
        started = time.monotonic()
        asked = [call.future(mutated(seed, chance), timeout=30) for _ in range(20)]
        for one in asked:
          codes[one.code()] = codes.get(one.code(), 0) + 1
        slowest = max(slowest, time.monotonic() - started)
  grown = megabytes(server) - before
  bad = set(codes) & {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL,
                      grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN}
  attack.check(not bad, "answered with %s" % codes)
  attack.check(slowest < 10, "20 of them took %.1f s" % slowest)
  attack.check(grown < 200, "the server grew by %.0f MB" % grown)
  return "slowest 20 %.1f s, %.0f MB, %d OK" % (slowest, grown, codes.get(grpc.StatusCode.OK, 0))


@harness.attack(
    "types, graphs and unknown fields nested 100,000 deep; functions that call 20,000 deep")
def nesting(attack):
  from tensorflow.core.framework import graph_pb2
  server = attack.server()
  deep = 100_000

  def chain(length, recursive=False):
    graph = graph_pb2.GraphDef()
    for i in range(length):
      function = graph.library.function.add()
      function.signature.name = "f%d" % i
      function.signature.input_arg.add(name="x", type=1)
      function.signature.output_arg.add(name="y", type=1)
      last = i + 1 == length
      node = function.node_def.add(
          name="n", input=["x"],
          op="Identity" if last and not recursive else "StatefulPartitionedCall")
      function.ret["y"] = "n:output:0"
      if last and not recursive:
        node.attr["T"].type = 1
      else:
        node.attr["Tin"].list.type.append(1)
        node.attr["Tout"].list.type.append(1)
        node.attr["f"].func.name = "f%d" % (0 if last else i + 1)
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    y = graph.node.add(name="y", op="StatefulPartitionedCall", input=["x"])
    y.attr["Tin"].list.type.append(1)
    y.attr["Tout"].list.type.append(1)
    y.attr["f"].func.name = "f0"
    return functions_pb2.RegisterRequest(
        name="deep", graph_def=graph.SerializeToString(), outputs=["y:0"],
        inputs=[{"name": "x:0", "dtype": 1, "shape": {}}]).SerializeToString()

  def long_line(length):
    graph = graph_pb2.GraphDef()
    x = graph.node.add(name="n0", op="Placeholder")
    x.attr["dtype"].type = 1
    for i in range(1, length):
      node = graph.node.add(name="n%d" % i, op="Sin", input=["n%d" % (i - 1)])
      node.attr["T"].type = 1
    return functions_pb2.RegisterRequest(
        name="long", graph_def=graph.SerializeToString(), outputs=["n%d:0" % (length - 1)],
        inputs=[{"name": "n0:0", "dtype": 1, "shape": {}}]).SerializeToString()

  requests = [
      ("Resolve", b"\x2a\x01f" + nested(1, 6, nested(1, 1, nested(1, 4, nested(deep, 1))))),
      ("Register", b"\x2a\x01f" + nested(1, 6, nested(deep, 1))),  # A GraphDef's nodes.
      ("Register", b"\x2a\x01f" + nested(1, 6, nested(1, 2, nested(deep, 3)))),
      ("Register", b"\x2a\x01f" + nested(deep, 100)),
      ("Register", b"\x2a\x01f" + (b"\x03" * deep)),  # Groups that are opened.
      ("Call", b"\x32\x01f" + nested(deep, 15)),
      ("Call", b"\x32\x01f" + (b"\x7b" * deep)),
      ("Register", chain(20_000)),
      ("Register", chain(2, recursive=True)),
      ("Register", long_line(100_000)),
  ]
  slowest = 0
  with server.channel() as channel:
    for method, request in requests:
      started = time.monotonic()
      answer = server_process.unary(channel, method).future(request, timeout=60)
      code = answer.code()
      slowest = max(slowest, time.monotonic() - started)
      attack.check(code not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL),
                   "%s: %s %s" % (method, code, answer.details()))
      attack.check(slowest < 20, "%s took %.1f s" % (method, slowest))
  return "slowest %.1f s" % slowest


@harness.attack(
    "10,000 WriteTensor of 1 MB that are abandoned half-way, by cancelling and by going")
def abandoned_writes(attack):
  server = attack.server()
  first = tensors_pb2.WriteTensorRequest(
      dtype=4, dims=[2 * MEGABYTE], content=bytes(MEGABYTE)).SerializeToString()
  before = None
  for round in range(10):
    for _ in range(10):
      with server.channel() as channel:
        write = channel.stream_unary(server_process.SERVICE + "WriteTensor")
        ended = threading.Event()

        def chunks():
          yield first
          ended.wait(10)

        calls = [write.future(chunks(), timeout=20) for _ in range(100)]
        time.sleep(0.02 * (round % 3))
        if round % 2:
          for call in calls:
            call.cancel()
        ended.set()
    if round == 1:
      before = megabytes(server)  # What the allocator keeps for reuse is there.
  deadline = time.monotonic() + 10
  while megabytes(server) - before > 100 and time.monotonic() < deadline:
    time.sleep(0.2)
  grown = megabytes(server) - before
  held = [line for line in server.get("/metrics")[1].splitlines()
          if line.startswith("formwork_tensor_bytes ")][0].split()[1]
  attack.check(grown < 100, "the server grew by %.0f MB" % grown)
  attack.check(float(held) < MEGABYTE, "tensors of %s bytes are held" % held)
  return "%.0f MB, %s bytes of tensors" % (grown, held)


@harness.attack(
    "forged page tokens, ranges beyond any value, timeouts from -292 to 292,000,000,000 years")
def numbers(attack):
  server = attack.server()
  client = attack.client(server)
  function = server_graphs.register(client, "identity")
  client.variable("v", initial_value=np.zeros([4], np.float32))
  asked, most = 0, 2**64 - 1
  value = {"tensor": {"dtype": 1, "dims": [2], "content": b"12345678"}}
  requests = [("ListVariables", variables_pb2.ListVariablesRequest(page_token=token))
              for token in ["x", "/", "MS8", "LTEvdg==", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5L3Y=",
                            "A" * 100_000]]
  requests += [("ListFunctions", functions_pb2.ListFunctionsRequest(page_size=size, view=view))
               for size in (-2**31, -1, 2**31 - 1, 1) for view in (-1, 77)]
  requests += [("ListVariables", variables_pb2.ListVariablesRequest(filter="*a" * 20_000 + "b"))]
  requests += [("ReadVariables", variables_pb2.ReadVariablesRequest(
      variables=[{"name": "v"}], range={"begin": begin, "count": count}))
               for begin in (0, 1, 4, 5, 2**63, most) for count in (0, 4, 5, 2**63, most)]
  for seconds in (-2**63, -1, 0, 2**63 - 1):
    for nanos in (-2**31, 0, 2**31 - 1):
      time_to_live = {"seconds": seconds, "nanos": nanos}
      requests.append(("Call", calls_pb2.CallRequest(
          function_id=function.id, inputs=[value], timeout=time_to_live)))
      requests.append(("Call", calls_pb2.CallRequest(
          function_id=function.id, inputs=[value], keep_outputs=True, keep_for=time_to_live)))
  requests.append(("ListTensors", tensors_pb2.ListTensorsRequest()))
  for dims in ([-1], [2**63 - 1] * 3, [0, 2**63 - 1], [2**62, 4], [1] * 300):
    for dtype in (1, 7, 20, 21, 0, -1, 200, 2**31 - 1):
      tensor = {"dtype": dtype, "dims": dims, "content": b"12345678"}
      requests.append(("Call", calls_pb2.CallRequest(
          function_id=function.id, inputs=[{"tensor": tensor}])))
      requests.append(("CreateVariable", variables_pb2.CreateVariableRequest(
          name="w", dtype=dtype, shape={"dims": dims})))
  slowest = 0
  with server.channel() as channel:
    for method, request in requests:
      started = time.monotonic()
      answer = server_process.unary(channel, method).future(request.SerializeToString(), timeout=10)
      code = answer.code()
      slowest = max(slowest, time.monotonic() - started)
      asked += 1
      attack.check(code not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL),
                   "%s: %s %s" % (method, code, answer.details()))
    for timeout in ("0n", "1n", "99999999H", "-1S", "S", "9" * 100 + "S"):
      with http2.connect(server.grpc, timeout=10) as peer:
        block = http2.request_headers("Call", (b"grpc-timeout", timeout.encode()))
        peer.sendall(http2.GREETING + http2.frame(http2.HEADERS, http2.END_HEADERS, block, 1))
        http2.send(peer, http2.frame(http2.DATA, http2.END_STREAM, http2.message(b""), 1))
        peer.recv(4096)
        asked += 1
  attack.check(slowest < 5, "a request took %.1f s" % slowest)
  return "%d requests, the slowest %.0f ms" % (asked, 1000 * slowest)


@harness.attack("names that are no UTF-8, in every place of a Call and its answer in errors")
def not_utf8(attack):
  server = attack.server()
  server_graphs.register(attack.client(server), "identity")
  bad = b"\xff\xfe\xc3("
  requests = [b"\x32" + bytes([len(bad)]) + bad,            # The function's name.
              b"\x0a" + bytes([len(bad)]) + bad + b"\x28\x07",  # The namespace.
              b"\x12" + bytes([len(bad)]) + bad + b"\x28\x07\x38\x01"]
  with server.channel() as channel:
    for request in requests:
      answer = server_process.unary(channel, "Call").future(request, timeout=10)
      attack.check(answer.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT),
                   "%s: %s" % (answer.code(), answer.details()))
    call_stream = channel.stream_stream(server_process.SERVICE + "CallStream")
    stream = call_stream(iter(requests), timeout=10)
    codes = [calls_pb2.CallResponse.FromString(answer).error.code for answer in stream]
  server.get("/metrics")[1].encode()
  attack.check(set(codes) <= {3, 5} and len(codes) == 3, "answered with %s" % codes)
  return "%d refused" % (2 * len(requests))
