"""What this process has dropped of what it has on the server, and what is left of that there."""
import collections
import weakref

from formwork import data
from formwork import resources
from formwork.v1 import functions_pb2
from formwork.v1 import variables_pb2

# What TensorFlow calls a tf.Variable, or a table, without a name.
_UNNAMED = ("Variable", "MutableHashTable")


class Place:
  """Where a variable of this process is on the server.

  Attributes:
    remote: the formwork.Variable.
    origin: the connection's Origin when this process found it or made it there.
  """

  __slots__ = ("remote", "origin")

  def __init__(self, remote, origin):
    self.remote, self.origin = remote, origin


class Dropped:
  """Has the server forget variables that nobody can mean any more.

  These are such as this process made there, without a name of their own, whose tf.Variable has been
  collected, unless a function uses them that another client has made or called. The functions of
  this process that use one are gone, too: a trace holds its variables.
  """

  def __init__(self, server):
    self._server = server
    self._places = collections.deque()
    self._calls = {}  # {ID of a function that this process made: how often it has called it}

  def follow(self, bound, name):
    """Notes when the tf.Variable of a Bound, which has this name, is collected."""
    if name in _UNNAMED or isinstance(bound.remote, data.Iterator):
      weakref.finalize(bound.handle(), self._places.append, bound.place).atexit = False

  def made(self, function):
    """Notes that this process has registered a function."""
    if not function.existed:
      self._calls[function.id] = 0

  def called(self, function):
    """Notes that this process has called a function, which has ended well."""
    if function.id in self._calls:
      self._calls[function.id] += 1

  def release(self):
    """Does so. What is deleted is not waited for."""
    if not self._places:
      return
    server, gone = self._server, {}
    epoch = server._channel.epoch
    while self._places:
      place = self._places.popleft()
      if place.origin is server._channel.origin and not place.remote.existed and (
          place.remote._key[0] == epoch):
        gone[place.remote.name] = place
    if not gone:
      return
    request = functions_pb2.ListFunctionsRequest(
        namespace=server.namespace, view=functions_pb2.FUNCTION_VIEW_BASIC)
    for answer in server._do(resources.pages("ListFunctions", request, None)):
      for function in answer.functions:
        used = gone.keys() & set(function.captured_variables)
        if not used:
          continue
        if self._calls.get(function.id) == function.calls:
          server._channel.post("Unregister", functions_pb2.UnregisterRequest(
              namespace=server.namespace, expected_epoch=epoch, function_id=function.id,
              allow_missing=True))
        else:
          for name in used:
            del gone[name]
    for place in gone.values():
      server._channel.post("DeleteVariable", variables_pb2.DeleteVariableRequest(
          namespace=server.namespace, expected_epoch=epoch, variable=place.remote._target(),
          allow_missing=True))
