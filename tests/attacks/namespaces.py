"""Namespaces that a client makes up."""
import collections

import harness
import numpy as np
import server_process
from formwork import wire
from formwork.v1 import calls_pb2, types_pb2, variables_pb2

MEGABYTE = 1 << 20
COUNT = 10000


def _send(method, requests, in_flight=64):
  """Sends them all, some at once; returns how many were refused, by code."""
  codes, waiting = collections.Counter(), collections.deque()

  def take():
    error = waiting.popleft().exception()
    codes[error.code().name if error else "OK"] += 1

  for request in requests:
    waiting.append(method.future(request.SerializeToString(), timeout=30))
    if len(waiting) >= in_flight:
      take()
  while waiting:
    take()
  return codes


def _name(i):
  return "made-up-%06d-" % i + "x" * 80


@harness.attack("10,000 namespaces are asked for; 3 times 10,000 come and go with a variable")
def made_up(attack):
  server = attack.server()
  idle = server.resident_bytes()
  with server.channel() as channel:
    def unary(method):
      return server_process.unary(channel, method)

    asked = _send(unary("Call"), (calls_pb2.CallRequest(namespace=_name(i), function_name="f")
                              for i in range(COUNT)))
    asked += _send(unary("GetVariable"), (variables_pb2.GetVariableRequest(
        namespace=_name(i), variable=variables_pb2.VariableTarget(name="v")) for i in range(COUNT)))
    after_asking = server.resident_bytes()
    value = types_pb2.Value(tensor=wire.tensor_message(np.float32(1)))
    held = []
    for first in range(0, 3 * COUNT, COUNT):
      names = range(first, first + COUNT)
      made = _send(unary("CreateVariable"), (variables_pb2.CreateVariableRequest(
          namespace=_name(i), name="v", dtype=1, initial_value=value) for i in names))
      held.append(server.resident_bytes())
      gone = _send(unary("DeleteVariable"), (variables_pb2.DeleteVariableRequest(
          namespace=_name(i), variable=variables_pb2.VariableTarget(name="v")) for i in names))
      attack.check(made == gone == {"OK": COUNT}, "%s made, %s deleted" % (made, gone))
  metrics = len(server.get("/metrics")[1])
  attack.check(asked == {"NOT_FOUND": 2 * COUNT}, "asking was answered %s" % asked)
  attack.check(metrics < 100000, "/metrics has %d bytes" % metrics)
  # What the first round took serves the next ones.
  attack.check(held[-1] - held[0] < 16 * MEGABYTE, "it grows: %s" % held)
  return "%d MB for asking, %d and %d MB for the first and third %d, /metrics %d KB" % (
      *((bytes_now - idle) // MEGABYTE for bytes_now in (after_asking, held[0], held[-1])), COUNT,
      metrics >> 10)
