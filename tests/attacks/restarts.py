"""A client that knows a server's former life, against what others have in the new one."""
import grpc
import numpy as np

import formwork
import harness
import server_process
from formwork import channel as channel_lib
from formwork.v1 import calls_pb2
from formwork.v1 import functions_pb2
from formwork.v1 import tensors_pb2
from formwork.v1 import variables_pb2

_MANY = 8  # Of each kind, so that small numbers would meet.


class Life:
  """What one client makes on a server: variables, functions that add to them, kept tensors."""

  def __init__(self, client, value, prefix=""):
    import tensorflow as tf
    v = tf.Variable(np.zeros(3, np.float32))
    concrete = tf.function(lambda x: v.assign_add(x)).get_concrete_function(
        tf.TensorSpec([3], tf.float32))
    (_, placeholder), = concrete.graph.captures
    self.variables = [
        client.variable("%sv%d" % (prefix, i), initial_value=np.full(3, value + i, np.float32))
        for i in range(_MANY)]
    self.graph = dict(
        graph_def=concrete.graph.as_graph_def().SerializeToString(),
        inputs=[formwork.TensorSpec(concrete.inputs[0].name, "float32", [3])],
        outputs=[concrete.outputs[0].name])
    self.placeholder = placeholder.name
    self.functions = [self.register(client, "%sf%d" % (prefix, i), v)
                      for i, v in enumerate(self.variables)]
    self.kept = [f(np.zeros(3, np.float32), keep=True)[0] for f in self.functions]

  def register(self, client, name, variable):
    return client.register(name, captures={self.placeholder: variable}, **self.graph)

  def state(self, client):
    return ([v.tolist() for v in client.read(self.variables)],
            [k.read().tolist() for k in self.kept],
            sorted(f.name for f in client.functions()))


def _restart(attack):
  """(address, the new server's clients, their Lifes and states, the old client, its Life)."""
  first = attack.server(expect_end=True)
  port = first.grpc.rpartition(":")[2]
  old = attack.client(first, "mine")
  before = Life(old, 100)
  first.process.kill()
  first.process.wait()
  second = attack.server("--port", port)
  others = [attack.client(second, "theirs"), attack.client(second, "mine")]
  lives = [Life(others[0], 1000), Life(others[1], 2000, prefix="other/")]
  return second, others, lives, old, before


def _unharmed(attack, others, lives, states):
  for client, life, state in zip(others, lives, states):
    attack.check(life.state(client) == state, "what another client has was changed")


@harness.attack("the Python client goes on with what the server lost in a restart")
def python_client_after_a_restart(attack):
  _, others, lives, old, before = _restart(attack)
  states = [life.state(client) for client, life in zip(others, lives)]
  x = np.ones(3, np.float32)
  uses = 0
  for v, f, k in zip(before.variables, before.functions, before.kept):
    for use in (v.read, lambda: v.assign(x), v.delete, lambda: old.read([v]), lambda: f(x), k.read,
                lambda: old.call("f0", [k]), lambda: f(k),
                lambda: before.register(old, "again", v)):
      uses += 1
      try:
        got = use()
      except formwork.Error as e:
        attack.check(e.code == "NOT_FOUND", "code %s: %s" % (e.code, e.message))
        continue
      attack.check(False, "something of another client was used: %r" % (got,))
  _unharmed(attack, others, lives, states)
  return "%d uses refused" % uses


def _ask(channel, method, request):
  """The code of a request."""
  try:
    server_process.unary(channel, method)(request.SerializeToString(), timeout=20)
    return "OK"
  except grpc.RpcError as error:
    return error.code().name


def _raw(namespace, life, i, epoch):
  """(method, request) of everything that names something by ID."""
  variable, function, kept = life.variables[i].id, life.functions[i].id, life.kept[i].id
  where = {"namespace": namespace, "expected_epoch": epoch}
  target = variables_pb2.VariableTarget(id=variable)
  yield "GetVariable", variables_pb2.GetVariableRequest(variable=target, **where)
  yield "ReadVariables", variables_pb2.ReadVariablesRequest(variables=[target], **where)
  request = variables_pb2.AssignVariablesRequest(**where)
  request.assignments.add(variable=target).value.tensor.MergeFrom(
      formwork.wire.tensor_message(np.zeros(3, np.float32)))
  yield "AssignVariables", request
  yield "DeleteVariable", variables_pb2.DeleteVariableRequest(variable=target, **where)
  call = calls_pb2.CallRequest(function_id=function, **where)
  call.inputs.add().tensor.MergeFrom(formwork.wire.tensor_message(np.ones(3, np.float32)))
  yield "Call", call
  register = functions_pb2.RegisterRequest(
      name="raw", graph_def=life.graph["graph_def"], outputs=life.graph["outputs"],
      inputs=[spec.to_message() for spec in life.graph["inputs"]], **where)
  register.captures.add(tensor=life.placeholder).value.resource_id = variable
  yield "Register", register
  yield "ReadTensor", tensors_pb2.ReadTensorRequest(id=kept, **where)
  yield "Unregister", functions_pb2.UnregisterRequest(function_id=function, **where)


@harness.attack("raw IDs of the server's former life, with its epoch and with none")
def raw_ids_after_a_restart(attack):
  server, others, lives, _, before = _restart(attack)
  states = [life.state(client) for client, life in zip(others, lives)]
  now = others[0].info().epoch
  then = before.variables[0]._key[0]
  attack.check(now != then, "the epoch is the same")
  asked = 0
  with server.channel() as channel:
    for namespace in ("theirs", "mine"):
      for i in range(_MANY):
        for epoch, expected in ((then, "FAILED_PRECONDITION"), (0, "NOT_FOUND")):
          for method, request in _raw(namespace, before, i, epoch):
            asked += 1
            code = _ask(channel, method, request)
            attack.check(code == expected, "%s with epoch %d: %s" % (method, epoch, code))
          code = _ask(channel, "ReleaseTensors", tensors_pb2.ReleaseTensorsRequest(
              namespace=namespace, expected_epoch=epoch, ids=[before.kept[i].id]))
          attack.check(code == (expected if epoch else "OK"), "ReleaseTensors: %s" % code)
  _unharmed(attack, others, lives, states)
  ids = [x.id for life in lives for x in life.variables + life.functions + life.kept]
  attack.check(max(ids) < 2**53, "an ID of more than 53 bits: %d" % max(ids))
  return "%d requests refused; IDs below 2^%d" % (asked, max(ids).bit_length())
