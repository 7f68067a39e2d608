"""What lives on the server and has an ID there: variables and kept tensors."""
from formwork import dtypes
from formwork import errors
from formwork import types
from formwork import wire
from formwork.v1 import graph_service_pb2 as service_pb2
from formwork.v1 import types_pb2


class Variable:
  """A variable on the server, by its stable ID. Safe to use from many threads.

  Attributes:
    id: never changes and is never used again.
    name: in the server's namespace.
    dtype: TensorFlow's name.
    shape: the declared one: a list with None where unknown, or None for unknown rank.
    existed: whether it was there before this object was made.
  """

  __slots__ = ("id", "name", "dtype", "shape", "existed", "initialized", "version", "nbytes",
               "_server")

  def __init__(self, server, info, existed=True):
    self._server = server
    self.existed = existed
    self._update(info)

  def _update(self, info):
    self.id = info.id
    self.name = info.name
    self.dtype = dtypes.name(info.dtype)
    self.shape = types.shape_list(info.shape)
    self.initialized = info.initialized
    self.version = info.version
    self.nbytes = info.bytes

  def read(self, timeout=None):
    """The value, as a numpy array. Errors: FAILED_PRECONDITION while it has none."""
    return wire.from_message(self._read(timeout).value)

  def _read(self, timeout=None):
    return self._server._request("ReadVariable", service_pb2.ReadVariableRequest(
        namespace=self._server.namespace, id=self.id), timeout)

  def assign(self, value, timeout=None):
    """Sets the value. Errors: INVALID_ARGUMENT for another dtype or shape."""
    tensor = wire.tensor_message(value, dtypes.number(self.dtype), "variable '%s'" % self.name)
    answer = self._server._request("AssignVariable", service_pb2.AssignVariableRequest(
        namespace=self._server.namespace, id=self.id, value=tensor), timeout)
    self.initialized = True
    self.version = answer.variable.version

  def delete(self, timeout=None):
    self._server._request("DeleteVariable", service_pb2.DeleteVariableRequest(
        namespace=self._server.namespace, id=self.id), timeout)

  def __repr__(self):
    return "<formwork.Variable %r id=%d %s %s>" % (self.name, self.id, self.dtype, self.shape)


class KeptTensor:
  """An output that stayed on the server; it can be an input of a later call."""

  __slots__ = ("id", "_server")

  def __init__(self, server, tensor_id):
    self._server = server
    self.id = tensor_id

  def read(self, timeout=None):
    """The value, as a numpy array."""
    answer = self._server._request("ReadTensor", service_pb2.ReadTensorRequest(
        namespace=self._server.namespace, id=self.id), timeout)
    return wire.from_message(answer.value)

  def release(self, timeout=None):
    """Lets the server forget it."""
    self._server._request("ReleaseTensors", service_pb2.ReleaseTensorsRequest(
        namespace=self._server.namespace, ids=[self.id]), timeout)

  def __repr__(self):
    return "<formwork.KeptTensor id=%d>" % self.id


def value_message(value, number=None, what="value"):
  """A formwork.v1.Value of a variable, a kept tensor or anything that is a tensor's value."""
  if isinstance(value, Variable):
    return types_pb2.Value(resource_id=value.id)
  if isinstance(value, KeptTensor):
    return types_pb2.Value(kept_tensor_id=value.id)
  if number == dtypes.RESOURCE:
    raise errors.invalid("%s: expected a Variable, got %s" % (what, type(value).__name__))
  return types_pb2.Value(tensor=wire.tensor_message(value, number, what))
