"""The low level for asyncio: the same classes, whose methods are awaited.

    async with await formwork.aio.connect("127.0.0.1:8500") as server:
      (y,) = await server.call("predict", [x])

A Server belongs to the event loop that it was made in. Cancelling a task cancels its request on the
server. What is traced by TensorFlow (function, push, pull) is for formwork.connect's Server alone.
"""
import asyncio
import itertools
import math

import grpc

from formwork import attempts as attempts_lib
from formwork import channel as channel_lib
from formwork import errors
from formwork import namespace as namespace_lib
from formwork import progress
from formwork import status
from formwork import tls as tls_lib
# Of a Server for asyncio their methods are awaited; aio.pyi has them so.
from formwork.concrete import ConcreteFunction
from formwork.data import Dataset
from formwork.data import Iterator
from formwork.kept_tensors import KeptTensor
from formwork.lookup import Table
from formwork.variables import Variable

__all__ = ["ConcreteFunction", "Dataset", "Iterator", "KeptTensor", "Server", "Table", "Variable",
           "connect"]


async def connect(target, namespace="default", timeout=60, retry_for=channel_lib.RETRY_FOR,
                  tls=None):
  """As formwork.connect: a Server, once it is ready."""
  channel = Channel(target, timeout, retry_for, tls)
  try:
    await channel.wait_until_ready()
  except BaseException:
    await channel.close()
    raise
  return Server(channel, namespace)


class Server(namespace_lib.Namespace):
  """A namespace of a server, for asyncio; an asynchronous context manager that closes it."""

  async def close(self):
    await self._channel.close()

  async def __aenter__(self):
    return self

  async def __aexit__(self, *unused):
    await self.close()

  async def _do(self, operation):
    try:
      asked = next(operation)
      while True:
        try:
          answer = await getattr(self._channel, asked[0])(*asked[1:])
        except BaseException as e:
          asked = operation.throw(e)
        else:
          asked = operation.send(answer)
    except StopIteration as done:
      return done.value


class Channel:
  """As channel.Channel, for one event loop. A call is an RPC of its own."""

  def __init__(self, target, timeout, retry_for=channel_lib.RETRY_FOR, tls=None):
    channel_lib.check_arguments(target, timeout, tls)
    channel_lib.forks.check(target)
    self.target = target
    self.timeout = timeout
    self.retry_for = retry_for
    self.tls = tls
    self.epoch = 0
    self.origin = attempts_lib.Origin()
    self._closed = None  # Why it cannot be used.
    self._channel = tls_lib.open_channel(grpc.aio, target, tls, channel_lib.options(target))
    self._methods = {}
    self._call = self._channel.unary_unary("/%s/Call" % channel_lib.SERVICE.full_name)
    channel_lib.forks.made(self)

  def after_fork(self):
    self._closed = errors.Error(
        "FAILED_PRECONDITION", "the connection to %s was made before the process was forked: "
        "connect in the child" % self.target)
    return self._channel

  async def wait_until_ready(self):
    waiting = channel_lib.Waiting(self.target, self.timeout, self.tls)
    check = self._channel.unary_unary(channel_lib.HEALTH_CHECK)
    while True:
      left = waiting.left()
      try:
        if await check(channel_lib.HEALTH_REQUEST, timeout=left) == channel_lib.SERVING:
          return
        pause = waiting.not_serving()
      except grpc.RpcError as e:
        # It looks at the server with blocking sockets.
        pause = await asyncio.to_thread(waiting.failed, e)
      await asyncio.sleep(pause)

  async def request(self, name, message, timeout=None, watch=None):
    return await self._ask(name, message, timeout, None, watch)

  async def upload(self, name, first, rest, timeout=None):
    return await self._ask(name, first, timeout, rest)

  async def _ask(self, name, message, timeout, rest, watch=None):
    self._check_open()
    if name not in self._methods:
      method = channel_lib.Method(name)
      self._methods[name] = method.bind(self._channel), method.changes
    call, changes = self._methods[name]
    number = self.origin.sign(message) if changes else 0
    attempts = attempts_lib.Attempts(self, self._limit(timeout),
                                     attempts_lib.is_done_once(message))
    try:
      while True:
        try:
          sent = call(message if rest is None else itertools.chain((message,), rest),
                      **_limits(attempts.left()))
          answer = await (sent if watch is None else self._awaited(sent, watch))
          self.epoch = answer.epoch
          return answer
        except grpc.RpcError as e:
          error = self._failed(e)
        # What is kept would be there twice.
        if rest is not None or getattr(message, "keep", False):
          raise error
        await asyncio.sleep(attempts.failed(error))
        attempts.mark(message)
    finally:
      if changes:
        self.origin.end(number)

  async def _awaited(self, sent, watch):
    answer = asyncio.ensure_future(sent)
    try:
      while not (await asyncio.wait([answer], timeout=progress.LOOK_EVERY))[0]:
        try:
          info = await self.request("GetServerInfo", watch.question, progress.LOOK_TIMEOUT)
        except errors.Error:  # Who waits for the answer says what is wrong.
          continue
        watch.take(info)
    except BaseException:
      answer.cancel()
      raise
    return answer.result()

  async def call(self, data, timeout, answer):
    self._check_open()
    attempts = attempts_lib.Attempts(self, self._limit(timeout))
    sent = data
    while True:
      try:
        answer.take(await self._call(sent, **_limits(attempts.left())))
        return
      except grpc.RpcError as e:
        error = self._failed(e)
      await asyncio.sleep(attempts.failed(error))
      sent = attempts.marked(data, attempts.left())

  async def close(self):
    self._closed = errors.Error("CANCELLED", "the connection to %s is closed" % self.target)
    await self._channel.close()

  def _limit(self, timeout):
    return self.timeout if timeout is None else timeout

  def _check_open(self):
    if self._closed is not None:
      raise self._closed

  def _failed(self, rpc_error):
    self._check_open()
    error = status.from_rpc(rpc_error)
    self.epoch = error.epoch or self.epoch
    return error


def _limits(timeout):
  return {"timeout": None if timeout == math.inf else timeout, "metadata": channel_lib.ROOM}
