"""What the inputs and outputs of a ConcreteFunction are called, by its signature.

Calls have no names: values go by position, in the order of the parameters, keyword-only ones last
and by name.
"""
import functools
import json

from formwork import errors
from formwork.v1 import types_pb2

_KEYWORD = types_pb2.Parameter.KIND_KEYWORD_ONLY
_MANY = (types_pb2.Parameter.KIND_VAR_POSITIONAL, types_pb2.Parameter.KIND_VAR_KEYWORD)


class Names:
  """Of one ConcreteFunction. Found out when they are asked for first.

  Attributes:
    text: the parameters, for errors.
  """

  def __init__(self, function, signature, inputs, outputs):
    self._function, self._signature = function, signature
    self._inputs, self._outputs = len(inputs), len(outputs)

  @property
  def text(self):
    return str(self._signature)

  @functools.cached_property
  def places(self):
    """{parameter: its place among the inputs}; None where values cannot be passed by names."""
    return _places(self._signature.to_message(), self._inputs)

  def ordered(self, values):
    """The values of {parameter: value}, in the order of the inputs. Errors: INVALID_ARGUMENT."""
    if self.places is None:
      raise errors.invalid(
          "%s: values can be passed by names where all inputs are parameters, and each of these is "
          "one tensor or variable; it takes %s" % (self._function, self.text))
    if values.keys() != self.places.keys():
      raise errors.invalid("%s: %s; it takes %s" % (
          self._function, _difference(values.keys(), self.places), self.text))
    made = [None] * self._inputs
    for name, place in self.places.items():
      value, other = values[name], made[place]
      if other is not None and getattr(other, "_key", None) != getattr(value, "_key", None):
        raise errors.invalid("%s: '%s' is the same variable as another parameter; it takes %s" % (
            self._function, name, self.text))
      made[place] = value
    return made

  def result(self, outputs):
    """A dict of the outputs where the function returns one of tensors, else the list."""
    return outputs if self._keys is None else dict(zip(self._keys, outputs))

  @functools.cached_property
  def _keys(self):
    return _keys(self._signature.to_message(), self._outputs)


def _places(signature, count):
  """{parameter: its place among so many inputs}; None where not each parameter has one, of its own.

  The same variable, passed twice, is one input.
  """
  keywords = sorted((p for p in signature.parameters if p.kind == _KEYWORD), key=lambda p: p.name)
  places, taken, variables = {}, [], {}
  for p in [p for p in signature.parameters if p.kind != _KEYWORD] + keywords:
    kind = p.type.WhichOneof("kind")
    if kind not in ("tensor", "variable") or p.kind in _MANY or p.name in places:
      return None
    like = getattr(p.type, kind)
    place = variables.get(like.alias_id) if kind == "variable" else None
    if place is None:
      place = like.flat if like.HasField("flat") and like.flat >= 0 else len(taken)
      taken.append(place)
      if kind == "variable":
        variables[like.alias_id] = place
    places[p.name] = place
  return places if sorted(taken) == list(range(count)) else None


def _keys(signature, count):
  """The keys of the dict of so many tensors that is returned; None where it is something else."""
  if not signature.HasField("result") or signature.result.WhichOneof("kind") != "dict":
    return None
  returned = signature.result.dict
  keys = [json.loads(key) for key in returned.keys]
  fits = len(keys) == len(returned.items) == count and (
      all(item.WhichOneof("kind") == "tensor" for item in returned.items)) and (
          all(isinstance(key, (str, int)) for key in keys))
  return keys if fits else None


def _difference(given, wanted):
  """What names are missing and which are not known, as a text."""
  missing = ", ".join("'%s'" % name for name in wanted if name not in given)
  unknown = ", ".join("'%s'" % (name,) for name in given if name not in wanted)
  return "; ".join(["missing: " + missing] * bool(missing) + ["unknown: " + unknown] * bool(unknown))
