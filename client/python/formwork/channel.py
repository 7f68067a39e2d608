"""The connection: requests out, responses or formwork.Error back.

Calls go over CallStream, one stream for each thread that calls: on one machine that takes about
two thirds of the time of a unary RPC (measured with grpcio 1.85 against a C++ server: 165 to 196 us
for 265 us), because nothing is set up per call. All else is unary.
"""
import ipaddress
import itertools
import math
import numbers
import os
import queue
import sys
import threading
import time
import weakref

if "grpc" not in sys.modules:
  os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")  # Read when grpc is imported.

from google.protobuf import message_factory
import grpc
from grpc._cython import cygrpc

from formwork import attempts as attempts_lib
from formwork import errors
from formwork import progress
from formwork import python_functions
from formwork import reachability
from formwork import status
from formwork import tls as tls_lib
from formwork.v1 import graph_service_pb2

SERVICE = graph_service_pb2.DESCRIPTOR.services_by_name["GraphService"]
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_REQUEST = bytes([10, len(SERVICE.full_name)]) + SERVICE.full_name.encode()
SERVING = b"\x08\x01"  # A HealthCheckResponse with status SERVING.
MAX_MESSAGE = 2**31 - 1
RETRY_FOR = 5  # Seconds in which a request is sent again where nothing else is said.
_ERROR_ROOM = 1 << 20  # Bytes of trailers: an error may have much to say.
ROOM = (("formwork-error-room", str(_ERROR_ROOM - 2048)),)


def options(target):
  """The options of a grpc channel to `target`."""
  made = [
      ("grpc.max_send_message_length", MAX_MESSAGE),
      ("grpc.max_receive_message_length", MAX_MESSAGE),
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
    made.append(("grpc.enable_http_proxy", 0))
  return made


class Method:
  """One method of the service, as its descriptor has it.

  Attributes:
    path: "/formwork.v1.GraphService/Name".
    response: the class of its answers.
    changes: whether its requests say who sends them: those that change something.
  """

  def __init__(self, name):
    found = SERVICE.methods_by_name[name]
    self.path = "/%s/%s" % (SERVICE.full_name, name)
    self.response = message_factory.GetMessageClass(found.output_type)
    self.changes = "sequence" in found.input_type.fields_by_name

  def bind(self, channel):
    """The method of a grpc channel: messages in, messages out; the input may be a stream."""
    streamed = SERVICE.methods_by_name[self.path.rpartition("/")[2]].client_streaming
    return (channel.stream_unary if streamed else channel.unary_unary)(
        self.path, request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=self.response.FromString)


def check_arguments(target, timeout, tls):
  """Errors: TypeError, ValueError, OSError, where they are not what connect takes."""
  if not isinstance(target, str):
    raise TypeError("target: expected \"host:port\" or \"unix:/path\", got %r" % (target,))
  if not (isinstance(timeout, numbers.Real) and timeout > 0):
    raise ValueError("timeout: expected seconds above 0, got %r" % (timeout,))
  tls_lib.check(tls, target)


class Waiting:
  """What has come of the attempts to reach a server."""

  _PAUSE = 0.05  # Seconds between two attempts.
  _LOOK = 1.0  # Seconds between two looks at why there is no connection.

  def __init__(self, target, timeout, tls=None):
    self._target, self._timeout, self._tls = target, timeout, tls
    self._deadline = time.monotonic() + timeout
    self._look = 0.0
    self._why = "no answer"

  def left(self):
    """Seconds that are left for the next attempt. Errors: UNAVAILABLE when there are none."""
    left = self._deadline - time.monotonic()
    if left <= 0:
      raise self._failed("within %g s" % self._timeout)
    return left

  def failed(self, error):
    """After a grpc.RpcError. Returns seconds to wait before the next attempt.

    Errors: UNAVAILABLE at once where waiting cannot help.
    """
    code = error.code()
    if code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
      self._why = "it is a gRPC server, but no Formwork server: it does not know %s" % (
          SERVICE.full_name)
      raise self._failed("")
    if time.monotonic() >= self._look:
      self._why, certain = reachability.why_not(
          self._target, min(1.0, self._timeout), self._tls) or (
              error.details() or code.name, False)
      if certain:
        raise self._failed("")
      self._look = time.monotonic() + self._LOOK
    return self._pause()

  def not_serving(self):
    """After the answer that it does not serve. Returns seconds to wait."""
    self._why = "it is there, but does not serve: it is starting or draining"
    return self._pause()

  def _pause(self):
    return max(0.0, min(self._PAUSE, self._deadline - time.monotonic()))

  def _failed(self, when):
    return errors.Error("UNAVAILABLE", "no Formwork server is ready at %s%s: %s" % (
        self._target, when and " " + when, self._why))


class _OfThread(threading.local):
  """The CallStreams of one thread.

  Attributes:
    depth: how many functions it runs for calls of its own that wait for them.
    streams: {depth: CallStream}.
  """

  def __init__(self):
    self.depth, self.streams = 0, {}


class Channel:
  """One connection. Safe to use from many threads, and in the children that a process forks.

  Attributes:
    epoch: the server's, as the latest response had it; 0 before the first one.
    origin: an attempts.Origin.
    retry_for: seconds in which a request is sent again that did not reach the server.
    tls: a tls.Tls, or None.
  """

  def __init__(self, target, timeout, retry_for=RETRY_FOR, tls=None):
    check_arguments(target, timeout, tls)
    self.target = target
    self.timeout = timeout
    self.retry_for = retry_for
    self.tls = tls
    self.epoch = 0
    self._closed = False
    self._begin()
    forks.made(self)

  def _begin(self):
    """Everything that belongs to one process."""
    self.origin = attempts_lib.Origin()
    self._lock = threading.Lock()
    self._opened = None  # The grpc channel; made when it is needed.
    self._finalizer = None
    self._methods = {}
    self._of_thread = _OfThread()
    self._streams = weakref.WeakSet()  # Of all threads.
    self._overdue = _Overdue()
    self._posted = set()

  def after_fork(self):
    """In the child: what is there belongs to the parent."""
    if self._finalizer is not None:
      self._finalizer.detach()
    left = self._opened, self._methods, self._of_thread, self._overdue, self._posted
    self._begin()
    return left

  def _grpc(self):
    with self._lock:
      if self._opened is None:
        forks.check(self.target)
        self._opened = tls_lib.open_channel(grpc, self.target, self.tls, options(self.target))
        self._stream_method = self._opened.stream_stream("/%s/CallStream" % SERVICE.full_name)
        self._finalizer = weakref.finalize(self, self._opened.close)
      return self._opened

  def wait_until_ready(self):
    """Returns once the server says that it serves. Errors: UNAVAILABLE after `timeout`."""
    waiting = Waiting(self.target, self.timeout, self.tls)
    check = self._grpc().unary_unary(HEALTH_CHECK)
    while True:
      left = waiting.left()
      try:
        if check(HEALTH_REQUEST, timeout=left) == SERVING:
          return
        pause = waiting.not_serving()
      except grpc.RpcError as e:
        pause = waiting.failed(e)
      time.sleep(pause)

  def request(self, name, message, timeout=None, watch=None):
    """One request of the service, by the name of its method. watch: a progress.Watch."""
    return self._ask(self._method(name), name, message, timeout, watch=watch)

  def post(self, name, message):
    """As request(), without waiting for the answer: whether it succeeds nobody is told."""
    call, changes = self._method(name)
    number = self.origin.sign(message) if changes else 0
    posted, origin = self._posted, self.origin

    def ended(sent=None):
      posted.discard(sent)
      # Not before: a request that is overtaken by one that acknowledges it would be refused.
      if changes:
        origin.end(number)

    try:
      sent = call.future(message, timeout=self._limit(self.timeout), metadata=ROOM)
    except ValueError:  # Closed meanwhile.
      ended()
      return
    posted.add(sent)  # One that is collected is cancelled.
    sent.add_done_callback(ended)

  def upload(self, name, first, rest, timeout=None):
    """A request that is a stream of messages: the first one, and what `rest` yields."""
    return self._ask(self._method(name), name, first, timeout, rest)

  def _method(self, name):
    found = self._methods.get(name)
    if found is None:
      self._check_open()
      method = Method(name)
      found = self._methods[name] = method.bind(self._grpc()), method.changes
    return found

  def _ask(self, method, name, message, timeout, rest=None, watch=None):
    call, changes = method
    number = self.origin.sign(message) if changes else 0
    timeout = self.timeout if timeout is None else timeout
    attempts = attempts_lib.Attempts(self, timeout, attempts_lib.is_done_once(message))
    try:
      while True:
        try:
          sent = message if rest is None else itertools.chain((message,), rest)
          limits = {"timeout": self._limit(attempts.left()), "metadata": ROOM}
          if watch is None:
            answer = call(sent, **limits)
          else:
            answer = self._awaited(call.future(sent, **limits), watch)
          self.epoch = answer.epoch
          return answer
        except grpc.RpcError as e:
          error = self._failed(status.from_rpc(e))
        except ValueError as e:
          raise self._refused(e) from None
        # What is kept would be there twice.
        if rest is not None or getattr(message, "keep", False):
          raise error
        time.sleep(attempts.failed(error))
        attempts.mark(message)
    finally:
      if changes:
        self.origin.end(number)

  def _awaited(self, sent, watch):
    """The answer to what was sent; `watch` is told meanwhile how far it is."""
    try:
      while True:
        try:
          return sent.result(timeout=progress.LOOK_EVERY)
        except grpc.FutureTimeoutError:
          pass
        try:
          info = self.request("GetServerInfo", watch.question, progress.LOOK_TIMEOUT)
        except errors.Error:  # Who waits for the answer says what is wrong.
          continue
        watch.take(info)
    except BaseException:
      sent.cancel()
      raise

  def call(self, data, timeout, answer):
    """One call: a serialized CallRequest; answer.take(part) is given each serialized CallResponse.

    take returns whether that was the last part; answer.question is answered here, on this thread;
    answer.begin_again() is called where the parts come anew. answer.error, the call's, is raised here only where it is one of sending it. The request
    carries the same `timeout` for the server, which keeps it; here it is a backstop. An interrupt
    (Ctrl-C) cancels the call on the server.
    """
    attempts = attempts_lib.Attempts(self, timeout)
    sent = data
    while True:
      try:
        self._attempt(sent, attempts.left(), timeout, answer)
        error = answer.error and status.from_status(answer.error)
        if not attempts.is_about(error):
          return
      except errors.Error as e:
        error = e
      time.sleep(attempts.failed(error))
      answer.begin_again()
      sent = attempts.marked(data, attempts.left())

  def _attempt(self, data, left, timeout, answer):
    mine = self._of_thread
    stream = mine.streams.get(mine.depth)
    if stream is None or not stream.alive():
      self._check_open()
      self._grpc()
      stream = mine.streams[mine.depth] = CallStream(self._stream_method)
      with self._lock:
        self._streams.add(stream)
    self._overdue.watch(stream, left)
    try:
      stream.exchange(data, answer, self._answer)
    except grpc.RpcError as e:
      if stream.expired:
        raise errors.Error("DEADLINE_EXCEEDED", "no answer within %g s" % timeout) from None
      raise self._failed(status.from_rpc(e)) from None
    except BaseException:
      stream.cancel()
      raise
    finally:
      self._overdue.forget(stream)

  def _answer(self, question):
    """What a call's client answers; what the function calls goes over streams of its own."""
    self._of_thread.depth += 1
    try:
      return python_functions.answer(question)
    finally:
      self._of_thread.depth -= 1

  @staticmethod
  def _limit(timeout):
    return None if timeout == math.inf else timeout

  def close(self):
    """Ends what is under way; later requests fail."""
    self._closed = True
    self._overdue.stop()
    self._cancel_calls()
    with self._lock:
      streams = list(self._streams)
    for stream in streams:
      stream.cancel()  # Its thread ends with it.
    if self._finalizer is not None:
      self._finalizer()

  def _cancel_calls(self):
    """Cancels calls that are under way, while the server can tell that from a broken connection,
    over which it would let them go on for a while."""
    if not self._overdue.cancel_all():
      return
    try:
      # What cancels them goes over the connection before this does; the server has threads of its
      # own for either.
      self._opened.unary_unary(HEALTH_CHECK)(HEALTH_REQUEST, timeout=1)
      time.sleep(0.1)
    except (grpc.RpcError, ValueError):
      pass

  def _check_open(self):
    if self._closed:
      raise errors.Error("CANCELLED", "the connection to %s is closed" % self.target)

  def _failed(self, error):
    if error.epoch:
      self.epoch = error.epoch
    return error

  def _refused(self, e):
    self._check_open()
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
    self._answers = method(iter(self._requests.get, self._END), metadata=ROOM)
    # The thread that sends ends with the stream's owner.
    weakref.finalize(self, _finish, self._requests, self._END, self._answers).atexit = False

  def alive(self):
    return self._answers.is_active()

  def exchange(self, data, answer, reply):
    """Sends a CallRequest, and hands its CallResponses to answer.take until that has the last.

    reply(question): the serialized answer to answer.question. Errors: grpc.RpcError.
    """
    self._requests.put(data)
    try:
      while not answer.take(next(self._answers)):
        if answer.question is not None:
          self._requests.put(reply(answer.question))
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
  """Gives up on streams whose answers are long overdue: the server hangs, or the network does.

  It knows all on which a call is under way.
  """

  _PERIOD = 0.25
  _GRACE = 0.75  # For the server's own answer, DEADLINE_EXCEEDED, to get here.

  def __init__(self):
    self._due = {}
    self._stopped = threading.Event()
    self._lock = threading.Lock()
    self._thread = None
    weakref.finalize(self, self._stopped.set).atexit = False

  def watch(self, stream, timeout):
    self._due[stream] = time.monotonic() + timeout + self._GRACE
    if self._thread is None and timeout != math.inf:
      with self._lock:
        if self._thread is None:
          self._thread = threading.Thread(target=_watch, name="formwork-overdue", daemon=True,
                                          args=(weakref.ref(self), self._stopped, self._PERIOD))
          self._thread.start()

  def forget(self, stream):
    self._due.pop(stream, None)

  def stop(self):
    self._stopped.set()

  def cancel_all(self):
    """Cancels the calls that are under way; whether there were any."""
    streams = list(self._due)
    for stream in streams:
      stream.cancel()
    return bool(streams)

  def look(self):
    now = time.monotonic()
    for stream, due in list(self._due.items()):
      if now > due:
        stream.expire()


def _watch(overdue, stopped, period):
  while not stopped.wait(period):
    found = overdue()
    if found is None:
      return
    found.look()
    del found  # Or this thread would keep it.


class _Forks:
  """What becomes of the Channels of a process in the children that it forks.

  gRPC's threads do not go along. With its support for forks a child can make channels of its own;
  without, or where other threads were inside of gRPC at that moment, nothing of gRPC works there.
  """

  _ADVICE = (
      "gRPC does not work in this process, which was forked from one that was connected: connect "
      "only after forking, start processes with multiprocessing's \"spawn\" or \"forkserver\", or "
      "import formwork before grpc (or set GRPC_ENABLE_FORK_SUPPORT=1) and fork while no other "
      "thread is in a call")
  _PATIENCE = 5  # Seconds for the first connection of a forked child.

  def __init__(self):
    self._channels = weakref.WeakSet()
    self._used = False  # Channels were made in this process or in one that it was forked from.
    self._tried = True
    self._works = True
    self._left = []  # The parent's; closing it here would reach into threads that are not there.
    os.register_at_fork(after_in_child=self._forked)

  def made(self, channel):
    self._used = True
    self._channels.add(channel)

  def _forked(self):
    if not self._used:
      return
    self._works = getattr(cygrpc, "_GRPC_ENABLE_FORK_SUPPORT", False) and not getattr(
        cygrpc, "_fork_handler_failed", False)
    self._tried = False
    self._left.extend(channel.after_fork() for channel in list(self._channels))

  def check(self, target):
    """Errors: FAILED_PRECONDITION where gRPC does not work in this process."""
    if self._works and not self._tried:
      # Where it does not, nothing returns from it, whatever the deadline.
      thread = threading.Thread(target=self._try, args=(target,), daemon=True)
      thread.start()
      thread.join(self._PATIENCE)
      self._works, self._tried = not thread.is_alive(), True
    if not self._works:
      raise errors.Error("FAILED_PRECONDITION", self._ADVICE)

  def _try(self, target):
    with grpc.insecure_channel(target, options(target)) as channel:
      try:
        channel.unary_unary(HEALTH_CHECK)(HEALTH_REQUEST, timeout=self._PATIENCE / 2)
      except grpc.RpcError:
        pass


forks = _Forks()
