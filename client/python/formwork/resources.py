"""What lives on the server by a name and a stable ID: variables, tables, iterators.

An ID means something in one epoch of the server alone: each object here knows its own, and every
request that names it carries it. Where the server was restarted since, a resource is looked up by
its name once.

Operations are generators: they yield what they ask of the channel, (method of the channel, its
arguments …), are sent the answer, and return the result. Server._do runs one.
"""
from __future__ import annotations

import logging

from formwork import errors
from formwork.v1 import server_pb2
from formwork.v1 import types_pb2
from formwork.v1 import variables_pb2

_LOG = logging.getLogger("formwork")


class Resource:
  """What lives on the server by a name and a stable ID. Safe to use from many threads.

  A subclass names its kinds, as VariableInfo has them: `class Table(Resource, of=["table"])`.

  Attributes:
    type: as the server writes it: "table string[] -> int64[]". Not a Variable's.
  """

  __slots__ = ("name", "type", "existed", "initialized", "version", "nbytes", "_server", "_key",
               "__weakref__")
  kind = "resource"
  name: str
  type: str
  existed: bool
  initialized: bool
  version: int
  nbytes: int
  _CLASSES = {}  # VariableInfo.kind -> the class of it.

  def __init_subclass__(cls, of):
    Resource._CLASSES.update(dict.fromkeys(of, cls))

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
    self.type = info.type

  def _type_text(self):
    return self.type

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

  def __repr__(self):
    return "<formwork.%s %r id=%d %s>" % (
        type(self).__name__, self.name, self.id, self._type_text())


def from_info(server, info, epoch, existed=True):
  """The Resource that a VariableInfo describes."""
  return Resource._CLASSES.get(info.kind, Resource)(server, info, epoch, existed)


# ------------------------------------------------------------------------------------- operations
def info_request(server):
  """A request for the ServerInfo, whose answer has the epoch of the namespace."""
  return server_pb2.GetServerInfoRequest(namespace=server.namespace)


def by_id(server, owners, ask):
  """Runs the operation ask(epoch) on what has IDs, once more where the server was restarted."""
  for again in (False, True):
    if len({owner._key[0] for owner in owners}) > 1:
      yield from renew(owners, (yield "request", "GetServerInfo", info_request(server)).epoch)
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

  def ask(epoch):
    yield "request", "DeleteVariable", variables_pb2.DeleteVariableRequest(
        namespace=server.namespace, expected_epoch=epoch, variable=resource._target()), timeout

  return by_id(server, [resource], ask)


def belongs(server, value, what):
  """Checks that a Resource or KeptTensor is of this server and namespace."""
  other = value._server
  if other is not server and (other.namespace, other._channel.target) != (
      server.namespace, server._channel.target):
    raise errors.invalid("%s: %r is of %r, the call goes to %r" % (what, value, other, server))


def pages(method, request, timeout):
  """The answers to a request whose answer comes in pages."""
  found = []
  while True:
    answer = yield "request", method, request, timeout
    found.append(answer)
    if not answer.next_page_token:
      return found
    request.page_token = answer.next_page_token
