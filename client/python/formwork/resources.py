"""What lives on the server and has an ID there: variables, tables and kept tensors.

An ID means something in one epoch of the server alone: each object here knows its own, and every
request that names it carries it. Where the server was restarted since, a resource is looked up by
its name once; a kept tensor is gone.

Operations are generators: they yield what they ask of the channel, (method of the channel, its
arguments …), are sent the answer, and return the result. Server._do runs one.
"""
from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from formwork import dtypes
from formwork import errors
from formwork import types
from formwork import wire
from formwork.v1 import server_pb2
from formwork.v1 import tensors_pb2
from formwork.v1 import types_pb2
from formwork.v1 import variables_pb2

_LOG = logging.getLogger("formwork")
INFO = server_pb2.GetServerInfoRequest()
SURELY_FITS = 1 << 20  # Bytes of values that every server takes in one message, as far as is known.
_CHUNK = 8 << 20  # Bytes of a value in one message, where it goes in several.


class Resource:
  """What lives on the server by a name and a stable ID. Safe to use from many threads."""

  __slots__ = ("name", "existed", "initialized", "version", "nbytes", "_server", "_key",
               "__weakref__")
  kind: str
  name: str
  existed: bool
  initialized: bool
  version: int
  nbytes: int

  def __init__(self, server, info, epoch, existed=True):
    self._server = server
    self.existed = existed
    self._update(info, epoch)

  def _update(self, info, epoch):
    self.name = info.name
    self._take_type(info)
    self._note(info)
    self._key = epoch, info.id

  def _note(self, info):
    self.initialized = info.initialized
    self.version = info.version
    self.nbytes = info.bytes

  @property
  def id(self) -> int:
    return self._key[1]

  def delete(self, timeout: float | None = None) -> None:
    """Removes it from the server. Errors: NOT_FOUND where it is not there."""
    return self._server._do(deleting(self, timeout))

  def _take_type(self, info):
    """Takes over what the server says of its type."""
    raise NotImplementedError

  def _type_text(self):
    raise NotImplementedError

  def _target(self):
    return variables_pb2.VariableTarget(id=self.id)

  def _value(self):
    return types_pb2.Value(resource_id=self.id)

  def _renew(self, epoch):
    """Looks it up by its name, in a server that was restarted since."""
    server = self._server
    request = variables_pb2.GetVariableRequest(namespace=server.namespace)
    request.variable.name = self.name
    try:
      answer = yield "request", "GetVariable", request
    except errors.Error as e:
      if e.code != "NOT_FOUND":
        raise
      raise errors.lost("%s '%s' and its value are lost: the server at %s was restarted since%s" % (
          self.kind, self.name, server._channel.target, self._how_to_make_it())) from None
    found = from_info(server, answer.variable, answer.epoch)
    if (found.kind, found._type_text()) != (self.kind, self._type_text()):
      raise errors.lost(
          "%s '%s' and its value are lost: the server at %s was restarted since, and the one "
          "of this name that is there now has another dtype or shape: %s" % (
              self.kind, self.name, server._channel.target, found._type_text()))
    _LOG.warning("formwork: the server at %s was restarted: %s '%s' is now the one of this "
                 "name that was made there since", server._channel.target, self.kind, self.name)
    self._update(answer.variable, answer.epoch)

  def _how_to_make_it(self):
    return ""


class Variable(Resource):
  """A variable on the server, by its stable ID. Safe to use from many threads.

  Attributes:
    id: never changes and is never used again, while the server runs.
    name: in the server's namespace.
    dtype: TensorFlow's name.
    shape: the declared one: a list with None where unknown, or None for unknown rank.
    existed: whether it was there before this object was made.
    initialized, version, nbytes: as the server said last.
  """

  __slots__ = ("dtype", "shape")
  kind = "variable"
  dtype: str
  shape: list[int | None] | None

  def _take_type(self, info):
    self.dtype = dtypes.name(info.dtype)
    self.shape = types.shape_list(info.shape)

  def _type_text(self):
    return "%s %s" % (self.dtype, self.shape)

  def read(self, timeout: float | None = None) -> np.ndarray:
    """The value, as a numpy array. Errors: FAILED_PRECONDITION while it has none."""
    return self._server._do(_first(reading(self._server, [self], timeout)))

  def assign(self, value: Any, timeout: float | None = None) -> None:
    """Sets the value. Errors: INVALID_ARGUMENT for another dtype or shape."""
    return self._server._do(assigning(self._server, {self: value}, timeout))

  def _how_to_make_it(self):
    return "; make it again: server.variable(%r, initial_value=…)" % self.name

  def __repr__(self):
    return "<formwork.Variable %r id=%d %s %s>" % (self.name, self.id, self.dtype, self.shape)


class Table(Resource):
  """A hash table on the server: a mutable one, or a static one, which is only read.

  Attributes:
    type: as the server writes it: "table string[] -> int64[]".
    default_value: what lookup gives for a key that is not there; None: zero, or an empty string.
  """

  __slots__ = ("type", "default_value")
  kind = "table"
  type: str
  default_value: Any

  def __init__(self, server, info, epoch, existed=True):
    self.default_value = None
    super().__init__(server, info, epoch, existed)

  def lookup(self, keys: Any, default_value: Any = None,
             timeout: float | None = None) -> np.ndarray:
    """The values of keys of any shape, one for each; default_value: one, or one for each key."""
    return self._server._do(_lookup().finding(self, keys, default_value, timeout))

  def insert(self, keys: Any, values: Any, timeout: float | None = None) -> None:
    """Sets the values of keys. Errors: UNIMPLEMENTED of a static table."""
    return self._server._do(_lookup().changing(self, "insert", [keys, values], timeout))

  def remove(self, keys: Any, timeout: float | None = None) -> None:
    """Removes keys; those that are not there are passed over. Errors: as insert."""
    return self._server._do(_lookup().changing(self, "remove", [keys], timeout))

  def export(self, timeout: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All keys, and their values, in no order."""
    return self._server._do(_lookup().exporting(self, timeout))

  def size(self, timeout: float | None = None) -> int:
    """How many keys it has."""
    return self._server._do(_lookup().sizing(self, timeout))

  def _take_type(self, info):
    self.type = info.type

  def _type_text(self):
    return self.type

  def __repr__(self):
    return "<formwork.Table %r id=%d %s>" % (self.name, self.id, self.type)


class Iterator(Resource):
  """A position in a Dataset, which moves on from call to call, whoever asks.

  Attributes:
    type: as the server writes it.
    element_spec: a TensorSpec for each component of an element; None where it is not known.
    calls_python: whether its elements may need Python functions of this process.
  """

  __slots__ = ("type", "element_spec", "calls_python")
  kind = "iterator"
  type: str
  element_spec: list[types.TensorSpec] | None
  calls_python: bool

  def __init__(self, server, info, epoch, existed=True):
    self.element_spec = None
    self.calls_python = False
    super().__init__(server, info, epoch, existed)

  def next(self, timeout: float | None = None) -> list[np.ndarray]:
    """The next element: a list of its components. Errors: OUT_OF_RANGE at the end."""
    return self._server._do(_data().taking(self, timeout))

  def _take_type(self, info):
    self.type = info.type

  def _type_text(self):
    return self.type

  def __repr__(self):
    return "<formwork.Iterator %r id=%d %s>" % (self.name, self.id, self.type)


def _lookup():
  from formwork import lookup  # It imports this.
  return lookup


def _data():
  from formwork import data  # It imports this.
  return data


def from_info(server, info, epoch, existed=True):
  """The Resource that a VariableInfo describes."""
  kind = Table if info.kind.endswith("table") else Iterator if info.kind == "iterator" else Variable
  return kind(server, info, epoch, existed)


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
    return self._server._do(_reading_kept(self._server, self, timeout))

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


class Dataset(KeptTensor):
  """A dataset on the server: a value there, until it is released.

  Attributes:
    element_spec: a TensorSpec for each component of an element.
    calls_python: whether they may need Python functions of this process.
  """

  __slots__ = ("element_spec", "calls_python")
  element_spec: list[types.TensorSpec]
  calls_python: bool

  def __init__(self, server, tensor_id, epoch, element_spec):
    super().__init__(server, tensor_id, epoch)
    self.dtype, self.shape = "variant", []
    self.element_spec = element_spec
    self.calls_python = False

  def __repr__(self):
    return "<formwork.Dataset id=%d>" % self.id


# ------------------------------------------------------------------------------------- operations
def by_id(server, owners, ask):
  """Runs the operation ask(epoch) on what has IDs, once more where the server was restarted."""
  for again in (False, True):
    if len({owner._key[0] for owner in owners}) > 1:
      yield from renew(owners, (yield "request", "GetServerInfo", INFO).epoch)
    try:
      return (yield from ask(owners[0]._key[0] if owners else 0))
    except errors.Error as e:
      if again or e.reason != "EPOCH_MISMATCH" or not e.epoch:
        raise named(e, owners)
      known = e.epoch
    yield from renew(owners, known)
  raise AssertionError("unreachable")


def named(error, owners):
  """The error, which says the name of a resource that the server knows by its ID alone."""
  for owner in owners:
    if error.reason == "VARIABLE_NOT_FOUND" and isinstance(owner, Resource) and (
        error.message.endswith("id=%d" % owner.id)):
      error.message = "%s '%s' was deleted: %s" % (owner.kind, owner.name, error.message)
      error.args = (error.message,)
  return error


def renew(owners, epoch):
  """Looks up again what is of another epoch than the server's."""
  for owner in owners:
    if owner._key[0] != epoch:
      yield from owner._renew(epoch)


def deleting(resource, timeout):
  server = resource._server
  return by_id(server, [resource], lambda epoch: _ask(
      "DeleteVariable", variables_pb2.DeleteVariableRequest(
          namespace=server.namespace, expected_epoch=epoch, variable=resource._target()), timeout,
      lambda answer: None))


def belongs(server, value, what):
  """Checks that a Resource or KeptTensor is of this server and namespace."""
  other = value._server
  if other is not server and (other.namespace, other._channel.target) != (
      server.namespace, server._channel.target):
    raise errors.invalid("%s: %r is of %r, the call goes to %r" % (what, value, other, server))


def _ask(method, message, timeout, result):
  return result((yield "request", method, message, timeout))


def _first(operation):
  return (yield from operation)[0]


def reading(server, variables, timeout):
  """The values of Variables, as one snapshot."""
  for v in variables:
    belongs(server, v, "read")
  keep = not (yield from server._fits(sum(_static_bytes(v) for v in variables)))
  try:
    return (yield from _reading(server, variables, keep, timeout))
  except errors.Error as e:
    if keep or not _too_large(e):
      raise
  return (yield from _reading(server, variables, True, timeout))


def _too_large(error):
  """Whether an answer was larger than a message: what it holds is to be read in ranges."""
  return error.code == "RESOURCE_EXHAUSTED" and not error.reason


def _reading(server, variables, keep, timeout):

  def ask(epoch):
    request = variables_pb2.ReadVariablesRequest(
        namespace=server.namespace, expected_epoch=epoch, keep=keep,
        variables=[v._target() for v in variables])
    answer = yield "request", "ReadVariables", request, timeout
    for v, info in zip(variables, answer.variables):
      v._note(info)
    if not keep:
      return [wire.from_message(value.tensor) for value in answer.values]
    kept = [KeptTensor(server, value.kept_tensor_id, answer.epoch) for value in answer.values]
    try:
      values = []
      for one, info in zip(kept, answer.variables):
        one.nbytes = info.bytes
        values.append((yield from _reading_kept(server, one, timeout)))
      return values
    finally:
      yield from dropping(server, kept)

  return (yield from by_id(server, variables, ask))


def assigning(server, values, timeout):
  """Sets {Variable: value}: all of them, or none."""
  variables, given = list(values), []
  for v, value in values.items():
    belongs(server, v, "assign")
    given.append(value if isinstance(value, KeptTensor) else wire.encoded(
        value, dtypes.number(v.dtype), "variable '%s'" % v.name))
  sent, made = yield from fitting(server, given, timeout)

  def ask(epoch):
    request = variables_pb2.AssignVariablesRequest(
        namespace=server.namespace, expected_epoch=epoch)
    for v, one in zip(variables, sent):
      fill_value(request.assignments.add(variable=v._target()).value, one)
    answer = yield "request", "AssignVariables", request, timeout
    for v, info in zip(variables, answer.variables):
      v._note(info)

  try:
    yield from by_id(server, variables + [s for s in sent if isinstance(s, KeptTensor)], ask)
  finally:
    yield from dropping(server, made)


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


def _reading_kept(server, kept, timeout):
  """The array of a KeptTensor, read in ranges where one message cannot hold it."""
  if (yield from server._fits(kept.nbytes or 0)):
    try:
      return (yield from _reading_in_ranges(server, kept, None, timeout))
    except errors.Error as e:
      if not _too_large(e):
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
        if step == 1 or not _too_large(e):
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

  return (yield from by_id(server, [kept], ask))


def _chunk(server):
  """Bytes of a value in one message, where it goes in several."""
  return _CHUNK if (yield from server._fits(_CHUNK)) else server._message_limit[1]


def releasing(server, kept, timeout):
  """Lets the server forget KeptTensors. Those that it has not any more are passed over."""

  def ask(epoch):
    yield "request", "ReleaseTensors", release_request(server, epoch, [k.id for k in kept]), timeout

  try:
    yield from by_id(server, kept, ask)
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


def listing_kept(server, owner, timeout):
  """The KeptTensors of the namespace."""
  request = tensors_pb2.ListTensorsRequest(namespace=server.namespace, owner=owner)
  found = yield from pages("ListTensors", request, timeout)
  return [KeptTensor(server, info.id, answer.epoch, info)
          for answer in found for info in answer.tensors]


def pages(method, request, timeout):
  """The answers to a request whose answer comes in pages."""
  found = []
  while True:
    answer = yield "request", method, request, timeout
    found.append(answer)
    if not answer.next_page_token:
      return found
    request.page_token = answer.next_page_token


# ---------------------------------------------------------------------------------------- values
def fill_value(message, value):
  """Makes an empty formwork.v1.Value that of a Resource, a KeptTensor or an encoded tensor."""
  if type(value) is tuple:
    wire.fill_tensor(message.tensor, value)
  else:
    message.CopyFrom(value._value())


def _static_bytes(variable):
  """The bytes of a variable's value as far as its declaration, or the last answer, tells."""
  if variable.shape is None or None in variable.shape or variable.dtype == "string":
    return variable.nbytes
  itemsize = dtypes.NUMPY.get(dtypes.number(variable.dtype), np.dtype(np.uint8)).itemsize
  return math.prod(variable.shape) * itemsize


def set_duration(message, seconds):
  nanos = int(seconds * 1e9)
  message.seconds, message.nanos = nanos // 10**9, nanos % 10**9


def _seconds(duration):
  return duration.seconds + duration.nanos / 1e9
