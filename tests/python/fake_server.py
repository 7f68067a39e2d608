"""A stand-in for formwork-server: the service in Python, calls run by TensorFlow.

For the client's unit tests alone: what they look at is what the client sends and what it makes of
the answers. It knows no subtyping beyond shapes and prints nothing.
"""
import concurrent.futures
import hashlib
import itertools
import threading
import time

import grpc
import numpy as np
import tensorflow as tf

from formwork import types
from formwork import wire
from formwork.v1 import graph_service_pb2 as pb
from formwork.v1 import types_pb2


class Failure(Exception):

  def __init__(self, code, message, **details):
    super().__init__(message)
    self.code, self.message, self.details = code, message, pb.ErrorDetails(**details)


def _to_tf(tensor):
  return tf.constant(wire.from_message(tensor), tf.as_dtype(tensor.dtype))


def _to_message(t):
  value = t.numpy()
  return wire.tensor_message(np.asarray(value, object) if t.dtype == tf.string else value)


def _make_names_unique(graph, number):
  """TensorFlow has one function library for the whole process."""
  names = {f.signature.name: "%s_of_%d" % (f.signature.name, number)
           for f in graph.library.function}
  for f in graph.library.function:
    f.signature.name = names[f.signature.name]
  for nodes in [graph.node] + [f.node_def for f in graph.library.function]:
    for node in nodes:
      node.op = names.get(node.op, node.op)
      for attr in node.attr.values():
        for func in [attr.func] + list(attr.list.func):
          if func.name:
            func.name = names[func.name]


class _Function:

  def __init__(self, function_id, request, graph_def, fake):
    self.id, self.request, self.calls = function_id, request, 0
    self.info = pb.ConcreteFunctionInfo(
        id=function_id, name=request.name, signature=request.signature, inputs=request.inputs,
        outputs=[types_pb2.TensorSpec(name=o) for o in request.outputs],
        pretty_signature=request.pretty_signature)
    graph = tf.compat.v1.GraphDef.FromString(graph_def)
    _make_names_unique(graph, function_id)
    constants = {n.name for n in graph.node if n.op == "Const"}
    self.bound = [c for c in request.captures if c.tensor.split(":")[0] not in constants]
    wrapped = tf.compat.v1.wrap_function(
        lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    g = wrapped.graph
    feeds = [g.get_tensor_by_name(s.name) for s in request.inputs]
    feeds += [g.get_tensor_by_name(c.tensor) for c in self.bound]
    fetches = [g.get_tensor_by_name(o) for o in request.outputs]
    targets = [g.get_operation_by_name(t) for t in request.targets]
    self.run = wrapped.prune(feeds, fetches + targets)
    self.captured = [fake.value(c.value) for c in self.bound]

  def takes(self, values):
    specs = self.request.inputs
    return len(specs) == len(values) and all(
        tf.as_dtype(s.dtype) == v.dtype and
        tf.TensorShape(types.shape_list(s.shape)).is_compatible_with(v.shape)
        for s, v in zip(specs, values))


class FakeServer:
  """Serves on `target` until stop(). `log` has the requests, oldest first."""

  def __init__(self):
    self.log, self.hang = [], threading.Event()
    self.cancelled = threading.Event()
    self._lock = threading.RLock()
    self._ids = itertools.count(1)
    self.restart()
    self._grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
    self._grpc.add_generic_rpc_handlers((_Handler(self),))
    self.target = "127.0.0.1:%d" % self._grpc.add_insecure_port("127.0.0.1:0")
    self._grpc.start()

  def stop(self):
    self._grpc.stop(None)

  def restart(self):
    """Forgets everything, as a server that starts anew."""
    self.epoch = next(self._ids) + 1000
    self.functions, self.variables, self.graphs, self.kept = {}, {}, {}, {}

  def evict(self):
    self.functions.clear()

  def methods(self):
    return [type(r).__name__[:-len("Request")] for r in self.log]

  # ----------------------------------------------------------------------------------- requests
  def handle(self, request):
    self.log.append(request)
    with self._lock:
      answer = getattr(self, type(request).__name__[:-len("Request")])(request)
    answer.epoch = self.epoch
    return answer

  def Register(self, r):
    graph = r.graph_def or self.graphs.get(r.fingerprint)
    if not graph:
      raise Failure("NOT_FOUND", "no graph of that fingerprint")
    self.graphs[hashlib.sha256(graph).hexdigest()] = graph
    identity = pb.RegisterRequest()
    identity.CopyFrom(r)
    identity.graph_def, identity.retrace, identity.pretty_signature = b"", False, ""
    key = identity.SerializeToString(deterministic=True)
    for f in self.functions.values():
      if f.key == key:
        return pb.RegisterResponse(function=f.info, existed=True)
    for f in self.functions.values():
      if (f.request.namespace, f.request.name) == (r.namespace, r.name) and (
          f.request.signature == r.signature):
        raise Failure("ALREADY_EXISTS", "function '%s' has this signature already" % r.name)
    made = _Function(next(self._ids), r, graph, self)
    made.key = key
    self.functions[made.id] = made
    return pb.RegisterResponse(function=made.info)

  def Resolve(self, r):
    named = [f for f in self.functions.values() if f.request.name == r.name]
    if not named:
      raise Failure("NOT_FOUND", "no function '%s'" % r.name, unknown_function=True)
    for f in named:
      if f.request.signature == r.signature:
        return pb.ResolveResponse(function=f.info)
    raise Failure("NOT_FOUND", "no match", no_matching_signature=True, suggested=r.signature,
                  candidates=[f.request.signature for f in named])

  def Call(self, r):
    if self.hang.is_set():
      time.sleep(0.01)
    values = [self.value(v) for v in r.inputs]
    named = [f for f in self.functions.values()
             if (f.id == r.function_id if r.function_id else f.request.name == r.name)]
    if not named:
      raise Failure("NOT_FOUND", "no such function", unknown_function=True)
    fitting = [f for f in named if f.takes(values)]
    if not fitting:
      raise Failure("INVALID_ARGUMENT", "inputs do not fit")
    f = fitting[0]
    try:
      outputs = f.run(*values, *f.captured)
    except tf.errors.OpError as e:
      raise Failure(grpc.StatusCode[_CODE[e.error_code]].name, e.message) from None
    outputs = [o for o in (outputs or []) if o is not None][:len(r_outputs(f))]
    answer = pb.CallResponse(function_id=f.id)
    for o in outputs:
      if o.dtype in (tf.variant, tf.resource):
        answer.outputs.add().opaque.dtype = o.dtype.as_datatype_enum
      elif r.keep_outputs:
        kept = next(self._ids)
        self.kept[kept] = o
        answer.outputs.add(kept_tensor_id=kept)
      else:
        answer.outputs.add(tensor=_to_message(o))
    return answer

  def ListFunctions(self, r):
    return pb.ListFunctionsResponse(functions=[f.info for f in self.functions.values()])

  def Unregister(self, r):
    del self.functions[r.function_id]
    return pb.UnregisterResponse(removed=1)

  def CreateVariable(self, r):
    found = self.variables.get((r.namespace, r.name))
    shape = types.shape_list(r.shape)
    if found is None:
      v = tf.Variable(_to_tf(r.initial_value), shape=shape) if r.HasField("initial_value") else (
          tf.Variable(tf.zeros([d or 0 for d in shape], tf.as_dtype(r.dtype)), shape=shape))
      v.info = pb.VariableInfo(id=next(self._ids), name=r.name, dtype=r.dtype, shape=r.shape)
      self.variables[r.namespace, r.name] = v
      return pb.CreateVariableResponse(variable=v.info)
    if found.info.dtype != r.dtype or found.info.shape != r.shape:
      raise Failure("INVALID_ARGUMENT", "variable '%s' has another dtype or shape" % r.name)
    return pb.CreateVariableResponse(variable=found.info, existed=True)

  def variable(self, variable_id):
    for v in self.variables.values():
      if v.info.id == variable_id:
        return v
    raise Failure("NOT_FOUND", "no variable %d" % variable_id)

  def ReadVariable(self, r):
    v = self.variable(r.id)
    return pb.ReadVariableResponse(variable=v.info, value=_to_message(v.read_value()))

  def AssignVariable(self, r):
    v = self.variable(r.id)
    v.assign(_to_tf(r.value))
    return pb.AssignVariableResponse(variable=v.info)

  def ListVariables(self, r):
    return pb.ListVariablesResponse(variables=[v.info for v in self.variables.values()])

  def DeleteVariable(self, r):
    self.variables = {k: v for k, v in self.variables.items() if v.info.id != r.id}
    return pb.DeleteVariableResponse()

  def ReadTensor(self, r):
    return pb.ReadTensorResponse(value=_to_message(self.kept[r.id]))

  def ReleaseTensors(self, r):
    released = [self.kept.pop(i, None) for i in r.ids]
    return pb.ReleaseTensorsResponse(released=len(released) - released.count(None))

  def Clear(self, r):
    self.functions, self.variables, self.kept = {}, {}, {}
    return pb.ClearResponse()

  def value(self, v):
    kind = v.WhichOneof("kind")
    if kind == "tensor":
      return _to_tf(v.tensor)
    return self.kept[v.kept_tensor_id] if kind == "kept_tensor_id" else (
        self.variable(v.resource_id).handle)

  # ---------------------------------------------------------------------------------------- rpcs
  def unary(self, request, context):
    try:
      return self.handle(request)
    except Failure as e:
      e.details.epoch = self.epoch
      context.set_trailing_metadata((("formwork-error-bin", e.details.SerializeToString()),))
      context.abort(grpc.StatusCode[e.code], e.message)

  def stream(self, requests, context):
    context.add_callback(self.cancelled.set)
    for request in requests:
      while self.hang.is_set() and context.is_active():
        time.sleep(0.01)
      try:
        yield self.handle(request)
      except Failure as e:
        e.details.epoch = self.epoch
        yield pb.CallResponse(epoch=self.epoch, error=pb.Error(
            code=grpc.StatusCode[e.code].value[0], message=e.message, details=e.details))


def r_outputs(function):
  return function.request.outputs


_CODE = {code.value[0]: code.name for code in grpc.StatusCode}


class _Handler(grpc.GenericRpcHandler):

  def __init__(self, fake):
    self._fake = fake

  def service(self, details):
    if not details.method.startswith("/formwork.v1.GraphService/"):
      return None
    method = details.method.rpartition("/")[2]
    if method == "CallStream":
      return grpc.stream_stream_rpc_method_handler(
          self._fake.stream, pb.CallRequest.FromString, pb.CallResponse.SerializeToString)
    return grpc.unary_unary_rpc_method_handler(
        self._fake.unary, getattr(pb, method + "Request").FromString,
        getattr(pb, method + "Response").SerializeToString)
