"""The connection: requests out, responses or formwork.Error back.

Calls go as unary RPCs: in grpcio they are awaited on the caller's own thread, where a stream needs
a hop to a second one and back, and a deadline or an interrupt then ends exactly that call. A run
of calls whose results are not needed one by one goes through CallStream (Channel.stream).
"""
import ipaddress
import queue
import threading
import time

import grpc

from formwork import errors
from formwork.v1 import graph_service_pb2 as service_pb2

_SERVICE = "/formwork.v1.GraphService/"
_HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"  # A HealthCheckResponse with status SERVING.
_MAX_MESSAGE = 2**31 - 1


def _options(target):
  options = [
      ("grpc.max_send_message_length", _MAX_MESSAGE),
      ("grpc.max_receive_message_length", _MAX_MESSAGE),
      # A server that comes back is found again soon.
      ("grpc.initial_reconnect_backoff_ms", 100),
      ("grpc.min_reconnect_backoff_ms", 100),
      ("grpc.max_reconnect_backoff_ms", 2000),
  ]
  host = target.rpartition(":")[0].strip("[]")
  try:
    local = host == "localhost" or ipaddress.ip_address(host).is_loopback
  except ValueError:
    local = target.startswith("unix:")
  if local:
    options.append(("grpc.enable_http_proxy", 0))
  return options


class Channel:
  """One connection. Safe to use from many threads.

  Attributes:
    epoch: the server's, as the latest response had it; 0 before the first one.
  """

  def __init__(self, target, timeout):
    self.target = target
    self.timeout = timeout
    self.epoch = 0
    self._channel = grpc.insecure_channel(target, _options(target))
    self._methods = {}
    self._call = self._channel.unary_unary(_SERVICE + "Call")
    self._stream = self._channel.stream_stream(_SERVICE + "CallStream")
    self._closed = False

  def wait_until_ready(self):
    """Returns once the server says that it serves. Errors: UNAVAILABLE after `timeout`."""
    check = self._channel.unary_unary(_HEALTH_CHECK)
    deadline = time.monotonic() + self.timeout
    why = "does not serve"
    while True:
      left = deadline - time.monotonic()
      if left <= 0:
        raise errors.Error("UNAVAILABLE", "no server is ready at %s within %g s: %s" % (
            self.target, self.timeout, why))
      try:
        if check(b"", timeout=left, wait_for_ready=True) == _SERVING:
          return
      except grpc.RpcError as e:
        if e.code() is grpc.StatusCode.UNIMPLEMENTED:
          return
        why = e.details()
      time.sleep(min(0.05, max(0.0, left)))

  def request(self, method, message, timeout=None):
    """One request of the service, by the name of its method."""
    found = self._methods.get(method)
    if found is None:
      response = getattr(service_pb2, method + "Response")
      found = self._channel.unary_unary(
          _SERVICE + method, request_serializer=type(message).SerializeToString,
          response_deserializer=response.FromString)
      self._methods[method] = found
    try:
      answer = found(message, timeout=self.timeout if timeout is None else timeout)
    except grpc.RpcError as e:
      raise self._failed(errors.from_rpc(e)) from None
    except ValueError as e:
      raise self._refused(e) from None
    self.epoch = answer.epoch
    return answer

  def call(self, data, timeout=None):
    """Call: a serialized CallRequest for a serialized CallResponse."""
    try:
      return self._call(data, self.timeout if timeout is None else timeout)
    except grpc.RpcError as e:
      raise self._failed(errors.from_rpc(e)) from None
    except ValueError as e:
      raise self._refused(e) from None

  def stream(self):
    """A new CallStream. The caller closes it."""
    return CallStream(self._stream)

  def close(self):
    self._closed = True
    self._channel.close()

  def _failed(self, error):
    if error.details.epoch:
      self.epoch = error.details.epoch
    return error

  def _refused(self, e):
    if self._closed:
      return errors.Error("CANCELLED", "the connection to %s is closed" % self.target)
    return errors.Error("INTERNAL", str(e))


class CallStream:
  """Calls in the order sent, on one stream; answers in the same order. For one thread."""

  _END = object()

  def __init__(self, method):
    self._requests = queue.SimpleQueue()
    self._answers = method(iter(self._requests.get, self._END))
    self._lock = threading.Lock()

  def send(self, data):
    """Sends a serialized CallRequest; returns without waiting."""
    self._requests.put(data)

  def receive(self):
    """The next serialized CallResponse."""
    try:
      return next(self._answers)
    except grpc.RpcError as e:
      raise errors.from_rpc(e) from None
    except StopIteration:
      raise errors.Error("UNAVAILABLE", "the server ended the stream") from None

  def close(self):
    self._requests.put(self._END)
    self._answers.cancel()
