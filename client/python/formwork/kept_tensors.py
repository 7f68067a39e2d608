"""Values that stay on the server, or were sent there, under an ID: KeptTensors.

Where a value is too large for a message it travels in chunks, and as one of these.
"""
from __future__ import annotations

import logging
import math

import numpy as np

from formwork import dtypes
from formwork import errors
from formwork import resources
from formwork import wire
from formwork.v1 import tensors_pb2
from formwork.v1 import types_pb2

_LOG = logging.getLogger("formwork")
SURELY_FITS = 1 << 20  # Bytes of values that every server takes in one message, as far as is known.
_CHUNK = 8 << 20  # Bytes of a value in one message, where it goes in several.


class KeptTensor:
  """A value that stayed on the server, or was sent there; it can be an input of a later call.

  Attributes:
    id: never used again, while the server runs.
    dtype, shape, nbytes, owner, age, time_to_live: as Server.kept_tensors() found them; None where
      the object comes from a call. owner: the client_id of who made it; age: in seconds;
      time_to_live: seconds from its last use, or None for ever.
  """

  __slots__ = ("_server", "_key", "dtype", "shape", "nbytes", "owner", "age", "time_to_live",
               "__weakref__")
  dtype: str | None
  shape: list[int] | None
  nbytes: int | None
  owner: str | None
  age: float | None
  time_to_live: float | None

  def __init__(self, server, tensor_id, epoch, info=None):
    self._server = server
    self._key = epoch, tensor_id
    self.dtype = self.shape = self.nbytes = self.owner = self.age = self.time_to_live = None
    if info is not None:
      self.dtype = dtypes.name(info.dtype)
      self.shape = list(info.dims)
      self.nbytes = info.bytes
      self.owner = info.owner
      self.age = _seconds(info.age)
      if info.HasField("time_to_live"):
        self.time_to_live = _seconds(info.time_to_live)

  @property
  def id(self) -> int:
    return self._key[1]

  def read(self, timeout: float | None = None) -> np.ndarray:
    """The value, as a numpy array."""
    return self._server._do(reading(self._server, self, timeout))

  def release(self, timeout: float | None = None) -> None:
    """Lets the server forget it. One that is not there any more is no error."""
    return self._server._do(releasing(self._server, [self], timeout))

  def _value(self):
    return types_pb2.Value(kept_tensor_id=self.id)

  def _renew(self, epoch):
    raise errors.lost("kept tensor %d is lost: the server at %s was restarted since; make it again"
                      % (self.id, self._server._channel.target))
    yield  # A generator, as Variable's.

  def __repr__(self):
    return "<formwork.KeptTensor id=%d>" % self.id


# ------------------------------------------------------------------------------------- operations
def fitting(server, values, timeout):
  """(values that fit into one message, those of them that were made here).

  values: KeptTensors and encoded tensors; the largest of these become KeptTensors.
  """
  sizes = [0 if isinstance(v, KeptTensor) else len(v[2]) for v in values]
  values, made, total = list(values), [], sum(sizes)
  for i in sorted(range(len(values)), key=lambda i: -sizes[i]):
    if (yield from server._fits(total)):
      break
    values[i] = yield from keeping(server, values[i], None, timeout)
    made.append(values[i])
    total -= sizes[i]
  return values, made


def keeping(server, encoded, keep_for, timeout):
  """A KeptTensor of an encoded tensor, sent in chunks."""
  number, shape, data = encoded
  data = memoryview(data)
  chunk = SURELY_FITS if len(data) <= SURELY_FITS else (yield from _chunk(server))
  first = tensors_pb2.WriteTensorRequest(
      namespace=server.namespace, dtype=number, dims=shape, total_bytes=len(data),
      content=bytes(data[:chunk]))
  if keep_for is not None:
    set_duration(first.keep_for, keep_for)
  rest = (tensors_pb2.WriteTensorRequest(content=bytes(data[i:i + chunk]))
          for i in range(chunk, len(data), chunk))
  answer = yield "upload", "WriteTensor", first, rest, timeout
  return KeptTensor(server, answer.tensor.id, answer.epoch, answer.tensor)


def reading(server, kept, timeout):
  """The array of a KeptTensor, read in ranges where one message cannot hold it."""
  if (yield from server._fits(kept.nbytes or 0)):
    try:
      return (yield from _reading_in_ranges(server, kept, None, timeout))
    except errors.Error as e:
      if not is_too_large(e):
        raise
  return (yield from _reading_in_ranges(server, kept, (yield from _chunk(server)), timeout))


def _reading_in_ranges(server, kept, chunk, timeout):

  def ask(epoch):
    nonlocal chunk
    request = tensors_pb2.ReadTensorRequest(
        namespace=server.namespace, expected_epoch=epoch, id=kept.id)
    if chunk is None:
      return wire.from_message((yield "request", "ReadTensor", request, timeout).value)
    whole, done, step = None, 0, 1
    while whole is None or done < whole.size:
      request.range.begin, request.range.count = done, step
      try:
        answer = yield "request", "ReadTensor", request, timeout
      except errors.Error as e:
        if step == 1 or not is_too_large(e):
          raise
        chunk, step = chunk // 2, step // 2  # Strings, longer than those before.
        continue
      part = wire.from_message(answer.value, copy=False)
      if whole is None:
        whole = np.empty(math.prod(answer.whole_dims), part.dtype)
      whole[done:done + part.size] = part
      done += part.size
      step = min(whole.size - done, max(1, chunk * whole.size // (kept.nbytes or whole.nbytes)))
    return whole.reshape(tuple(answer.whole_dims))

  return (yield from resources.by_id(server, [kept], ask))


def _chunk(server):
  """Bytes of a value in one message, where it goes in several."""
  return _CHUNK if (yield from server._fits(_CHUNK)) else server._message_limit[1]


def releasing(server, kept, timeout):
  """Lets the server forget KeptTensors. Those that it has not any more are passed over."""

  def ask(epoch):
    yield "request", "ReleaseTensors", release_request(server, epoch, [k.id for k in kept]), timeout

  try:
    yield from resources.by_id(server, kept, ask)
  except errors.Error as e:
    if e.reason != "EPOCH_MISMATCH":  # The server that kept them is gone, and they are with it.
      raise


def release_request(server, epoch, ids):
  return tensors_pb2.ReleaseTensorsRequest(
      namespace=server.namespace, expected_epoch=epoch, ids=ids)


def dropping(server, kept):
  """As releasing, on the way out: where it fails they end with their time to live."""
  if kept:
    try:
      yield from releasing(server, kept, None)
    except errors.Error as e:
      _LOG.debug("formwork: kept tensors were not released: %s", e)


def listing(server, owner, timeout):
  """The KeptTensors of the namespace."""
  request = tensors_pb2.ListTensorsRequest(namespace=server.namespace, owner=owner)
  found = yield from resources.pages("ListTensors", request, timeout)
  return [KeptTensor(server, info.id, answer.epoch, info)
          for answer in found for info in answer.tensors]


# ---------------------------------------------------------------------------------------- values
def fill_value(message, value):
  """Makes an empty formwork.v1.Value that of a Resource, a KeptTensor or an encoded tensor."""
  if type(value) is tuple:
    wire.fill_tensor(message.tensor, value)
  else:
    message.CopyFrom(value._value())


def is_too_large(error):
  """Whether an answer was larger than a message: what it holds is to be read in ranges."""
  return error.code == "RESOURCE_EXHAUSTED" and not error.reason


def set_duration(message, seconds):
  nanos = int(seconds * 1e9)
  message.seconds, message.nanos = nanos // 10**9, nanos % 10**9


def _seconds(duration):
  return duration.seconds + duration.nanos / 1e9
