"""A stand-in for formwork-server: the service in Python, calls run by TensorFlow.

For the client's unit tests alone: what they look at is what the client sends and what it makes of
the answers. It knows no subtyping beyond shapes and prints nothing.
"""
import concurrent.futures
import fnmatch
import hashlib
import itertools
import threading
import time

from google.protobuf import message_factory
import grpc
import numpy as np
import tensorflow as tf

from formwork import channel
from formwork import types
from formwork import wire
from formwork.rpc import status_pb2
from formwork.v1 import calls_pb2
from formwork.v1 import errors_pb2
from formwork.v1 import functions_pb2
from formwork.v1 import server_pb2
from formwork.v1 import tensors_pb2
from formwork.v1 import types_pb2
from formwork.v1 import variables_pb2


class Failure(Exception):

  def __init__(self, code, message, reason="", **failure):
    super().__init__(message)
    self.code, self.message, self.reason = code, message, reason
    self.failure = errors_pb2.CallFailure(**failure)

  def status(self, epoch):
    """As a formwork.rpc.Status."""
    self.failure.epoch = epoch
    made = status_pb2.Status(code=grpc.StatusCode[self.code].value[0], message=self.message)
    for name, detail in (
        ("google.rpc.ErrorInfo", status_pb2.ErrorInfo(reason=self.reason, domain="formwork")),
        ("formwork.v1.CallFailure", self.failure)):
      made.details.add(type_url="type.googleapis.com/" + name, value=detail.SerializeToString())
    return made


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
    self.info = functions_pb2.FunctionInfo(
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
  """Serves on `target` until stop().

  Attributes:
    log: the requests, oldest first.
    message_bytes: the limit that it says it has.
    in_chunks: calls are answered in parts.
  """

  def __init__(self):
    self.log, self.hang = [], threading.Event()
    self.message_bytes, self.in_chunks = 0, False
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
      if getattr(request, "expected_epoch", 0) not in (0, self.epoch):
        raise Failure("FAILED_PRECONDITION", "the server was restarted", "EPOCH_MISMATCH")
      answer = getattr(self, type(request).__name__[:-len("Request")])(request)
    answer.epoch = self.epoch
    return answer

  def Register(self, r):
    graph = r.graph_def or self.graphs.get(r.fingerprint)
    if not graph:
      raise Failure("NOT_FOUND", "no graph of that fingerprint", "GRAPH_NOT_FOUND")
    self.graphs[hashlib.sha256(graph).hexdigest()] = graph
    identity = functions_pb2.RegisterRequest()
    identity.CopyFrom(r)
    for field in ("graph_def", "retrace", "pretty_signature", "client_id", "sequence",
                  "acknowledged", "first_sent_ms_ago"):
      identity.ClearField(field)
    key = identity.SerializeToString(deterministic=True)
    for f in self.functions.values():
      if f.key == key:
        return functions_pb2.RegisterResponse(function=f.info, existed=True)
    for f in self.functions.values():
      if (f.request.namespace, f.request.name) == (r.namespace, r.name) and (
          f.request.signature == r.signature):
        raise Failure("ALREADY_EXISTS", "function '%s' has this signature already" % r.name)
    made = _Function(next(self._ids), r, graph, self)
    made.key = key
    self.functions[made.id] = made
    return functions_pb2.RegisterResponse(function=made.info)

  def Resolve(self, r):
    named = [f for f in self.functions.values() if f.request.name == r.name]
    if not named:
      raise Failure("NOT_FOUND", "no function '%s'" % r.name, "FUNCTION_NOT_FOUND")
    for f in named:
      if f.request.signature == r.signature:
        return functions_pb2.ResolveResponse(function=f.info)
    raise Failure("NOT_FOUND", "no match", "NO_MATCHING_SIGNATURE", suggested=r.signature,
                  candidates=[f.request.signature for f in named])

  def Call(self, r):
    if self.hang.is_set():
      time.sleep(0.01)
    values = [self.value(v) for v in r.inputs]
    named = [f for f in self.functions.values()
             if (f.id == r.function_id if r.function_id else f.request.name == r.function_name)]
    if not named:
      raise Failure("NOT_FOUND", "no such function", "FUNCTION_NOT_FOUND")
    fitting = [f for f in named if f.takes(values)]
    if not fitting:
      raise Failure("INVALID_ARGUMENT", "inputs do not fit")
    f = fitting[0]
    try:
      outputs = f.run(*values, *f.captured)
    except tf.errors.OpError as e:
      raise Failure(grpc.StatusCode[_CODE[e.error_code]].name, e.message) from None
    outputs = [o for o in (outputs or []) if o is not None][:len(r_outputs(f))]
    answer = calls_pb2.CallResponse(function_id=f.id)
    for i, o in enumerate(outputs):
      if o.dtype in (tf.variant, tf.resource):
        answer.outputs.add().opaque.dtype = o.dtype.as_datatype_enum
      elif r.keep_outputs and i >= r.keep_from:
        answer.outputs.add(kept_tensor_id=self.keep(
            o, r.client_id, r.keep_for if r.HasField("keep_for") else None).id)
      else:
        answer.outputs.add(tensor=_to_message(o))
    return answer

  def ListFunctions(self, r):
    return functions_pb2.ListFunctionsResponse(functions=[f.info for f in self.functions.values()])

  def Unregister(self, r):
    del self.functions[r.function_id]
    return functions_pb2.UnregisterResponse(removed=1)

  def CreateVariable(self, r):
    found = self.variables.get((r.namespace, r.name))
    shape = types.shape_list(r.shape)
    if found is None:
      initial = self.value(r.initial_value) if r.HasField("initial_value") else (
          tf.zeros([d or 0 for d in shape], tf.as_dtype(r.dtype)))
      v = tf.Variable(initial, shape=shape)
      v.info = variables_pb2.VariableInfo(id=next(self._ids), name=r.name, dtype=r.dtype,
                                          shape=r.shape)
      self.variables[r.namespace, r.name] = v
      return variables_pb2.CreateVariableResponse(variable=v.info)
    if found.info.dtype != r.dtype or found.info.shape != r.shape:
      raise Failure("INVALID_ARGUMENT", "variable '%s' has another dtype or shape" % r.name)
    return variables_pb2.CreateVariableResponse(variable=found.info, existed=True)

  def variable(self, variable_id):
    for v in self.variables.values():
      if v.info.id == variable_id:
        return v
    raise Failure("NOT_FOUND", "no variable %d" % variable_id, "VARIABLE_NOT_FOUND")

  def targeted(self, r, target):
    if target.WhichOneof("variable") == "id":
      return self.variable(target.id)
    found = self.variables.get((r.namespace, target.name))
    if found is None:
      raise Failure("NOT_FOUND", "no variable '%s'" % target.name, "VARIABLE_NOT_FOUND")
    return found

  def GetVariable(self, r):
    return variables_pb2.GetVariableResponse(variable=self.targeted(r, r.variable).info)

  def ReadVariables(self, r):
    answer = variables_pb2.ReadVariablesResponse()
    for target in r.variables:
      v = self.targeted(r, target)
      value = v.read_value()
      answer.variables.add().CopyFrom(v.info)
      answer.variables[-1].bytes = len(_to_message(value).content)
      if r.keep:
        answer.values.add(kept_tensor_id=self.keep(value, r.client_id).id)
      else:
        answer.values.add(tensor=_to_message(value))
    return answer

  def AssignVariables(self, r):
    found = [(self.targeted(r, a.variable), self.value(a.value)) for a in r.assignments]
    for v, value in found:
      if not v.shape.is_compatible_with(value.shape) or v.dtype != value.dtype:
        raise Failure("INVALID_ARGUMENT", "another dtype or shape")
    for v, value in found:
      v.assign(value)
    return variables_pb2.AssignVariablesResponse(variables=[v.info for v, _ in found])

  def ListVariables(self, r):
    return variables_pb2.ListVariablesResponse(variables=[
        v.info for (namespace, name), v in self.variables.items()
        if fnmatch.fnmatchcase(name, r.filter or "*")])

  def DeleteVariable(self, r):
    gone = self.targeted(r, r.variable)
    self.variables = {k: v for k, v in self.variables.items() if v is not gone}
    return variables_pb2.DeleteVariableResponse(deleted=True)

  def keep(self, value, owner, keep_for=None):
    info = tensors_pb2.KeptTensorInfo(id=next(self._ids), dtype=value.dtype.as_datatype_enum,
                                      dims=value.shape, owner=owner, time_to_live=keep_for,
                                      bytes=len(_to_message(value).content))
    self.kept[info.id] = value, info
    return info

  def tensor(self, tensor_id):
    if tensor_id not in self.kept:
      raise Failure("NOT_FOUND", "no tensor %d" % tensor_id, "TENSOR_NOT_FOUND")
    return self.kept[tensor_id][0]

  def WriteTensor(self, requests):
    requests = list(requests)
    first = requests[0]
    whole = types_pb2.Tensor(dtype=first.dtype, dims=first.dims,
                             content=b"".join(r.content for r in requests))
    self.log.extend(requests)
    return tensors_pb2.WriteTensorResponse(epoch=self.epoch, tensor=self.keep(
        _to_tf(whole), first.client_id, first.keep_for if first.HasField("keep_for") else None))

  def ReadTensor(self, r):
    value = self.tensor(r.id)
    answer = tensors_pb2.ReadTensorResponse(whole_dims=value.shape)
    if r.HasField("range"):
      value = tf.reshape(value, [-1])[r.range.begin:r.range.begin + r.range.count]
    answer.value.CopyFrom(_to_message(value))
    return answer

  def ListTensors(self, r):
    """One on a page."""
    found = [info for _, info in self.kept.values() if r.owner in ("", info.owner)]
    place = int(r.page_token or 0)
    return tensors_pb2.ListTensorsResponse(
        tensors=found[place:place + 1],
        next_page_token=str(place + 1) if place + 1 < len(found) else "")

  def ReleaseTensors(self, r):
    released = [self.kept.pop(i, None) for i in r.ids]
    return tensors_pb2.ReleaseTensorsResponse(released=len(released) - released.count(None))

  def GetServerInfo(self, r):
    return server_pb2.GetServerInfoResponse(server=server_pb2.ServerInfo(
        version="stand-in", epoch=self.epoch, ops=["Add"], durability=server_pb2.DURABILITY_MEMORY,
        limits=server_pb2.ServerInfo.Limits(message_bytes=self.message_bytes)))

  def Clear(self, r):
    self.functions, self.variables, self.kept = {}, {}, {}
    return server_pb2.ClearResponse()

  def value(self, v):
    kind = v.WhichOneof("kind")
    if kind == "tensor":
      return _to_tf(v.tensor)
    return self.tensor(v.kept_tensor_id) if kind == "kept_tensor_id" else (
        self.variable(v.resource_id).handle)

  # ---------------------------------------------------------------------------------------- rpcs
  def unary(self, request, context):
    while self.hang.is_set() and context.is_active():
      time.sleep(0.01)
    try:
      return self.handle(request)
    except Failure as e:
      context.set_trailing_metadata((
          ("grpc-status-details-bin", e.status(self.epoch).SerializeToString()),))
      context.abort(grpc.StatusCode[e.code], e.message)

  def stream(self, requests, context):
    context.add_callback(self.cancelled.set)
    for request in requests:
      while self.hang.is_set() and context.is_active():
        time.sleep(0.01)
      try:
        answer = self.handle(request)
        yield from _parts(answer) if self.in_chunks else [answer]
      except Failure as e:
        yield calls_pb2.CallResponse(epoch=self.epoch, error=e.status(self.epoch))


def _parts(answer):
  """A CallResponse whose tensors come in chunks of 5 bytes."""
  for i, value in enumerate(answer.outputs):
    content = value.tensor.content
    for offset in range(0, len(content), 5):
      yield calls_pb2.CallResponse(epoch=answer.epoch, more=True, chunk=calls_pb2.OutputChunk(
          output=i, offset=offset, total_bytes=len(content), dtype=value.tensor.dtype,
          dims=value.tensor.dims, content=content[offset:offset + 5]))
    value.tensor.content = b""
  yield answer


def r_outputs(function):
  return function.request.outputs


_CODE = {code.value[0]: code.name for code in grpc.StatusCode}


class _Handler(grpc.GenericRpcHandler):

  def __init__(self, fake):
    self._fake = fake

  def service(self, details):
    if details.method == channel.HEALTH_CHECK:
      return grpc.unary_unary_rpc_method_handler(lambda request, context: channel.SERVING)
    service, _, method = details.method[1:].partition("/")
    if service != channel.SERVICE.full_name:
      return None
    described = channel.SERVICE.methods_by_name[method]
    decode = message_factory.GetMessageClass(described.input_type).FromString
    encode = message_factory.GetMessageClass(described.output_type).SerializeToString
    if method == "CallStream":
      return grpc.stream_stream_rpc_method_handler(self._fake.stream, decode, encode)
    if method == "WriteTensor":
      return grpc.stream_unary_rpc_method_handler(
          lambda requests, context: self._fake.WriteTensor(requests), decode, encode)
    return grpc.unary_unary_rpc_method_handler(self._fake.unary, decode, encode)
