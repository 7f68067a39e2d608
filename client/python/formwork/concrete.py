"""ConcreteFunction: one signature of a function on the server, ready to be called."""
from __future__ import annotations

from collections.abc import Callable, Mapping
import hashlib
import re
import sys
from typing import Any

from formwork import dtypes
from formwork import errors
from formwork import kept_tensors
from formwork import names as names_lib
from formwork import python_functions
from formwork import resources
from formwork import status
from formwork import types
from formwork import wire
from formwork.v1 import functions_pb2

# A graph of at most this many bytes is sent at once; of a larger one its fingerprint goes first.
_SENT_AT_ONCE = 64 << 10
# How often one call looks up a function that others replace meanwhile.
MOST_LOOKS = 5
# Fields of a CallRequest.
(_EPOCH, _ID, _NAME, _KEEP, _KEEP_FOR, _TIMEOUT, _IN_PARTS, _KEEP_FROM, _TIMELINE,
 _ATOMIC, _ANSWERS, _RELAXED) = (
     b"\x20", b"\x28", b"\x32", b"\x38\x01", b"\x42", b"\x52", b"\x58\x01", b"\x70",
     b"\x80\x01\x01", b"\x98\x01\x01", b"\xa0\x01\x01", b"\xa8\x01\x01")


def print_to_stderr(text):
  sys.stderr.write(text)
  sys.stderr.flush()


def print_to_stdout(text):
  sys.stdout.write(text)
  sys.stdout.flush()


class ConcreteFunction:
  """A function of one signature on the server. Safe to call from many threads.

  Where the server has lost it since (evicted, cleared, restarted), it is registered again, once,
  if it was registered here, or else looked up by its name and signature, as where it was replaced;
  then the call goes on.

  Attributes:
    id: what the server calls it.
    name: the function's, in the server's namespace.
    signature: a FunctionType.
    inputs, outputs: TensorSpecs, in the order of arguments and results.
    existed: it was there already when it was registered here.
    pretty_signature, calls, bytes, captured_variables: as the server listed them.
  """

  name: str
  signature: types.FunctionType
  inputs: list[types.TensorSpec]
  outputs: list[types.TensorSpec]
  existed: bool
  pretty_signature: str
  calls: int
  bytes: int
  captured_variables: list[str]

  def __init__(self, server, info, epoch, registration=None, existed=True):
    self._server = server
    self._registration = registration
    self._deleted = False
    self._take(info, epoch, existed)

  def _take(self, info, epoch, existed):
    self.existed = existed
    self.name = info.name
    self.signature = types.FunctionType(info.signature)
    self.inputs = [types.TensorSpec.from_message(m) for m in info.inputs]
    self.outputs = [types.TensorSpec.from_message(m) for m in info.outputs]
    self.pretty_signature = info.pretty_signature
    self.calls = info.calls
    self.bytes = info.bytes
    self.captured_variables = list(info.captured_variables)
    self._numbers = [m.dtype for m in info.inputs]
    self._what = ["%s: input %d (%s)" % (self.name, i, m.name) for i, m in enumerate(info.inputs)]
    self._broken = bool(info.deleted_variables)
    names = names_lib.Names(self.name, self.signature, self.inputs, self.outputs)
    # With the constant part of its calls. Set last, and whole: other threads may be calling.
    self._known = (epoch, info.id), (
        self._server._head + _EPOCH + wire.varint(epoch) + _ID + wire.varint(info.id) + _IN_PARTS +
        (_ANSWERS if self._registration and self._registration.calls_python else b"")), names

  @property
  def id(self) -> int:
    return self._known[0][1]

  @property
  def _key(self):
    return self._known[0]

  @property
  def _names(self):
    return self._known[2]

  def answer_python(self):
    """From now on its calls may ask this process to run Python functions."""
    if not self._registration.calls_python:
      self._registration.calls_python = True
      key, head, names = self._known
      self._known = key, head + _ANSWERS, names

  def __call__(self, *inputs: Any, timeout: float | None = None,
               on_print: Callable[[str], Any] | None = None, keep: bool = False,
               keep_for: float | None = None, atomic: bool = False,
               relaxed: bool = False) -> Any:
    """Runs it: one value per entry of `inputs`, in order. Returns a list: one per entry of `outputs`.

    One Mapping instead, {"x": value}, has the values by the names of all parameters, where each of
    these is one tensor or variable. Of a function that returns a dict of tensors it returns a dict.

    timeout: seconds; by default the Server's; math.inf: no limit.
    on_print(text) is told what tf.print writes, in order, before the call returns or raises.
    keep: the outputs stay on the server, as KeptTensors; keep_for: seconds after their last use,
      by default what the server is set to.
    atomic: all that it changes of variables and other resources changes, or, where it raises,
      nothing; then it has printed nothing either, and the error's effects are "none". It holds what
      it writes to its end. Numbers that it has drawn at random stay drawn.
    relaxed: of workers that train side by side: forward and backward are computed from a snapshot,
      the optimizer's writes are one part that is not torn (core/resource/README.md). Where the
      function has no such parts it runs as ever. INVALID_ARGUMENT together with `atomic`.
    """
    by_names = len(inputs) == 1 and isinstance(inputs[0], Mapping)
    if by_names:
      inputs = self._names.ordered(inputs[0])
    if len(inputs) != len(self._numbers):
      raise errors.invalid("%s: number of inputs differs: expected %d, got %d" % (
          self.name, len(self._numbers), len(inputs)))
    parts, owners = [None], []
    for i, value in enumerate(inputs):
      append_input(self._server, parts, owners, value, self._numbers[i], self._what[i])
    calling = self._calling_by_names if by_names else self._calling
    return self._server._do(calling(parts, owners, timeout, on_print, keep, keep_for, None, None,
                                    atomic, relaxed))

  def _calling(self, *args):
    answer, _ = yield from self._running(*args)
    return [self._server._output(v, answer.epoch) for v in answer.outputs]

  def _calling_by_names(self, *args):
    answer, names = yield from self._running(*args)
    return names.result([self._server._output(v, answer.epoch) for v in answer.outputs])

  def run(self, parts, timeout=None, on_print=None, owners=(), keep_from=None, keep_for=None,
          atomic=False, relaxed=False):
    """Runs it on encoded inputs: parts[0] is for the head of the request.

    owners: [(place in parts, Resource or KeptTensor)]: filled in here.
    keep_from: this output and those after it stay on the server, for `keep_for` seconds after
      their last use.
    Returns formwork.v1.Values or arrays, one per output; for what is kept, KeptTensors, or None for
    a resource.
    """
    answer, _ = self._server._do(self._running(
        parts, owners, timeout, on_print, keep_from is not None, keep_for, keep_from, None,
        atomic, relaxed))
    if keep_from is None:
      return answer.outputs
    return answer.outputs[:keep_from] + [
        self._server._output(v, answer.epoch) for v in answer.outputs[keep_from:]]

  def _running(self, parts, owners=(), timeout=None, on_print=None, keep=False, keep_for=None,
               keep_from=None, on_timeline=None, atomic=False, relaxed=False):
    """The operation: (the wire.Answer, the names.Names of the function that gave it)."""
    server, failures = self._server, 0
    while True:
      (epoch, function_id), head, names = self._known
      try:
        for _, owner in owners:
          if owner._key[0] != epoch:
            info = yield "request", "GetServerInfo", resources.info_request(server)
            raise errors.restarted(info.epoch)
        return (yield from calling(server, head, parts, owners, timeout, on_print, keep, keep_for,
                                   keep_from, on_timeline, atomic, relaxed)), names
      except errors.Error as e:
        failures += 1
        replaced = self._may_be_replaced(e)
        if failures > (MOST_LOOKS if replaced else 1):
          raise
        if replaced:
          yield from self._renew(0)
          if self.id == function_id:
            raise
          continue
        if e.reason == "FUNCTION_NOT_FOUND" and self._registration is not None:
          stale, epoch = [self], 0
        elif e.reason == "EPOCH_MISMATCH" and e.epoch:
          stale, epoch = [self] + [owner for _, owner in owners], e.epoch
        else:
          raise
      yield from resources.renew(stale, epoch)

  def _may_be_replaced(self, error):
    """Whether another function may have taken the place of this one, which is not of this client."""
    return self._registration is None and not self._deleted and (
        error.reason == "FUNCTION_NOT_FOUND" or
        # Those of a SavedModel go once its functions are replaced.
        error.reason == "VARIABLE_DELETED" and error.effects == "none")

  def _renew(self, epoch):
    if self._registration is not None:
      answer = yield from self._registration.sending_again(self._server)
      self._take(answer.function, answer.epoch, answer.existed)
    else:
      server, places = self._server, self._names.places
      answer = yield "request", "Resolve", functions_pb2.ResolveRequest(
          namespace=server.namespace, name=self.name, signature=self.signature.to_message())
      found = ConcreteFunction(server, answer.function, answer.epoch)
      if found._names.places != places:  # Types are equal, whatever the order.
        error = errors.Error("NOT_FOUND", "function '%s' is not there any more: the one in its place "
                             "takes its inputs in another order" % self.name)
        error.reason = "FUNCTION_NOT_FOUND"
        raise error
      self._take(answer.function, answer.epoch, True)

  def delete(self, timeout: float | None = None) -> None:
    """Removes it from the server; it is not registered again, or looked up."""
    self._registration, self._deleted = None, True
    server = self._server

    def ask(epoch):
      yield "request", "Unregister", functions_pb2.UnregisterRequest(
          namespace=server.namespace, expected_epoch=epoch, function_id=self.id), timeout

    return server._do(ask(self._key[0]))

  def register_afresh(self):
    """Registers it anew in its own place: its random sequences start from the beginning."""
    return self._server._do(self._registering_afresh())

  def _registering_afresh(self):
    epoch, function_id = self._key
    try:
      yield "request", "Unregister", functions_pb2.UnregisterRequest(
          namespace=self._server.namespace, expected_epoch=epoch, function_id=function_id,
          allow_missing=True)
    except errors.Error as e:
      if e.reason != "EPOCH_MISMATCH":  # It is gone.
        raise
    yield from self._renew(0)

  def __repr__(self):
    return "<formwork.ConcreteFunction %r id=%d>" % (self.name, self.id)


def append_input(server, parts, owners, value, number, what):
  """Appends a value to the pieces of a CallRequest; one with an ID is filled in when it is sent."""
  if isinstance(value, (resources.Resource, kept_tensors.KeptTensor)):
    resources.belongs(server, value, what)
    owners.append((len(parts), value))
    parts.append(None)
  elif number == dtypes.RESOURCE:
    raise errors.invalid("%s: expected a Variable, Table or Iterator, got %s" % (
        what, type(value).__name__))
  else:
    wire.append_tensor(parts, *wire.to_array(value, number, what))


def named_head(server, name, epoch):
  """What a call by name begins with; epoch: that of its inputs' IDs, or 0."""
  encoded = name.encode()
  return server._head + _EPOCH + wire.varint(epoch) + _NAME + wire.varint(len(encoded)) + (
      encoded + _IN_PARTS)


def calling(server, head, parts, owners, timeout, on_print, keep, keep_for, keep_from=None,
            on_timeline=None, atomic=False, relaxed=False):
  """One call: the pieces of a CallRequest for a wire.Answer.

  on_timeline: is told the call's formwork.v1.Timeline, also where it fails; None where the server
    gives none to one that does not.
  """
  for place, owner in owners:
    parts[place] = wire.value_piece(owner._value())
  made, size = (), sum(map(len, parts[1:]))
  if size > kept_tensors.SURELY_FITS and not (yield from server._fits(size)):
    parts, made = yield from _sent_apart(server, parts, size, timeout)
  if timeout is None:
    timeout = server._channel.timeout
  if keep:
    head += _KEEP
    if keep_for is not None:
      head += wire.duration_field(_KEEP_FOR, keep_for)
    if keep_from:
      head += _KEEP_FROM + wire.varint(keep_from)
  if on_timeline is not None:
    head += _TIMELINE
  if atomic:
    head += _ATOMIC
  if relaxed:
    head += _RELAXED
  origin = server._channel.origin
  number, numbered = origin.encoded()
  parts[0] = head + numbered + wire.duration_field(_TIMEOUT, timeout)
  answer = wire.Answer(on_print or print_to_stderr)
  try:
    yield "call", b"".join(parts), timeout, answer
  finally:
    origin.end(number)
    if made:
      yield from kept_tensors.dropping(server, made)
  if on_timeline is not None and (answer.error is None or answer.timeline is not None):
    on_timeline(answer.timeline)
  if answer.error is not None:
    error = status.from_status(answer.error)
    server._channel.epoch = error.epoch or server._channel.epoch
    for text in error.printed[answer.printed:]:
      answer.on_print(text)
    raise error
  server._channel.epoch = answer.epoch
  return answer


def _sent_apart(server, parts, size, timeout):
  """(the pieces, KeptTensors): the largest tensors go by themselves, until the rest fits."""
  parts, made = list(parts), []
  for i in sorted(range(2, len(parts)), key=lambda i: -len(parts[i])):
    encoded = wire.encoded_of(parts[i - 1], parts[i])
    if encoded is None:
      continue
    made.append((yield from kept_tensors.keeping(server, encoded, None, timeout)))
    size -= len(parts[i])
    parts[i - 1], parts[i] = wire.value_piece(made[-1]._value()), b""
    if (yield from server._fits(size)):
      break
  return parts, made


# What stands for ops that the server does not have: a part of the op's name, and what to do.
_INSTEAD = (
    ("Dataset", "datasets of this kind stay here: iterate outside of the function and pass the "
                "elements"),
    ("Iterator", "iterators of this kind stay here: take the elements outside of the function and "
                 "pass them"),
    ("Table|Lookup", "lookup tables of this kind stay here: look keys up outside of the function"),
    ("Queue", "tf.queue's queues stay here: use them outside of the function, or make one there, by "
              "tf.raw_ops.FIFOQueueV2 with a shared_name"),
    ("Summary", "a function writes summaries if it is traced for the server first: call it there "
                "before it is called here, or return the values and write them outside"))


def with_advice(text):
  """A text that names ops or kinds of objects that the server does not have; what to do instead."""
  return "; ".join([text] + [advice for part, advice in _INSTEAD if re.search(part, text)])


def _advised(error):
  if error.code == "UNIMPLEMENTED":
    error.message = with_advice(error.message)
    error.args = (error.message,)
  return error


class Registration:
  """A RegisterRequest that can be sent again. The graph's bytes are kept beside it.

  owners: {graph tensor: Resource or KeptTensor} of its captures that have IDs.

  Attributes:
    calls_python: whether its calls may ask this process to run Python functions.
  """

  def __init__(self, request, graph_def, owners):
    self.request = request
    self.owners = owners
    self.calls_python = python_functions.are_in(graph_def)
    self._graph_def = graph_def
    if graph_def:
      self.request.fingerprint = hashlib.sha256(graph_def).hexdigest()

  def send(self, server, timeout=None):
    """Sends it now. Returns the RegisterResponse."""
    return server._do(self.sending(server, timeout))

  def sending_again(self, server):
    """As sending(), after the server has lost the function."""
    return self.sending(server)

  def sending(self, server, timeout=None):
    """The operation. The graph is sent only where the server lacks it."""
    owners = list(self.owners.values())
    return (yield from resources.by_id(
        server, owners, lambda epoch: self._ask(server, epoch, timeout)))

  def _ask(self, server, epoch, timeout):
    request = functions_pb2.RegisterRequest()
    request.CopyFrom(self.request)
    request.expected_epoch = epoch
    for tensor, owner in self.owners.items():
      request.captures.add(tensor=tensor, value=owner._value())
    sent = server._sent_graphs
    if len(self._graph_def) > _SENT_AT_ONCE or (
        request.fingerprint, server._channel.epoch) in sent:
      try:
        answer = yield "request", "Register", request, timeout
        sent.add((request.fingerprint, answer.epoch))
        return answer
      except errors.Error as e:
        if e.reason != "GRAPH_NOT_FOUND":
          raise
    request.graph_def = self._graph_def
    try:
      answer = yield "request", "Register", request, timeout
    except errors.Error as e:
      raise _advised(e)
    sent.add((request.fingerprint, answer.epoch))
    return answer
