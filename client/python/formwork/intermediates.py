"""What forward passes leave on the server for their backward passes, and what stands for it here.

TensorFlow's tapes hold the intermediate results that a backward function needs as EagerTensors.
Here these are stand-ins; each has a kept tensor of the server, which is released with it.
"""
import math

import numpy as np
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import ops

from formwork import errors

KEEP_FOR = 3600  # Seconds after its last use, where a process ends without having released it.
_SMALL = 1 << 16  # Bytes that are sent here as soon as not.
_GONE = ("TENSOR_NOT_FOUND", "EPOCH_MISMATCH")
_NAN = np.array(math.nan, np.float32)


class Intermediate:
  """A kept tensor that only this process knows: dropped with the last reference to this object."""

  __slots__ = ("kept", "_origin")

  def __init__(self, kept):
    self.kept = kept
    self._origin = kept._server._channel.origin

  def __del__(self):
    self.kept._server._drop(self._origin, self.kept)


def stand_in(intermediate, device):
  """An EagerTensor in the place of one that stays on the server as an Intermediate.

  It is a float32 scalar whatever it stands for, so that tapes follow it, and not a number: what
  tapes make in its place, a zero, can be told from it.
  """
  made = ops.EagerTensor(_NAN, device, None)
  made._formwork_intermediate = intermediate
  return made


def of(t):
  """The KeptTensor that an EagerTensor stands for, or None."""
  found = getattr(t, "_formwork_intermediate", None)
  return None if found is None else found.kept


def fetched(t):
  """What a tensor stands for, as a tensor that other graphs can capture."""
  kept = of(t)
  return t if kept is None else ops.convert_to_tensor(kept.read())


def are_lists(tensors):
  """Whether lists are among these tensors of a graph, which have no value outside of the server."""
  return any(t.dtype == tf_dtypes.variant for t in tensors)


def worth_leaving(tensors, args):
  """Whether these tensors of a graph had better stay where they are: lists, or many bytes.

  args: EagerTensors that the graph is called with. A dimension that is not known is taken to be as
    long as the longest of theirs.
  """
  if are_lists(tensors) or any(t.shape.rank is None for t in tensors):
    return True
  longest = max((d for t in args for d in t.shape), default=1)
  return _SMALL < sum(t.dtype.size * math.prod(longest if d is None else d for d in t.shape)
                      for t in tensors)


def gone(error, name):
  """The error of a backward function whose forward pass's intermediates the server has lost."""
  if error.reason not in _GONE:
    return error
  made = errors.Error(
      error.code, "%s: what the forward pass left on the server for its gradient is gone (the "
      "server was restarted or cleared, or it is more than %g minutes old): run the forward pass "
      "again" % (name, KEEP_FOR / 60))
  made.reason = error.reason
  return made


def of_higher_order(name):
  """The error where a tape would have to follow lists."""
  return errors.Error(
      "UNIMPLEMENTED", "%s: the gradient of a gradient, outside of the function, of a loop or "
      "condition in a function that changes variables or draws random numbers: take the "
      "gradients inside it" % name)
