"""The type JSON."""
import pytest

import formwork

_TENSOR = {"kind": "tensor", "dtype": "float32", "shape": [None, 3], "flat": 0}
_TYPES = [
    _TENSOR,
    {"kind": "tensor", "dtype": "string", "shape": None},
    {"kind": "variable", "dtype": "int64", "shape": [], "trainable": True, "alias_id": 2,
     "flat": 3},
    {"kind": "literal", "py": "NoneType", "value": None},
    {"kind": "literal", "py": "float", "value": 1.5},
    {"kind": "tuple", "items": []},
    {"kind": "list", "items": [_TENSOR, {"kind": "literal", "py": "str", "value": "ü"}]},
    {"kind": "dict", "keys": ["a", 3], "items": [_TENSOR, _TENSOR]},
    {"kind": "namedtuple", "name": "P", "fields": ["x"], "items": [_TENSOR]},
    {"kind": "attrs", "name": "P", "fields": ["x"], "items": [_TENSOR]},
    {"kind": "composite", "class": "RaggedTensorSpec", "spec": "RaggedTensorSpec(…)",
     "dtype": "int32", "shape": [3, None], "ragged_rank": 1, "row_splits_dtype": "int64",
     "flat": [0, 1], "components": [{"dtype": "int32", "shape": [None]},
                                    {"dtype": "int64", "shape": [4]}]},
    {"kind": "composite", "class": "Masked.Spec", "spec": "…", "flat": [0],
     "components": [{"dtype": "bool", "shape": [2]}]},
    {"kind": "object", "class": "Adam", "id": 4},
    {"kind": "object", "class": "Adam", "id": 4, "client": "c1"},
    {"kind": "other", "text": "Something[1]"},
]


def _function_type(t, kind="positional_or_keyword"):
  return {"parameters": [{"name": "x", "kind": kind, "optional": False, "type": t}]}


@pytest.mark.parametrize("t", _TYPES, ids=lambda t: t["kind"])
def test_type_json_comes_back(t):
  j = _function_type(t)
  assert formwork.FunctionType.from_json(j).to_json() == j


@pytest.mark.parametrize("kind", ["positional_only", "var_positional", "keyword_only",
                                  "var_keyword"])
def test_parameter_kinds_come_back(kind):
  j = _function_type(_TENSOR, kind)
  assert formwork.FunctionType.from_json(j).to_json() == j


def test_function_types_are_values():
  a, b = (formwork.FunctionType.from_json(_function_type(_TENSOR)) for _ in range(2))
  c = formwork.FunctionType.from_json(_function_type(_TYPES[1]))
  assert a == b and hash(a) == hash(b) and a != c and len({a, b, c}) == 2


def test_tensor_specs_take_names_of_both_libraries():
  import numpy as np
  spec = formwork.TensorSpec("x:0", np.float32, [None, np.int64(3)])
  assert spec == formwork.TensorSpec("x:0", "float", [None, 3])
  assert formwork.TensorSpec("x:0", "bool_", None).dtype == "bool"


def test_a_type_is_shown_as_one_writes_it():
  j = {"parameters": [
      {"name": "x", "type": _TENSOR},
      {"name": "rest", "kind": "var_positional", "type": {"kind": "tuple", "items": [
          {"kind": "literal", "py": "int", "value": 3}, {"kind": "list", "items": [_TYPES[1]]}]}},
      {"name": "d", "kind": "keyword_only", "type": _TYPES[7]},
      {"name": "v", "type": _TYPES[2]}, {"name": "p", "type": _TYPES[8]},
      {"name": "r", "type": _TYPES[10]}, {"name": "o", "type": _TYPES[12]}]}
  assert str(formwork.FunctionType.from_json(j)) == (
      "(x: float32[?,3], *rest: (3, [string[...]]), d: {'a': float32[?,3], 3: float32[?,3]}, "
      "v: Variable int64[], p: P(x=float32[?,3]), r: RaggedTensorSpec(…), o: <Adam object>)")
