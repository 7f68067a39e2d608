"""The dtypes of each op that the server knows, against those that TensorFlow's CPU kernels take.

formwork_try_dtypes (tests/ops/try_dtypes.cc) runs the op's smallest case in each combination of
dtypes that TensorFlow registers a kernel for; none may be UNIMPLEMENTED, but for what is listed
here with its reason.
"""
import collections
import itertools
import pathlib
import subprocess
import sys

import pytest

import conftest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))
import op_table

# What any dtype means, where TensorFlow says nothing of an attr.
ANY = ("float", "double", "half", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16",
       "uint32", "uint64", "bool", "complex64", "complex128", "string")

NO_KEYS = [dtype for dtype in ANY if dtype not in ("int32", "int64", "string")]


def _no_table(keys):
  return (["%s=%s" % (keys, dtype) for dtype in NO_KEYS], "TensorFlow has no table with such keys")


NO_TENSORS = "tables hold numbers, truth values and strings"

# {op: (what is refused, as a part of combinations, and why)}.
REFUSED = {
    "AnonymousMutableDenseHashTable": (["value_dtype=resource", "value_dtype=variant"], NO_TENSORS),
    "AnonymousMutableHashTable": (["value_dtype=variant"], NO_TENSORS),
    "Cast": (["=string"], "TensorFlow's kernel takes any, and then knows of no cast of strings"),
    "ComplexAbs": (["T=complex128 Tout=float", "T=complex64 Tout=double"],
                   "TensorFlow finds no kernel for these that fits the op's signature"),
    "Eig": (["T=complex128 Tout=complex64", "T=complex64 Tout=complex128",
             "T=double Tout=complex64", "T=float Tout=complex128"],
            "TensorFlow's kernel writes elements of another size than the output's"),
    "InitializeTableV2": _no_table("Tkey"),
    "LookupTableExportV2": _no_table("Tkeys"),
    "LookupTableFindV2": _no_table("Tin"),
    "LookupTableImportV2": _no_table("Tin"),
    "LookupTableInsertV2": _no_table("Tin"),
    "LookupTableRemoveV2": _no_table("Tin"),
    "MutableDenseHashTableV2": (["value_dtype=resource", "value_dtype=variant"], NO_TENSORS),
    "MutableHashTableV2": (["value_dtype=variant"], NO_TENSORS),
    "ResourceScatterNdSub": (["T=bool"], "there is no difference of truth values"),
    "Select": (["T=resource"], "a plan is to know which resource a handle is of"),
    "SelectV2": (["T=resource"], "a plan is to know which resource a handle is of"),
    "_MklLayerNorm": (["T=bfloat16", "T=half"], "the optimizer of TensorFlow's graphs makes it, which clients "
                      "do not run; ours makes it of floats alone"),
}
REAL_PART = {"complex64": "float", "complex128": "double"}


def _is_undefined(op, combination):
  """Whether TensorFlow has a kernel for it that reads memory as what it is not."""
  dtypes = dict(combination)
  return op == "SparseAdd" and dtypes["Treal"] != REAL_PART.get(dtypes["T"], dtypes["T"])


def _binary():
  server = conftest.find_server()
  binary = server and server.parent / "formwork_try_dtypes"
  return binary if binary and binary.exists() else None


pytestmark = pytest.mark.skipif(_binary() is None, reason="formwork_try_dtypes is not built")


def _names(numbers):
  from tensorflow.core.framework import types_pb2
  names = (types_pb2.DataType.Name(number)[3:].lower() for number in numbers)
  return [name for name in names if not name.endswith("_ref")]


def _combinations(op_def, kernels):
  """What TensorFlow takes of an op: {((attr, dtype), ...)}."""
  found = set()
  for kernel in kernels:
    if kernel.device_type not in ("CPU", "DEFAULT") or kernel.label:
      continue
    allowed = {c.name: c.allowed_values.list.type for c in kernel.constraint}
    of_attrs = []
    for attr in op_def.attr:
      if attr.type == "type":
        declared = attr.allowed_values.list.type
        numbers = allowed.get(attr.name) or declared
        names = _names(x for x in numbers if not declared or x in declared) if numbers else ANY
        of_attrs.append([(attr.name, name) for name in names])
    found.update(itertools.product(*of_attrs))
  return {combination for combination in found if not _is_undefined(op_def.name, combination)}


def find_verdicts():
  """{op: {verdict: [combination as text]}}."""
  import tensorflow  # noqa: F401  (fills the registry)
  from tensorflow.core.framework import op_def_pb2
  from tensorflow.python.client import pywrap_tf_session
  from tensorflow.python.framework import kernels
  ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(
      pywrap_tf_session.TF_GetAllOpList()))
  of_op = collections.defaultdict(list)
  for kernel in kernels.get_all_registered_kernels().kernel:
    of_op[kernel.op].append(kernel)
  lines = [" ".join([op.name] + ["%s=%s" % pair for pair in combination])
           for op in ops.op for combination in sorted(_combinations(op, of_op[op.name]))]
  told = subprocess.run([str(_binary())], input="\n".join(lines), capture_output=True, text=True,
                        check=True).stdout
  found = collections.defaultdict(lambda: collections.defaultdict(list))
  for line in told.splitlines():
    verdict, op, *combination = line.split(" ")
    found[op][verdict].append(" ".join(combination))
  return found


@pytest.fixture(scope="module")
def verdicts():
  return find_verdicts()


def table(verdicts):
  """What core/ops/TABLE.md is to be."""
  printed = subprocess.run([str(_binary().parent / "formwork_print_ops")], capture_output=True,
                           text=True, check=True).stdout
  return op_table.text(op_table.declared(printed), verdicts, _names, ANY)


def _is_excepted(op, combination):
  return any(part in combination for part in REFUSED.get(op, ([], ""))[0])


def test_no_dtype_of_tensorflows_is_refused(verdicts):
  wrong = {op: [x for x in of_op["refused"] if not _is_excepted(op, x)]
           for op, of_op in verdicts.items()}
  assert not {op: refused for op, refused in wrong.items() if refused}


@pytest.mark.parametrize("op", sorted(REFUSED))
def test_exceptions_are_refused(verdicts, op):
  for part in REFUSED[op][0]:
    assert any(part in x for x in verdicts[op]["refused"]), "no exception any more"


def test_most_are_tried(verdicts):
  assert sum(len(of_op["runs"]) for of_op in verdicts.values()) > 8500


def test_the_table_is_up_to_date(verdicts):
  assert op_table.PATH.read_text() == table(verdicts), "run tests/ops/op_table.py"
