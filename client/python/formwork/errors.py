"""What a failed request raises."""
import grpc

from formwork import types
from formwork.v1 import graph_service_pb2 as service_pb2

# One serialized formwork.v1.ErrorDetails, in the trailing metadata of a failed request.
DETAILS_KEY = "formwork-error-bin"

_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


class Error(Exception):
  """A failed request.

  Attributes:
    code: the name of gRPC's status code, as "INVALID_ARGUMENT".
    message: what went wrong, in words.
    effects: which of the call's effects took place: "none", "some", "all" or "unknown".
    culprits: everything that the server found wrong; the message names the first 20.
  """

  def __init__(self, code, message, details=None):
    super().__init__(message)
    self.code = code
    self.message = message
    self.details = details if details is not None else service_pb2.ErrorDetails()

  @property
  def effects(self):
    name = service_pb2.ErrorDetails.Effects.Name(self.details.effects)
    return "unknown" if name == "EFFECTS_UNKNOWN" else name.lower()

  @property
  def culprits(self):
    return list(self.details.culprits)

  def __str__(self):
    return "%s: %s" % (self.code, self.message)


class NoMatchingSignature(Error):
  """No ConcreteFunction of that name takes these types. `code` is NOT_FOUND.

  Attributes:
    candidates: the FunctionTypes that are there.
    suggested: the FunctionType to trace next: the candidates' and the call's common supertype, or
      the call's own type where they have none.
  """

  @property
  def candidates(self):
    return [types.FunctionType(t) for t in self.details.candidates]

  @property
  def suggested(self):
    return types.FunctionType(self.details.suggested)


def make(code, message, details=None):
  """The error for a status: `code` is gRPC's name, `details` an ErrorDetails or None."""
  if details is not None and details.no_matching_signature:
    return NoMatchingSignature(code, message, details)
  return Error(code, message, details)


def invalid(message):
  return Error("INVALID_ARGUMENT", message)


def from_rpc(rpc_error):
  """The error for a grpc.RpcError."""
  details = None
  for key, value in rpc_error.trailing_metadata() or ():
    if key == DETAILS_KEY:
      details = service_pb2.ErrorDetails.FromString(value)
  return make(rpc_error.code().name, rpc_error.details() or "", details)


def from_response(error):
  """The error for a formwork.v1.Error, as CallStream answers it."""
  return make(_NAMES.get(error.code, "UNKNOWN"), error.message, error.details)


def is_lost_function(error):
  """Whether the server does not have the function any more (evicted, cleared, restarted)."""
  return error.code == "NOT_FOUND" and error.details.unknown_function


_TENSORFLOW = {}  # (this package's class, code) -> its class that is TensorFlow's too


def for_tensorflow(error):
  """The same error, as one of TensorFlow's classes besides (tf.errors.InvalidArgumentError …)."""
  from tensorflow.python.framework import errors_impl  # Only where TensorFlow is in use.
  key = (type(error), error.code)
  if key not in _TENSORFLOW:
    number = grpc.StatusCode[error.code].value[0]
    base = errors_impl.exception_type_from_error_code(number)

    def init(self, error):
      base.__init__(self, None, None, error.message)
      self.code, self.message, self.details = error.code, error.message, error.details

    _TENSORFLOW[key] = type(base.__name__, (type(error), base), {
        "__init__": init, "__str__": lambda self: self.message, "__module__": __name__,
        "message": None,  # In place of the other base's property.
        "__reduce__": lambda self: (for_tensorflow, (Error(self.code, self.message),))})
  return _TENSORFLOW[key](error)
