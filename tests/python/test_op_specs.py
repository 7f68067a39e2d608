"""Every op that the server knows, against TensorFlow's registry."""
import collections
import subprocess

import numpy as np
import pytest

import conftest

Op = collections.namedtuple("Op", "inputs outputs attrs effect host")


def _ours():
  server = conftest.find_server()
  binary = server and server.parent / "formwork_print_ops"
  if not binary or not binary.exists():
    return {}
  text = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
  ops = collections.defaultdict(lambda: Op([], [], {}, [], []))
  for line in text.splitlines():
    op, what, which, fact = line.split("\t")
    if what == "attr":
      ops[op].attrs[which] = fact
    else:
      {"input": ops[op].inputs, "output": ops[op].outputs, "effect": ops[op].effect,
       "host": ops[op].host}[what].append(fact)
  return dict(ops)


OURS = _ours()
DT_INT32, DT_STRING, DT_RESOURCE, DT_VARIANT = 3, 7, 20, 21
# Made by passes alone, of what TensorFlow has no op for, and what a start runs.
NOT_THEIRS = {"_Attention", "_GateMatMul", "_ReviveIterator", "_TemporaryVariable"}
# What the importer makes of TensorFlow's: theirs have no handle.
NOT_THEIRS |= set("""
    _AddManyToTensorsMap _AddToTensorsMap _MapClear _MapIncompleteSize _MapPeek _MapSize _MapStage
    _MapUnstage _MapUnstageNoKey _Stage _StageClear _StagePeek _StageSize _StagingArea _StagingMap _TakeFromTensorsMap _TensorsMap
    _Unstage""".split())
SHARED = sorted(set(OURS) - NOT_THEIRS)
pytestmark = pytest.mark.skipif(not OURS, reason="formwork_print_ops is not built")


@pytest.fixture(scope="module")
def theirs():
  """{name: OpDef} of TensorFlow."""
  import tensorflow  # noqa: F401  (fills the registry)
  from tensorflow.core.framework import op_def_pb2
  from tensorflow.python.client import pywrap_tf_session
  ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(
      pywrap_tf_session.TF_GetAllOpList()))
  return {op.name: op for op in ops.op}


def _arg(arg):
  # A reference to a string is the handle of what newer ops have handles of.
  kind = DT_RESOURCE if arg.is_ref and arg.type == DT_STRING else arg.type
  kind = arg.type_list_attr or arg.type_attr or str(kind)
  return "%s: %s%s" % (arg.name, arg.number_attr and arg.number_attr + "*", kind)


def _scalar(kind, value):
  if kind == "bool":
    return "true" if value else "false"
  if kind == "string":
    return '"%s"' % value.decode("latin-1").replace("\\", "\\\\").replace("\n", "\\n").replace(
        "\t", "\\t").replace('"', '\\"')
  if kind == "float":
    return "%.9g" % np.float32(value)
  if kind == "shape":
    if value.unknown_rank:
      return "?"
    return "[%s]" % ",".join("?" if d.size == -1 else str(d.size) for d in value.dim)
  if kind == "func":
    return "@" + value.name
  if kind == "tensor":
    import tensorflow as tf
    array = tf.make_ndarray(value)
    return "%s[%s] %s" % (tf.as_dtype(value.dtype).name, ",".join(map(str, array.shape)),
                          " ".join("%.6g" % x for x in array.ravel()))
  return str(value)


_FIELDS = {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape",
           "tensor": "tensor", "func": "func"}


def _attr(attr):
  text = attr.type
  inner = text[5:-1] if text.startswith("list(") else text
  if attr.HasField("allowed_values"):
    allowed = [str(t) for t in attr.allowed_values.list.type]
    allowed += [_scalar("string", s) for s in attr.allowed_values.list.s]
    text += " in " + " ".join(sorted(allowed))
  if attr.has_minimum:
    text += " >= %d" % attr.minimum
  if attr.HasField("default_value"):
    value = attr.default_value
    if attr.type.startswith("list("):
      items = [_scalar(inner, x) for x in getattr(value.list, _FIELDS[inner])]
      text += " = [%s]" % ", ".join(items)
    else:
      text += " = " + _scalar(inner, getattr(value, _FIELDS[inner]))
  return text


def test_ops_of_our_own_are_not_tensorflows(theirs):
  assert NOT_THEIRS <= set(OURS)
  assert not NOT_THEIRS & set(theirs)


@pytest.mark.parametrize("name", SHARED)
def test_op_is_declared_as_tensorflow_does(theirs, name):
  ours, op = OURS[name], theirs[name]
  assert ours.inputs == [_arg(a) for a in op.input_arg]
  assert ours.outputs == [_arg(a) for a in op.output_arg]
  assert ours.attrs == {a.name: _attr(a) for a in op.attr}


# Ops whose effect is of another kind than TensorFlow's is_stateful says, and why.
OTHERWISE = {
    "PyFuncStateless": "what Python does may differ each time, whatever its caller says of it",
    "DeepCopy": "a value that nobody changes is its copy",
    "ExtractGlimpse": "what is beyond the image is drawn",
    "ExtractGlimpseV2": "what is beyond the image is drawn",
    "FractionalAvgPool": "without seeds each call draws other regions",
    "FractionalMaxPool": "without seeds each call draws other regions",
    "GetElementAtIndex": "what the dataset's functions do comes with it",
    "GuaranteeConst": "what is promised of a value does not change it",
    "MapDefun": "its function may have effects",
    "MatchingFiles": "there may be other files, so that it is neither folded nor done once for two",
    "Empty": "any elements will do, so that two of them may be one",
    "ReadFile": "the file may have changed, so that it is neither folded nor read once for two",
    "StatelessRandomGetAlg": "the algorithm is always the same",
}


@pytest.mark.parametrize("name", SHARED)
def test_effects_are_where_tensorflow_has_state(theirs, name):
  # What changes behind a reference is no state of the op there.
  stateful = theirs[name].is_stateful or any(a.is_ref for a in theirs[name].input_arg)
  if name in OTHERWISE:
    assert (OURS[name].effect == ["none"]) == stateful, "not an exception any more"
  else:
    assert (OURS[name].effect != ["none"]) == stateful


# Ops that TensorFlow has on a GPU for integers in host memory alone, where others are as well on the
# device.
HOST_INTEGERS = {"Mod", "ParallelDynamicStitch", "TruncateMod"}
# Whose kernel for GPUs has all that it computes on in host memory.
HOST_ALONE = {"BatchFunction", "Qr"}


def _wanted_on_host(name):
  """Args that all of TensorFlow's kernels for GPUs have in host memory, but for those of int32,
  which have everything there; None where it has no such kernel."""
  from tensorflow.python.framework import kernels
  registered = [k for k in kernels.get_registered_kernels_for_op(name).kernel
                if k.device_type in ("GPU", "DEFAULT")]
  if not registered:
    return None
  def of_int32(kernel):
    return any(c.name in ("T", "dtype", "type") and DT_INT32 in c.allowed_values.list.type
               for c in kernel.constraint)
  chosen = [k for k in registered if not of_int32(k)] or registered
  return set.intersection(*(set(k.host_memory_arg) for k in chosen))


@pytest.mark.parametrize("name", SHARED)
def test_host_memory_is_wanted_as_in_tensorflow(theirs, name):
  wanted = _wanted_on_host(name)
  if wanted is None or name in HOST_INTEGERS | HOST_ALONE:
    pytest.skip("TensorFlow has no kernel to compare with")
  args = [*theirs[name].input_arg, *theirs[name].output_arg]
  objects = {a.name for a in args if a.type in (DT_STRING, DT_RESOURCE, DT_VARIANT)}
  assert set(OURS[name].host) == wanted - objects
