"""The Error that a failed request's status stands for."""
import grpc

from formwork import errors
from formwork import types
from formwork.rpc import status_pb2
from formwork.v1 import errors_pb2

# A serialized google.rpc.Status, in the trailing metadata of a failed request.
DETAILS_KEY = "grpc-status-details-bin"

_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


def from_rpc(rpc_error):
  """The error for a grpc.RpcError."""
  status = status_pb2.Status()
  for key, value in rpc_error.trailing_metadata() or ():
    if key == DETAILS_KEY:
      status.ParseFromString(value)
  return _made(rpc_error.code().name, rpc_error.details() or "", status.details)


def from_status(status):
  """The error for a formwork.rpc.Status, as CallStream answers it."""
  return _made(_NAMES.get(status.code, "UNKNOWN"), status.message, status.details)


def _made(code, message, details):
  parsed = {}
  for detail in details:
    name = detail.type_url.rpartition("/")[2]
    if name in _DETAILS:
      parsed[name] = _DETAILS[name].FromString(detail.value)
  info = parsed.get("google.rpc.ErrorInfo", _NO_INFO)
  failure = parsed.get("formwork.v1.CallFailure", _NO_FAILURE)
  if info.reason == "NO_MATCHING_SIGNATURE":
    made = errors.NoMatchingSignature(code, message)
    made.candidates = [types.FunctionType(t) for t in failure.candidates]
    made.suggested = types.FunctionType(failure.suggested)
  else:
    made = errors.Error(code, message)
  made.reason = info.reason
  made.epoch = failure.epoch
  made.effects = _EFFECTS.get(failure.effects, "unknown")
  made.printed = list(failure.printed)
  if "google.rpc.BadRequest" in parsed:
    made.culprits = [v.description for v in parsed["google.rpc.BadRequest"].field_violations]
  if "google.rpc.RetryInfo" in parsed:
    delay = parsed["google.rpc.RetryInfo"].retry_delay
    made.retry_after = delay.seconds + delay.nanos / 1e9
  return made


_DETAILS = {"google.rpc.ErrorInfo": status_pb2.ErrorInfo,
            "google.rpc.BadRequest": status_pb2.BadRequest,
            "google.rpc.RetryInfo": status_pb2.RetryInfo,
            "formwork.v1.CallFailure": errors_pb2.CallFailure}
_NO_INFO, _NO_FAILURE = status_pb2.ErrorInfo(), errors_pb2.CallFailure()
_EFFECTS = {errors_pb2.EFFECTS_NONE: "none", errors_pb2.EFFECTS_SOME: "some",
            errors_pb2.EFFECTS_ALL: "all"}
