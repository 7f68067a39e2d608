"""What a failed request raises."""
from __future__ import annotations

import grpc


class Error(Exception):
  """A failed request. Can be pickled and copied.

  Attributes:
    code: the name of gRPC's status code, as "INVALID_ARGUMENT".
    message: what went wrong, in words.
    reason: why, for programs, where the code alone does not say it: a name of formwork.v1.Reason
      without its prefix, as "FUNCTION_NOT_FOUND", or "".
    effects: which of the call's effects took place: "none", "some", "all" or "unknown".
    culprits: everything that the server found wrong; the message names the first 20.
    printed: what the call printed before it failed.
    epoch: the server's; 0 where it is not known.
    retry_after: seconds after which the request may be sent again, or None.
  """

  def __init__(self, code: str, message: str):
    super().__init__(message)
    self.code = code
    self.message = message
    self.reason = ""
    self.effects = "unknown"
    self.culprits: list[str] = []
    self.printed: list[str] = []
    self.epoch = 0
    self.retry_after: float | None = None

  def __str__(self):
    return "%s: %s" % (self.code, self.message)

  def __reduce__(self):
    return _again, (type(self), self.code, self.message, self.__dict__)


def _again(cls, code, message, attributes):
  made = cls(code, message)
  made.__dict__.update(attributes)
  return made


class NoMatchingSignature(Error):
  """No ConcreteFunction of that name takes these types. `code` is NOT_FOUND.

  Attributes:
    candidates: the FunctionTypes that are there.
    suggested: the FunctionType to trace next: the candidates' and the call's common supertype, or
      the call's own type where they have none.
    given: the types that were asked for, as a text.
  """

  _SHOWN = 10  # Candidates in the text.

  def __init__(self, code, message):
    super().__init__(code, message)
    self.candidates = []
    self.suggested = None
    self.given = ""

  def __str__(self):
    there = [str(t) for t in self.candidates[:self._SHOWN]]
    if len(self.candidates) > self._SHOWN:
      there.append("and %d more" % (len(self.candidates) - self._SHOWN))
    return "%s\n  given: %s\n  there: %s" % (
        super().__str__(), self.given or self.suggested, "\n         ".join(there))


def invalid(message):
  return Error("INVALID_ARGUMENT", message)


def lost(message):
  """The error for what the server has lost, and the client cannot bring back."""
  error = Error("NOT_FOUND", message)
  error.reason = "EPOCH_MISMATCH"
  return error


def restarted(epoch):
  """The error for what is of different epochs; `epoch` is the server's now."""
  error = Error("FAILED_PRECONDITION", "the server was restarted")
  error.reason, error.epoch = "EPOCH_MISMATCH", epoch
  return error


_TENSORFLOW = {}  # (this package's class, code) -> its class that is TensorFlow's too


def for_tensorflow(error):
  """The same error, as one of TensorFlow's classes besides (tf.errors.InvalidArgumentError …)."""
  from tensorflow.python.framework import errors_impl  # Only where TensorFlow is in use.
  plain = type(error)
  key = (plain, error.code)
  if key not in _TENSORFLOW:
    number = grpc.StatusCode[error.code].value[0]
    base = errors_impl.exception_type_from_error_code(number)

    def init(self, error):
      base.__init__(self, None, None, error.message)
      self.__dict__.update(error.__dict__)

    def reduce(self):
      same = plain(self.code, self.message)
      same.__dict__.update({k: self.__dict__[k] for k in same.__dict__})
      return for_tensorflow, (same,)

    _TENSORFLOW[key] = type(base.__name__, (plain, base), {
        "__init__": init, "__str__": lambda self: self.message, "__module__": __name__,
        "message": None,  # In place of the other base's property.
        "__reduce__": reduce})
  return _TENSORFLOW[key](error)
