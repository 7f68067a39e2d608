"""Variables on the server."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from formwork import dtypes
from formwork import errors
from formwork import kept_tensors
from formwork import resources
from formwork import types
from formwork import wire
from formwork.v1 import variables_pb2


class Variable(resources.Resource, of=[""]):
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


# ------------------------------------------------------------------------------------- operations
def _first(operation):
  return (yield from operation)[0]


def reading(server, variables, timeout):
  """The values of Variables, as one snapshot."""
  for v in variables:
    resources.belongs(server, v, "read")
  keep = not (yield from server._fits(sum(_static_bytes(v) for v in variables)))
  try:
    return (yield from _reading(server, variables, keep, timeout))
  except errors.Error as e:
    if keep or not kept_tensors.is_too_large(e):
      raise
  return (yield from _reading(server, variables, True, timeout))


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
    kept = [kept_tensors.KeptTensor(server, value.kept_tensor_id, answer.epoch)
            for value in answer.values]
    try:
      values = []
      for one, info in zip(kept, answer.variables):
        one.nbytes = info.bytes
        values.append((yield from kept_tensors.reading(server, one, timeout)))
      return values
    finally:
      yield from kept_tensors.dropping(server, kept)

  return (yield from resources.by_id(server, variables, ask))


def assigning(server, values, timeout):
  """Sets {Variable: value}: all of them, or none."""
  variables, given = list(values), []
  for v, value in values.items():
    resources.belongs(server, v, "assign")
    given.append(value if isinstance(value, kept_tensors.KeptTensor) else wire.encoded(
        value, dtypes.number(v.dtype), "variable '%s'" % v.name))
  sent, made = yield from kept_tensors.fitting(server, given, timeout)

  def ask(epoch):
    request = variables_pb2.AssignVariablesRequest(
        namespace=server.namespace, expected_epoch=epoch)
    for v, one in zip(variables, sent):
      kept_tensors.fill_value(request.assignments.add(variable=v._target()).value, one)
    answer = yield "request", "AssignVariables", request, timeout
    for v, info in zip(variables, answer.variables):
      v._note(info)

  try:
    kept = [one for one in sent if isinstance(one, kept_tensors.KeptTensor)]
    yield from resources.by_id(server, variables + kept, ask)
  finally:
    yield from kept_tensors.dropping(server, made)


def _static_bytes(variable):
  """The bytes of a variable's value as far as its declaration, or the last answer, tells."""
  if variable.shape is None or None in variable.shape or variable.dtype == "string":
    return variable.nbytes
  itemsize = dtypes.NUMPY.get(dtypes.number(variable.dtype), np.dtype(np.uint8)).itemsize
  return math.prod(variable.shape) * itemsize
