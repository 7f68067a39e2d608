"""ConcreteFunction: one signature of a function on the server, ready to be called."""
import hashlib
import sys
import threading

from formwork import dtypes
from formwork import errors
from formwork import resources
from formwork import types
from formwork import wire
from formwork.v1 import graph_service_pb2 as service_pb2

# A graph of at most this many bytes is sent at once; of a larger one its fingerprint goes first.
_SENT_AT_ONCE = 64 << 10
_KEEP = b"\x20\x01"  # CallRequest.keep_outputs


def print_to_stderr(text):
  sys.stderr.write(text)
  sys.stderr.flush()


def print_to_stdout(text):
  sys.stdout.write(text)
  sys.stdout.flush()


class ConcreteFunction:
  """A function of one signature on the server. Safe to call from many threads.

  If it was registered here and the server has lost it since (evicted, cleared, restarted), it is
  registered again, once, and the call goes on.

  Attributes:
    id: what the server calls it.
    name: the function's, in the server's namespace.
    signature: a FunctionType.
    inputs, outputs: TensorSpecs, in the order of arguments and results.
    existed: it was there already when it was registered here.
    pretty_signature, calls, bytes, captured_variables: as the server listed them.
  """

  def __init__(self, server, info, registration=None, existed=True):
    self._server = server
    self._registration = registration
    self._lock = threading.Lock()
    self._take(info, existed)

  def _take(self, info, existed):
    self.existed = existed
    self.id = info.id
    self.name = info.name
    self.signature = types.FunctionType(info.signature)
    self.inputs = [types.TensorSpec.from_message(m) for m in info.inputs]
    self.outputs = [types.TensorSpec.from_message(m) for m in info.outputs]
    self.pretty_signature = info.pretty_signature
    self.calls = info.calls
    self.bytes = info.bytes
    self.captured_variables = list(info.captured_variables)
    self._epoch = self._server._channel.epoch
    self._numbers = [m.dtype for m in info.inputs]
    self._what = ["%s: input %d (%s)" % (self.name, i, m.name) for i, m in enumerate(info.inputs)]
    self._head = (self._server._call_head + b"\x10" + wire.varint(self.id))

  def __call__(self, *inputs, timeout=None, on_print=None, keep=False):
    """Runs it: one value per entry of `inputs`, in order. Returns one per entry of `outputs`.

    on_print(text) is told what tf.print wrote, in order, before the call returns or raises.
    keep: the outputs stay on the server, as KeptTensors.
    """
    if len(inputs) != len(self._numbers):
      raise errors.invalid("%s: number of inputs differs: expected %d, got %d" % (
          self.name, len(self._numbers), len(inputs)))
    parts = [None]
    for i, value in enumerate(inputs):
      self._append(parts, i, value)
    outputs = self.run(parts, timeout, on_print, keep)
    return [self._server._output(v) for v in outputs]

  def _append(self, parts, i, value):
    number = self._numbers[i]
    if isinstance(value, (resources.Variable, resources.KeptTensor)) or number == dtypes.RESOURCE:
      wire.append_value(parts, resources.value_message(value, number, self._what[i]))
    else:
      wire.append_tensor(parts, *wire.to_array(value, number, self._what[i]))

  def run(self, parts, timeout=None, on_print=None, keep=False):
    """Runs it on encoded inputs; parts[0] is replaced. Returns what Response.outputs has."""
    for again in (False, True):
      known = self.id
      if self._epoch != self._server._channel.epoch:
        self._register_again(known)
      parts[0] = self._head + _KEEP if keep else self._head
      try:
        answer = self._server._call(parts, timeout, on_print)
      except errors.Error as e:
        if again or not errors.is_lost_function(e) or self._registration is None:
          raise
        self._register_again(known)
        continue
      if answer.epoch == self._epoch or again or self._registration is None:
        return answer.outputs
      # Another server answered, in which the ID may have meant another function.
      self._register_again(known)
    raise AssertionError("unreachable")

  def _register_again(self, lost_id):
    with self._lock:
      if self.id != lost_id or self._registration is None:
        return  # Another thread did it, or nobody can.
      info, existed = self._registration.send_again(self._server)
      self._take(info, existed)

  def delete(self, timeout=None):
    """Removes it from the server; it is not registered again."""
    self._registration = None
    self._server._request("Unregister", service_pb2.UnregisterRequest(
        namespace=self._server.namespace, function_id=self.id), timeout)

  def register_afresh(self):
    """Registers it anew in its own place: its random sequences start from the beginning."""
    with self._lock:
      try:
        self._server._request("Unregister", service_pb2.UnregisterRequest(
            namespace=self._server.namespace, function_id=self.id))
      except errors.Error as e:
        if e.code != "NOT_FOUND":
          raise
      info, existed = self._registration.send_again(self._server)
      self._take(info, existed)

  def __repr__(self):
    return "<formwork.ConcreteFunction %r id=%d>" % (self.name, self.id)


class Registration:
  """A RegisterRequest that can be sent again. The graph's bytes are kept beside it."""

  def __init__(self, request, graph_def):
    self.request = request
    self._graph_def = graph_def
    if graph_def:
      self.request.fingerprint = hashlib.sha256(graph_def).hexdigest()

  def send_again(self, server):
    """As send(), after the server has lost the function."""
    return self.send(server)

  def send(self, server, timeout=None):
    """(ConcreteFunctionInfo, existed). The graph is sent only where the server lacks it."""
    fingerprint = self.request.fingerprint
    sent = server._sent_graphs
    if len(self._graph_def) > _SENT_AT_ONCE or (fingerprint, server._channel.epoch) in sent:
      try:
        return self._result(server, server._request("Register", self.request, timeout))
      except errors.Error as e:
        if e.code != "NOT_FOUND" or isinstance(e, errors.NoMatchingSignature):
          raise
    whole = service_pb2.RegisterRequest()
    whole.CopyFrom(self.request)
    whole.graph_def = self._graph_def
    return self._result(server, server._request("Register", whole, timeout))

  def _result(self, server, answer):
    server._sent_graphs.add((self.request.fingerprint, answer.epoch))
    return answer.function, answer.existed
