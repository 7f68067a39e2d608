"""The connection: requests out, responses or formwork.Error back.

Calls go over CallStream, one stream for each thread that calls: on one machine that takes about
two thirds of the time of a unary RPC (measured with grpcio 1.85 against a C++ server: 165 to 196 us
for 265 us), because nothing is set up per call. All else is unary.
"""
import ipaddress
import queue
import threading
import time
import weakref

import grpc

from formwork import errors
from formwork.v1 import graph_service_pb2 as service_pb2

_SERVICE = "/formwork.v1.GraphService/"
_HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"  # A HealthCheckResponse with status SERVING.
_MAX_MESSAGE = 2**31 - 1
_ERROR_ROOM = 1 << 20  # Bytes of trailers: an error may have much to say.
_ROOM = (("formwork-error-room", str(_ERROR_ROOM - 2048)),)


def _options(target):
  options = [
      ("grpc.max_send_message_length", _MAX_MESSAGE),
      ("grpc.max_receive_message_length", _MAX_MESSAGE),
      ("grpc.max_metadata_size", _ERROR_ROOM),
      ("grpc.absolute_max_metadata_size", _ERROR_ROOM),
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
    self._stream_method = self._channel.stream_stream(_SERVICE + "CallStream")
    self._of_thread = threading.local()
    self._overdue = _Overdue()
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
      answer = found(message, timeout=self.timeout if timeout is None else timeout, metadata=_ROOM)
    except grpc.RpcError as e:
      raise self._failed(errors.from_rpc(e)) from None
    except ValueError as e:
      raise self._refused(e) from None
    self.epoch = answer.epoch
    return answer

  def call(self, data, timeout):
    """A serialized CallRequest for a serialized CallResponse, its errors included.

    The request carries the same `timeout` for the server, which keeps it; here it is a backstop. An
    interrupt (Ctrl-C) cancels the call on the server.
    """
    stream = getattr(self._of_thread, "stream", None)
    if stream is None or not stream.alive():
      if self._closed:
        raise errors.Error("CANCELLED", "the connection to %s is closed" % self.target)
      stream = self._of_thread.stream = CallStream(self._stream_method)
    self._overdue.watch(stream, timeout)
    try:
      return stream.exchange(data)
    except grpc.RpcError as e:
      if stream.expired:
        raise errors.Error("DEADLINE_EXCEEDED", "no answer within %g s" % timeout) from None
      raise self._failed(errors.from_rpc(e)) from None
    except BaseException:
      stream.cancel()
      raise
    finally:
      self._overdue.forget(stream)

  def close(self):
    self._closed = True
    self._overdue.stop()
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
  """Calls in the order sent, on one stream, and their answers. For one thread.

  Attributes:
    expired: an answer was so late that the stream was given up.
  """

  _END = object()

  def __init__(self, method):
    self.expired = False
    self._requests = queue.SimpleQueue()
    self._answers = method(iter(self._requests.get, self._END))
    # The thread that sends ends with the stream's owner.
    weakref.finalize(self, _finish, self._requests, self._END, self._answers)

  def alive(self):
    return self._answers.is_active()

  def exchange(self, data):
    """Sends a CallRequest and waits for its CallResponse. Errors: grpc.RpcError."""
    self._requests.put(data)
    try:
      return next(self._answers)
    except StopIteration:
      raise errors.Error("UNAVAILABLE", "the server ended the stream of calls") from None

  def expire(self):
    self.expired = True
    self.cancel()

  def cancel(self):
    _finish(self._requests, self._END, self._answers)


def _finish(requests, end, answers):
  requests.put(end)
  answers.cancel()


class _Overdue:
  """Gives up on streams whose answers are long overdue: the server hangs, or the network does."""

  _PERIOD = 0.25
  _GRACE = 0.75  # For the server's own answer, DEADLINE_EXCEEDED, to get here.

  def __init__(self):
    self._due = {}
    self._stopped = threading.Event()
    self._lock = threading.Lock()
    self._thread = None

  def watch(self, stream, timeout):
    self._due[stream] = time.monotonic() + timeout + self._GRACE
    if self._thread is None:
      with self._lock:
        if self._thread is None:
          self._thread = threading.Thread(target=self._run, name="formwork-overdue", daemon=True)
          self._thread.start()

  def forget(self, stream):
    self._due.pop(stream, None)

  def stop(self):
    self._stopped.set()

  def _run(self):
    while not self._stopped.wait(self._PERIOD):
      now = time.monotonic()
      for stream, due in list(self._due.items()):
        if now > due:
          stream.expire()
