"""TensorSpec and FunctionType: what a ConcreteFunction takes."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
import json
from typing import Any

from formwork import dtypes
from formwork.v1 import types_pb2


def shape_message(shape):
  """A formwork.v1.Shape of a list with None for unknown dimensions; None: unknown rank."""
  if shape is None:
    return types_pb2.Shape(unknown_rank=True)
  return types_pb2.Shape(dims=[-1 if d is None or d < 0 else int(d) for d in shape])


def shape_list(message):
  """The inverse of shape_message."""
  if message.unknown_rank:
    return None
  return [None if d < 0 else d for d in message.dims]


class TensorSpec:
  """A tensor of the graph ("node:0"), its dtype and the shape that a call must have.

  dtype: TensorFlow's name or numpy's. shape: None for unknown rank, None among the dimensions for
  unknown ones. dtype "resource": the argument is a Variable (or another resource).
  """

  __slots__ = ("name", "dtype", "shape")

  def __init__(self, name: str, dtype: Any, shape: Sequence[int | None] | None = None):
    self.name = name
    self.dtype = dtypes.name(dtypes.number(dtype))
    self.shape = None if shape is None else [None if d is None else int(d) for d in shape]

  @classmethod
  def from_message(cls, m):
    return cls(m.name, m.dtype, shape_list(m.shape))

  def to_message(self):
    return types_pb2.TensorSpec(
        name=self.name, dtype=dtypes.number(self.dtype), shape=shape_message(self.shape))

  def __eq__(self, other):
    return (isinstance(other, TensorSpec) and
            (self.name, self.dtype, self.shape) == (other.name, other.dtype, other.shape))

  def __hash__(self):
    return hash((self.name, self.dtype))

  def __repr__(self):
    return "TensorSpec(%r, %r, %r)" % (self.name, self.dtype, self.shape)


class FunctionType:
  """A signature: ordered parameters, each a tensor, a literal, a resource or a structure of these.

  Immutable. Equal where the descriptions are.
  """

  __slots__ = ("_message",)

  def __init__(self, message=None):
    self._message = types_pb2.FunctionType()
    if message is not None:
      self._message.CopyFrom(message)

  @classmethod
  def from_json(cls, j: Mapping[str, Any]) -> FunctionType:
    """From the parsed type JSON: {"parameters": [{name, kind, optional, type}]}."""
    made = cls()
    for p in j["parameters"]:
      parameter = made._message.parameters.add(
          name=p["name"], optional=bool(p.get("optional", False)),
          kind="KIND_" + p.get("kind", "positional_or_keyword").upper())
      _type_from_json(p["type"], parameter.type)
    if j.get("result") is not None:
      _type_from_json(j["result"], made._message.result)
    return made

  def to_json(self) -> dict[str, Any]:
    """The type JSON, as from_json takes it."""
    j = {"parameters": [
        {"name": p.name, "kind": _kind_name(p.kind),
         "optional": p.optional, "type": _type_to_json(p.type)}
        for p in self._message.parameters]}
    if self._message.HasField("result"):
      j["result"] = _type_to_json(self._message.result)
    return j

  def to_message(self):
    return self._message

  def __eq__(self, other):
    return isinstance(other, FunctionType) and self._message == other._message

  def __hash__(self):
    return hash(self._message.SerializeToString(deterministic=True))

  def __reduce__(self):
    return _from_bytes, (self._message.SerializeToString(deterministic=True),)

  def __str__(self):
    return "(%s)" % ", ".join(_PREFIXES.get(p.kind, "") + p.name + ": " + _type_text(p.type)
                              for p in self._message.parameters)

  def __repr__(self):
    return "FunctionType(%s)" % ", ".join(
        "%s: %s" % (p.name, json.dumps(_type_to_json(p.type))) for p in self._message.parameters)


# ---------------------------------------------------------------------------------------- to text
_PREFIXES = {types_pb2.Parameter.KIND_VAR_POSITIONAL: "*",
             types_pb2.Parameter.KIND_VAR_KEYWORD: "**"}


def tensor_text(dtype, shape):
  """As "float32[?,3]"; "float32[...]" for unknown rank."""
  return "%s[%s]" % (dtype, "..." if shape is None else ",".join(
      "?" if d is None else str(d) for d in shape))


def _type_text(m):
  kind = m.WhichOneof("kind")
  if kind in ("tensor", "variable"):
    like = getattr(m, kind)
    return ("" if kind == "tensor" else "Variable ") + tensor_text(
        dtypes.name(like.dtype), shape_list(like.shape))
  if kind == "literal":
    return repr(json.loads(m.literal.json))
  if kind in ("tuple", "list"):
    items = ", ".join(_type_text(i) for i in getattr(m, kind).items)
    return "(%s)" % items if kind == "tuple" else "[%s]" % items
  if kind == "dict":
    return "{%s}" % ", ".join("%r: %s" % (json.loads(k), _type_text(i)) for k, i in zip(
        m.dict.keys, m.dict.items))
  if kind in ("named_tuple", "attrs"):
    named = getattr(m, kind)
    return "%s(%s)" % (named.name, ", ".join(
        "%s=%s" % (f, _type_text(i)) for f, i in zip(named.fields, named.items)))
  if kind == "composite":
    return m.composite.spec or m.composite.class_name
  if kind == "object":
    return "<%s object>" % m.object.class_name
  return m.other.text


def _from_bytes(data):
  return FunctionType(types_pb2.FunctionType.FromString(data))


def _kind_name(kind):
  """As inspect.Parameter's, in small letters."""
  if kind == types_pb2.Parameter.KIND_UNSPECIFIED:
    kind = types_pb2.Parameter.KIND_POSITIONAL_OR_KEYWORD
  return types_pb2.Parameter.Kind.Name(kind)[len("KIND_"):].lower()


# -------------------------------------------------------------------------------------- from JSON
def _flat_from_json(j, m):
  if j.get("flat") is not None:
    m.flat = j["flat"]


def _tensor_like(j, m):
  m.dtype = dtypes.number(j["dtype"])
  m.shape.CopyFrom(shape_message(j["shape"]))


def _composite_from_json(j, m):
  m.class_name, m.spec = j["class"], j["spec"]
  for c in j.get("components", ()):
    _tensor_like(c, m.components.add())
  flat = j.get("flat")
  m.flat.extend([] if flat is None else flat)
  if "dtype" in j:
    _tensor_like(j, m.by_shape)
    m.by_shape.ragged_rank = j.get("ragged_rank") or 0
    if j.get("row_splits_dtype"):
      m.by_shape.row_splits_dtype = dtypes.number(j["row_splits_dtype"])


def _items_from_json(items, into):
  for item in items:
    _type_from_json(item, into.add())


def _type_from_json(j, m):
  kind = j["kind"]
  if kind == "tensor":
    _tensor_like(j, m.tensor)
    _flat_from_json(j, m.tensor)
  elif kind == "variable":
    _tensor_like(j, m.variable)
    m.variable.trainable = bool(j.get("trainable", False))
    m.variable.alias_id = j["alias_id"]
    _flat_from_json(j, m.variable)
  elif kind == "literal":
    m.literal.py, m.literal.json = j["py"], json.dumps(j["value"])
  elif kind in ("tuple", "list"):
    sequence = getattr(m, kind)
    sequence.SetInParent()
    _items_from_json(j["items"], sequence.items)
  elif kind == "dict":
    m.dict.SetInParent()
    m.dict.keys.extend(json.dumps(k) for k in j["keys"])
    _items_from_json(j["items"], m.dict.items)
  elif kind in ("namedtuple", "attrs"):
    named = m.named_tuple if kind == "namedtuple" else m.attrs
    named.name = j["name"]
    named.fields.extend(j["fields"])
    _items_from_json(j["items"], named.items)
  elif kind == "composite":
    _composite_from_json(j, m.composite)
  elif kind == "object":
    m.object.class_name, m.object.counter = j["class"], j["id"]
    m.object.client = j.get("client", "")
  else:
    m.other.text = j.get("text", kind)


# ---------------------------------------------------------------------------------------- to JSON
def _tensor_json(m):
  return {"dtype": dtypes.name(m.dtype), "shape": shape_list(m.shape)}


def _with_flat(j, m):
  if m.HasField("flat"):
    j["flat"] = m.flat
  return j


def _composite_to_json(m):
  j = {"kind": "composite", "class": m.class_name, "spec": m.spec}
  if m.HasField("by_shape"):
    j.update(_tensor_json(m.by_shape))
    if m.by_shape.row_splits_dtype:
      j["ragged_rank"] = m.by_shape.ragged_rank
      j["row_splits_dtype"] = dtypes.name(m.by_shape.row_splits_dtype)
  if m.flat:
    j["flat"] = list(m.flat)
  j["components"] = [_tensor_json(c) for c in m.components]
  return j


def _type_to_json(m):
  kind = m.WhichOneof("kind")
  if kind == "tensor":
    return _with_flat({"kind": kind, **_tensor_json(m.tensor)}, m.tensor)
  if kind == "variable":
    v = m.variable
    return _with_flat({"kind": kind, **_tensor_json(v), "trainable": v.trainable,
                       "alias_id": v.alias_id}, v)
  if kind == "literal":
    return {"kind": kind, "py": m.literal.py, "value": json.loads(m.literal.json)}
  if kind in ("tuple", "list"):
    return {"kind": kind, "items": [_type_to_json(i) for i in getattr(m, kind).items]}
  if kind == "dict":
    return {"kind": kind, "keys": [json.loads(k) for k in getattr(m, "dict").keys],
            "items": [_type_to_json(i) for i in getattr(m, "dict").items]}
  if kind in ("named_tuple", "attrs"):
    n = getattr(m, kind)
    return {"kind": kind.replace("_", ""), "name": n.name, "fields": list(n.fields),
            "items": [_type_to_json(i) for i in n.items]}
  if kind == "composite":
    return _composite_to_json(m.composite)
  if kind == "object":
    j = {"kind": kind, "class": m.object.class_name, "id": m.object.counter}
    if m.object.client:
      j["client"] = m.object.client
    return j
  return {"kind": "other", "text": m.other.text}
