"""Requests that are sent again, and clients that make up who they are."""
import time

import grpc
import harness
import numpy as np
import server_process
from formwork.v1 import calls_pb2
from formwork.v1 import variables_pb2


def value_of(channel, name):
  answer = server_process.unary(channel, "ReadVariables")(variables_pb2.ReadVariablesRequest(
      variables=[variables_pb2.VariableTarget(name=name)]).SerializeToString(), timeout=30)
  read = variables_pb2.ReadVariablesResponse.FromString(answer)
  return np.frombuffer(read.values[0].tensor.content, np.float32)


def assignment(client_id, sequence, name, value, **fields):
  request = variables_pb2.AssignVariablesRequest(client_id=client_id, sequence=sequence, **fields)
  one = request.assignments.add()
  one.variable.name = name
  one.value.tensor.dtype = 1
  one.value.tensor.dims.extend(value.shape)
  one.value.tensor.content = value.tobytes()
  return request.SerializeToString()


@harness.attack("60,000 clients and 60,000 numbers of one, none of which acknowledges")
def made_up_numbers(attack):
  server = attack.server()
  client = attack.client(server)
  client.variable("v", np.zeros([], np.float32))
  with server.channel() as channel:
    assign = server_process.unary(channel, "AssignVariables")

    def flood(count, head):
      waiting = []
      for i in range(1, count + 1):
        waiting.append(assign.future(head(i), timeout=60))
        if len(waiting) == 500:
          for one in waiting:
            one.result()
          waiting = []
      for one in waiting:
        one.result()

    value = np.float32(0)
    flood(2000, lambda i: assignment("warm", i, "v", value))
    before = server.resident_bytes()
    flood(60000, lambda i: assignment("%0120d" % i, 1, "v", value))
    flood(60000, lambda i: assignment("one", i, "v", value))
    grown = server.resident_bytes() - before
  attack.check(grown < 64 << 20, "the server grew by %d MB" % (grown >> 20))
  return "%.1f MB more" % (grown / 2**20)


@harness.attack("answers of 8 MB each, that nobody acknowledges")
def large_answers(attack):
  server = attack.server()
  client = attack.client(server)
  import tensorflow as tf
  client.variable("v", np.zeros([], np.float32))

  graph = tf.Graph()
  with graph.as_default():
    handle = tf.compat.v1.placeholder(tf.resource, [], name="v")
    add = tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.constant(1.), name="add")
    n = tf.compat.v1.placeholder(tf.int32, [1], name="n")
    with tf.control_dependencies([add]):
      tf.fill(n, 1., name="y")
  import formwork
  client.register("large", graph.as_graph_def().SerializeToString(),
                  [formwork.TensorSpec("n:0", "int32", [1])], ["y:0"],
                  captures={"v:0": client.variable("v", dtype="float32", shape=[])},
                  targets=["add"])
  with server.channel() as channel:
    call = server_process.unary(channel, "Call")

    def ask(client_id, sequence):
      request = calls_pb2.CallRequest(client_id=client_id, sequence=sequence,
                                      function_name="large")
      tensor = request.inputs.add().tensor
      tensor.dtype, tensor.content = 3, np.int32(2 << 20).tobytes()
      tensor.dims.append(1)
      return call(request.SerializeToString(), timeout=60)

    ask("first", 1)
    before = server.resident_bytes()
    for i in range(100):
      ask("client %d" % (i % 10), i + 1)
    grown = server.resident_bytes() - before
    again = ask("client 9", 100)
    attack.check(len(again) > 8 << 20, "the last answer is not there")
    count = value_of(channel, "v")[0]
    attack.check(count == 101, "the counter is %g" % count)
  attack.check(grown < 160 << 20, "the server grew by %d MB" % (grown >> 20))
  return "%.0f MB more" % (grown / 2**20)


@harness.attack("5,000 repeats of a call that does not end")
def repeats_of_an_endless_call(attack):
  server = attack.server()
  client = attack.client(server)
  import state
  v = client.variable("v", np.float32(1))
  held = state.holder(client, "v")
  request = calls_pb2.CallRequest(client_id="one", sequence=1, function_id=held.id)
  tensor = request.inputs.add().tensor
  tensor.dtype, tensor.content = 1, np.float32(0).tobytes()
  data = request.SerializeToString()
  with server.channel() as channel:
    call = server_process.unary(channel, "Call")
    first = call.future(data, timeout=60)
    time.sleep(.5)
    before = server.resident_bytes()
    waiting = [call.future(data, timeout=5) for _ in range(5000)]
    codes = {}
    for one in waiting:
      codes[one.code()] = codes.get(one.code(), 0) + 1
    attack.check(set(codes) <= {grpc.StatusCode.DEADLINE_EXCEEDED,
                                grpc.StatusCode.RESOURCE_EXHAUSTED}, "other codes: %s" % codes)
    # Others are served.
    attack.check(float(attack.client(server, "other").variable("w", np.float32(3)).read()) == 3,
                 "another namespace has another value")
    first.cancel()
    for _ in range(200):
      if float(v.read(timeout=10)) == 1:
        break
    grown = server.resident_bytes() - before
  attack.check(grown < 64 << 20, "the server grew by %d MB" % (grown >> 20))
  return "%d refused, %d late" % (codes.get(grpc.StatusCode.RESOURCE_EXHAUSTED, 0),
                                  codes.get(grpc.StatusCode.DEADLINE_EXCEEDED, 0))


@harness.attack("numbers of another's, of the past, of the end of all, and names that are too long")
def odd_numbers(attack):
  server = attack.server()
  client = attack.client(server)
  client.variable("v", np.zeros([2], np.float32))
  epoch = client.info().epoch
  with server.channel() as channel:
    assign = server_process.unary(channel, "AssignVariables")

    def ask(*args, **fields):
      try:
        assign(assignment(*args, **fields), timeout=10)
        return "OK"
      except grpc.RpcError as error:
        return error.code().name

    two, three = np.float32([2, 2]), np.float32([3, 3])
    most = 2**64 - 1
    said = [
        ask("a", 5, "v", two), ask("a", 5, "v", three), ask("b", 5, "v", two),
        ask("a", most, "v", two, acknowledged=most), ask("a", most, "v", two),
        ask("a", 1, "v", three), ask("a", 6, "v", two, acknowledged=2),
        ask("a" * 129, 1, "v", three), ask("\0\n\u202e", 1, "v", two),
        ask("c", 1, "v", two, first_sent_ms_ago=most, expected_epoch=epoch),
        ask("c", 2, "v", three, first_sent_ms_ago=1),
        ask("c", 2, "v", three, first_sent_ms_ago=1, expected_epoch=epoch + 1),
    ]
  expected = ["OK", "OK", "OK", "OK", "OK", "FAILED_PRECONDITION", "FAILED_PRECONDITION",
              "INVALID_ARGUMENT", "OK", "OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION"]
  attack.check(said == expected, "it said %s" % said)
  with server.channel() as channel:
    attack.check((value_of(channel, "v") == 2).all(), "a request was done that was refused")
  return "each has its answer"
