"""Real TensorFlow bytes, parsed by TensorFlow's schema and by ours: field by field the same."""
import pathlib
import shutil
import subprocess

from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import message_factory
from google.protobuf import unknown_fields
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import full_type_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.framework import resource_handle_pb2
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import types_pb2

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
pytestmark = pytest.mark.skipif(shutil.which("protoc") is None, reason="no protoc")


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
  """name -> our message class, in a pool of its own: formwork.tf is loaded already, in part."""
  out = tmp_path_factory.mktemp("schemas") / "set"
  files = sorted(str(p.relative_to(PROTO)) for p in PROTO.glob("formwork/tf/*.proto"))
  subprocess.run(["protoc", "-I%s" % PROTO, "--descriptor_set_out=%s" % out, *files], check=True)
  pool = descriptor_pool.DescriptorPool()
  pending = {f.name: f for f in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file}

  def add(name):
    if name in pending:
      proto = pending.pop(name)
      for dependency in proto.dependency:
        add(dependency)
      pool.Add(proto)

  for name in list(pending):
    add(name)
  return lambda name: message_factory.GetMessageClass(
      pool.FindMessageTypeByName("formwork.tf." + name))


def compare_schemas(mine, theirs, seen):
  """Each field and enum value of ours is one of TensorFlow's."""
  if mine.full_name in seen:
    return
  seen.add(mine.full_name)
  for field in mine.fields:
    other = theirs.fields_by_number[field.number]
    what = (mine.full_name, field.name)
    assert (field.name, field.type, field.is_repeated) == (
        other.name, other.type, other.is_repeated), what
    assert (field.containing_oneof is None) == (other.containing_oneof is None), what
    assert field.is_packed == other.is_packed, what
    if field.message_type is not None:
      compare_schemas(field.message_type, other.message_type, seen)
    if field.enum_type is not None:
      assert {v.name: v.number for v in field.enum_type.values} == {
          v.name: v.number for v in other.enum_type.values}, what


@pytest.mark.parametrize("theirs", [graph_pb2.GraphDef, tensor_pb2.TensorProto, op_def_pb2.OpList,
                                    full_type_pb2.FullTypeDef, types_pb2.SerializedDType,
                                    resource_handle_pb2.ResourceHandleProto],
                         ids=lambda c: c.DESCRIPTOR.name)
def test_every_field_of_ours_is_tensorflows(ours, theirs):
  seen = set()
  compare_schemas(ours(theirs.DESCRIPTOR.name).DESCRIPTOR, theirs.DESCRIPTOR, seen)
  assert seen


def same(mine, theirs, where=""):
  """Compares two messages field by field; returns how many values there were."""
  assert not len(unknown_fields.UnknownFieldSet(mine)), where
  got = {f.number: (f, v) for f, v in mine.ListFields()}
  want = {f.number: (f, v) for f, v in theirs.ListFields()}
  assert set(got) == set(want), where
  count = 0
  for number, (field, value) in want.items():
    at = "%s.%s" % (where, field.name)
    other = got[number][1]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
      assert set(other) == set(value), at
      pairs = [(other[key], value[key]) for key in value]
    elif field.is_repeated:
      assert len(other) == len(value), at
      pairs = list(zip(other, value))
    else:
      pairs = [(other, value)]
    for a, b in pairs:
      if hasattr(b, "ListFields"):
        count += same(a, b, at)
      else:
        assert a == b or (a != a and b != b), at
        count += 1
  return count


def both(ours, theirs):
  """Parses theirs' bytes by our schema, compares, and sends ours back."""
  data = theirs.SerializeToString()
  mine = ours(theirs.DESCRIPTOR.name).FromString(data)
  count = same(mine, theirs)
  assert type(theirs).FromString(mine.SerializeToString()) == theirs
  return count


def _model():
  v = tf.Variable([[1., 2.], [3., 4.]])

  @tf.function
  def inner(x):
    return tf.nn.relu(x @ v)

  @tf.function
  def traced(x, n):
    for i in tf.range(n):
      if tf.reduce_sum(x) > 0:
        x = inner(x)
      else:
        x = tf.map_fn(lambda row: row * tf.cast(i, tf.float32), x)
    v.assign_add(x)
    tf.print("x", x, n)
    return x, tf.strings.as_string(n)

  return traced.get_concrete_function(tf.TensorSpec([2, 2]), tf.TensorSpec([], tf.int32))


def _gradient():
  v = tf.Variable(2.)

  @tf.function
  def step(x):
    with tf.GradientTape() as tape:
      y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * v), [0, x])[1]
    return tape.gradient(y, v)

  return step.get_concrete_function(tf.TensorSpec([]))


def _ragged_and_dataset():
  @tf.function
  def f(x):
    total = tf.constant(0, tf.int64)
    for y in tf.data.Dataset.range(3).map(lambda k: k * 2):
      total += y
    return tf.RaggedTensor.from_row_lengths(x, [1, 2]).to_tensor(), total

  return f.get_concrete_function(tf.TensorSpec([3]))


@pytest.mark.parametrize("make", [_model, _gradient, _ragged_and_dataset])
def test_traced_graphs(ours, make):
  graph = make().graph.as_graph_def(add_shapes=True)
  assert both(ours, graph) > 500
  assert len(graph.library.function) > 0


_DTYPES = [d for d in (getattr(tf, n) for n in dir(tf)) if isinstance(d, tf.DType)]
_DTYPES = sorted({d.as_datatype_enum: d for d in _DTYPES
                  if d not in (tf.resource, tf.variant)}.values(), key=lambda d: d.name)


@pytest.mark.parametrize("dtype", _DTYPES, ids=lambda d: d.name)
def test_tensors_of_every_dtype(ours, dtype):
  if dtype == tf.string:
    array = np.array([[b"a", b"\xff\0"], [b"", b"bc"]], object)
  else:
    array = np.array([[0, 1], [1, 0]]).astype(dtype.as_numpy_dtype)
  for values in (array, array[:1, :1], array[:0]):
    assert both(ours, tf.make_tensor_proto(values, dtype)) > 0
  listed = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
  listed.tensor_shape.dim.add(size=3, name="rows")
  listed.half_val.extend([1, -2])
  listed.float_val.extend([1.5, float("nan")])
  listed.int_val.extend([-1])
  listed.uint64_val.extend([2**64 - 1])
  listed.scomplex_val.extend([1, 2])
  listed.float8_val = b"\x3c"
  assert both(ours, listed) == 12


def test_handles_full_types_and_variants(ours):
  tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_RESOURCE)
  handle = tensor.resource_handle_val.add(device="/device:CPU:0", container="c", name="v",
                                          hash_code=2**63 + 1, maybe_type_name="Var")
  part = handle.dtypes_and_shapes.add(dtype=types_pb2.DT_BFLOAT16)
  part.shape.unknown_rank = True
  tensor.variant_val.add(type_name="tensorflow::TensorList", metadata=b"\0\1").tensors.add(
      dtype=types_pb2.DT_INT4)
  assert both(ours, tensor) == 11
  kind = full_type_pb2.FullTypeDef(type_id=full_type_pb2.TFT_PRODUCT)
  kind.args.add(type_id=full_type_pb2.TFT_ITERATOR).args.add(
      type_id=full_type_pb2.TFT_TENSOR, s="x").args.add(type_id=full_type_pb2.TFT_BFLOAT16, i=-3)
  assert both(ours, kind) == 6


def test_the_whole_op_registry(ours):
  from tensorflow.python.client import pywrap_tf_session
  ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(
      pywrap_tf_session.TF_GetAllOpList()))
  assert both(ours, ops) > 10000


def test_dtypes_have_tensorflows_numbers():
  from formwork.tf import types_pb2 as mine
  assert dict(mine.DataType.items()) == dict(types_pb2.DataType.items())
  assert np.dtype(ml_dtypes.bfloat16) == tf.bfloat16.as_numpy_dtype
