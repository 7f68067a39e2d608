"""connect() and Server: a namespace of one Formwork server."""
from __future__ import annotations

import collections
import functools
import numbers
from typing import Any

from formwork import channel as channel_lib
from formwork import errors
from formwork import kept_tensors
from formwork import namespace as namespace_lib
from formwork import tls as tls_lib


def connect(target: str, namespace: str = "default", timeout: float = 60,
            on_restart: str = "raise", retry_for: float = channel_lib.RETRY_FOR,
            tls: tls_lib.Tls | None = None) -> Server:
  """A Server, once it is ready.

  Args:
    target: "host:port" or "unix:/path".
    namespace: where functions and variables live.
    timeout: seconds to wait for the server, and the default deadline of every request.
    retry_for: seconds in which a request is sent again that did not reach the server, or whose
      answer was lost with the connection; within its own timeout. The server does it once, however
      often it is sent. 0: it is never sent again.
    on_restart: what a call does whose tf.Variables the server has lost (restarted, or cleared by
      another process): "raise" an error that says which and how to go on, or "push" the values
      that they have here, with a warning. Functions without variables go on in either case.
    tls: how the connection is encrypted (formwork.Tls); None: not at all.
  Errors: UNAVAILABLE, with the reason, if no server is ready in time or waiting cannot help.
  """
  if on_restart not in ("raise", "push"):
    raise ValueError("on_restart: expected \"raise\" or \"push\", got %r" % (on_restart,))
  if not (isinstance(retry_for, numbers.Real) and retry_for >= 0):
    raise ValueError("retry_for: expected seconds, got %r" % (retry_for,))
  channel = channel_lib.Channel(target, timeout, retry_for, tls)
  try:
    channel.wait_until_ready()
  except BaseException:
    channel.close()
    raise
  return Server(channel, namespace, on_restart)


class Server(namespace_lib.Namespace):
  """A namespace of a server. Safe to use from many threads; a context manager that closes it."""

  def __init__(self, channel, namespace, on_restart="raise"):
    super().__init__(channel, namespace)
    self.on_restart = on_restart
    self._bindings = None  # tf.Variables and functions; made where TensorFlow is used.
    self._table_functions = {}  # {(what, a table's Type): ConcreteFunction}: table_types.py's.
    self._dropped = collections.deque()  # (the Origin, KeptTensor) that nobody here knows any more.

  def clear(self, timeout: float | None = None) -> None:
    """Removes all functions, variables, other resources and kept tensors of the namespace."""
    if self._bindings is not None:
      self._bindings.forget()
    super().clear(timeout)

  def close(self) -> None:
    """Ends the connection, and what is under way on it."""
    try:
      self._release_dropped(functools.partial(self._channel.request, timeout=1))
    except errors.Error:  # The server is not there any more.
      pass
    self._channel.close()

  def __deepcopy__(self, memo):
    return self

  def __reduce__(self):
    return connect, (self._channel.target, self.namespace, self._channel.timeout,
                     self.on_restart, self._channel.retry_for, self._channel.tls)

  def __enter__(self) -> Server:
    return self

  def __exit__(self, *unused):
    self.close()

  # ----------------------------------------------------------------------------- with TensorFlow
  def function(self, func=None, input_signature=None, *, reduce_retracing: bool = False,
               name: str | None = None, scope: str = "", timeout: float | None = None,
               atomic: bool = False, relaxed: bool = False, **options) -> Any:
    """As tf.function: traces here, runs on the server. Also a decorator without arguments.

    Args:
      func: a Python function, or what tf.function made of one.
      input_signature, reduce_retracing: as tf.function's; so are further options.
      name: of the function on the server; by default its qualified name.
      scope: put before the names of function and variables on the server.
      timeout: of its calls, in seconds; by default they have none. fn.with_timeout(seconds) has
        another one.
      atomic: each of its calls changes all that it changes of variables and tables, or, where it
        raises, nothing: as ConcreteFunction's. A gradient that is taken outside of it is a call of
        its own.
      relaxed: its calls compute forward and backward from a snapshot, side by side with others':
        as ConcreteFunction's.
    """
    from formwork import function as function_lib  # Imports TensorFlow.
    make = lambda f: function_lib.make(self, f, scope, name, timeout, atomic, relaxed,
                                       input_signature=input_signature,
                                       reduce_retracing=reduce_retracing, **options)
    return make if func is None else make(func)

  def push(self, variables=None, scope: str = "") -> None:
    """Copies the values of tf.Variables here to the server; creates what is not there.

    variables: a Keras model or optimizer, a tf.Module, a tf.Variable, or a structure of these; by
      default all that this process has on the server.
    """
    from formwork import state  # Imports TensorFlow.
    state.of(self).push(variables, scope)

  def pull(self, variables, scope: str = "") -> None:
    """Copies the values on the server to tf.Variables here. What is not there keeps its value.

    Errors: NOT_FOUND where none of them is on the server.
    """
    from formwork import state  # Imports TensorFlow.
    state.of(self).pull(variables, scope)

  # --------------------------------------------------------------------------- for this package
  def _do(self, operation):
    """Runs an operation (resources.py says what that is) and returns its result."""
    if self._dropped:
      self._release_dropped()
    try:
      asked = next(operation)
      while True:
        try:
          answer = getattr(self._channel, asked[0])(*asked[1:])
        except BaseException as e:
          asked = operation.throw(e)
        else:
          asked = operation.send(answer)
    except StopIteration as done:
      return done.value

  def _request(self, method, message, timeout=None):
    """One request by the name of its method."""
    return self._channel.request(method, message, timeout)

  def _drop(self, origin, kept):
    """A KeptTensor will not be used again. Can be called while garbage is collected.

    origin: the connection's, when this process got the tensor.
    """
    self._dropped.append((origin, kept))

  def _release_dropped(self, send=None):
    """Has the server forget what was dropped; by default without waiting for it."""
    send = send or self._channel.post
    ids = {}  # by epoch
    while self._dropped:
      origin, kept = self._dropped.popleft()
      if origin is self._channel.origin:  # Else it is the process's that this one was forked from.
        ids.setdefault(kept._key[0], []).append(kept.id)
    for epoch, some in ids.items():
      send("ReleaseTensors", kept_tensors.release_request(self, epoch, some))
