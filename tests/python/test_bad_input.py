"""Bad input, line by line: a clear error of the right code that names the culprit, in time; the
server goes on, and nothing stored is lost."""
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import tensor_shape_pb2

import formwork
from formwork import channel as channel_lib
from formwork.v1 import calls_pb2
from formwork.v1 import functions_pb2
from formwork.v1 import variables_pb2
import graphs
from graphs import FLOAT, INT32, STRING, call, constant, function, graph, node, placeholder

X = formwork.TensorSpec("x:0", "float32", [None])
LONG = 1 << 20  # Of a name.
# Seconds, on a machine that is busy with other things: what is bad here takes minutes or for ever.
IN_TIME = 60


@pytest.fixture(autouse=True)
def stored(live):
  """What was there before: after each test it must work as it did."""
  variable = live.variable("kept", initial_value=np.float32([1, 2, 3]))
  good = live.register(
      "good", graph(placeholder(), placeholder("w", graphs.RESOURCE),
                    node("read", "ReadVariableOp", ["w"], dtype=FLOAT),
                    node("y", "AddV2", ["x", "read"], T=FLOAT)),
      inputs=[X], outputs=["y:0"], captures={"w:0": variable})
  yield good
  assert good(np.float32([1, 1, 1]))[0].tolist() == [2, 3, 4]
  assert variable.read().tolist() == [1, 2, 3]
  assert [v.name for v in live.variables()].count("kept") == 1


def register(live, graph_def, outputs=("y:0",), inputs=(X,), name="bad", **rest):
  return live.register(name, graph_def, inputs=list(inputs), outputs=list(outputs),
                       timeout=IN_TIME, **rest)


def refused(code, *words):
  """Expects a formwork.Error of this code whose text has all the words."""
  return _Refused(code, words)


class _Refused:
  def __init__(self, code, words):
    self._codes, self._words = [code] if isinstance(code, str) else code, words

  def __enter__(self):
    self._started = time.monotonic()
    return self

  def __exit__(self, kind, error, trace):
    assert error is not None, "it was not refused"
    if not isinstance(error, formwork.Error):
      return False
    self.error = error
    assert error.code in self._codes, error
    for word in self._words:
      assert word in error.message, error
    assert len(error.message.encode()) <= 4096
    assert time.monotonic() - self._started < IN_TIME
    return True


# ---------------------------------------------------------------------------------------- graphs
def test_an_unknown_op(live):
  with refused("UNIMPLEMENTED", "NoSuchOp", "'y'"):
    register(live, graph(placeholder(), node("y", "NoSuchOp", ["x"])))


def test_an_unknown_op_that_nothing_asks_for_does_not_matter(live):
  f = register(live, graph(placeholder(), node("other", "NoSuchOp", ["x"]),
                           node("y", "Identity", ["x"], T=FLOAT)))
  assert f(np.float32([4]))[0].tolist() == [4]


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"no graph at all", b"\x0a\x05abc",
                                  bytes(range(256)) * 8], ids=["tags", "text", "short", "bytes"])
def test_malformed_bytes(live, data):
  with refused("INVALID_ARGUMENT", "GraphDef"):
    register(live, data)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_graph(live, keep):
  whole = graph(placeholder(), *[node("n%d" % i, "Identity", ["x"], T=FLOAT) for i in range(50)],
                node("y", "Identity", ["n49"], T=FLOAT))
  with refused("INVALID_ARGUMENT"):
    register(live, whole[:int(keep * len(whole))])


def test_a_wrong_dtype(live, stored):
  with refused("INVALID_ARGUMENT", "'y'", "input 1", "float32", "int32"):
    register(live, graph(placeholder(), placeholder("k", INT32),
                         node("y", "AddV2", ["x", "k"], T=FLOAT)),
             inputs=[X, formwork.TensorSpec("k:0", "int32", [])])
  with refused("INVALID_ARGUMENT", "'x'", "float32", "int32"):
    register(live, graph(placeholder(), node("y", "Identity", ["x"], T=FLOAT)),
             inputs=[formwork.TensorSpec("x:0", "int32", [])])
  with refused("INVALID_ARGUMENT", "x:0"):
    stored(np.zeros([3], np.float64))


def test_a_wrong_rank(live, stored):
  with refused("INVALID_ARGUMENT", "x:0", "[?]", "[3,1]"):
    stored(np.zeros([3, 1], np.float32))
  f = register(live, graph(placeholder("x"), node("y", "MatMul", ["x", "x"], T=FLOAT)),
               inputs=[formwork.TensorSpec("x:0", "float32", None)])
  with refused("INVALID_ARGUMENT", "'y'", "ndims must be == 2"):
    f(np.zeros([3], np.float32))


def test_an_unknown_function(live):
  with refused("INVALID_ARGUMENT", "'y'", "'nothing'"):
    register(live, graph(placeholder(), call("y", "nothing")))
  with refused("NOT_FOUND", "'nothing'"):
    live.call("nothing", [np.float32(1)])


def test_a_missing_capture(live):
  reads = graph(placeholder("w", graphs.RESOURCE),
                node("y", "ReadVariableOp", ["w"], dtype=FLOAT))
  with refused("INVALID_ARGUMENT", "'w'", "Placeholder"):
    register(live, reads, inputs=[])
  with refused("INVALID_ARGUMENT", "v:0"):
    register(live, reads, inputs=[], captures={
        "w:0": live.variable("kept", dtype="float32", shape=[3]), "v:0": np.float32(1)})
  gone = live.variable("gone", initial_value=np.float32(1))
  gone.delete()
  with refused("NOT_FOUND", "w:0"):
    register(live, reads, inputs=[], captures={"w:0": gone})


def test_a_cycle(live):
  with refused("INVALID_ARGUMENT", "cycle", "'a'"):
    register(live, graph(placeholder(), node("a", "AddV2", ["x", "b"], T=FLOAT),
                         node("b", "Identity", ["a"], T=FLOAT),
                         node("y", "Identity", ["b"], T=FLOAT)))
  with refused("INVALID_ARGUMENT", "cycle", "'a'"):
    register(live, graph(placeholder(), node("a", "Identity", ["x", "^b"], T=FLOAT),
                         node("b", "Identity", ["x", "^a"], T=FLOAT),
                         node("y", "Identity", ["b"], T=FLOAT)))
  with refused("INVALID_ARGUMENT", "cycle", "'a'", "'f'"):
    register(live, graph(placeholder(), call("y", "f"), functions=[
        function("f", [node("a", "Identity", ["a:output:0"], T=FLOAT)], "a:output:0")]))


def test_a_recursive_function(live):
  own = function("f", [call("again", "f")], "again:output:0")
  with refused("INVALID_ARGUMENT", "'f'", "recursive"):
    register(live, graph(placeholder(), call("y", "f"), functions=[own]))
  two = [function(a, [call("again", b)], "again:output:0") for a, b in ("fg", "gf")]
  with refused("INVALID_ARGUMENT", "recursive"):
    register(live, graph(placeholder(), call("y", "f"), functions=two))


@pytest.mark.parametrize("op", ["Identity", "Neg", "Print"])
def test_a_chain_of_100000_nodes(live, op):
  """It works, and each step is done."""
  length = 100000
  if op == "Print":
    nodes = [node("n%d" % i, "NoOp", ["^n%d" % (i - 1)] if i else []) for i in range(length)]
    nodes.append(node("last", "Identity", ["x", "^n%d" % (length - 1)], T=FLOAT))
  else:
    nodes = [node("n%d" % i, op, ["n%d" % (i - 1) if i else "x"], T=FLOAT) for i in range(length)]
    nodes.append(node("last", "Identity", ["n%d" % (length - 1)], T=FLOAT))
  start = time.monotonic()
  f = register(live, graph(placeholder(), *nodes), outputs=["last:0"])
  assert f(np.float32([3]))[0].tolist() == [3]
  assert time.monotonic() - start < IN_TIME


def test_a_variable_with_another_shape(live):
  with refused("INVALID_ARGUMENT", "'kept'", "[3]", "[4]"):
    live.variable("kept", initial_value=np.zeros([4], np.float32))
  with refused("INVALID_ARGUMENT", "'kept'", "float32", "float64"):
    live.variable("kept", initial_value=np.zeros([3], np.float64))
  with refused("INVALID_ARGUMENT", "'kept'", "[4]"):
    live.variable("kept", dtype="float32", shape=[3]).assign(np.zeros([4], np.float32))
  shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=4)])
  with refused("INVALID_ARGUMENT", "'kept'", "[4]"):
    register(live, graph(
        node("h", "VarHandleOp", dtype=FLOAT, shape=attr_value_pb2.AttrValue(shape=shape),
             shared_name=b"kept"),
        node("y", "ReadVariableOp", ["h"], dtype=FLOAT)), inputs=[])


def test_problems_are_told_together(live):
  with refused("INVALID_ARGUMENT") as told:
    register(live, graph(
        placeholder(), node("unknown", "NoSuchOp", ["x"]),
        node("attr", "Identity", ["unknown"], T=FLOAT, extra=FLOAT),
        node("arity", "AddV2", ["attr"], T=FLOAT),
        node("type", "Identity", ["arity"], T=INT32),
        node("source", "Identity", ["nowhere"], T=FLOAT),
        call("missing", "nothing"),
        node("one", "Identity", ["two"], T=FLOAT), node("two", "Identity", ["one"], T=FLOAT),
        call("inner", "g"),
        node("y", "AddN", ["type", "source", "missing", "two", "inner"], T=FLOAT,
             N=graphs.number(5)),
        functions=[function("g", [node("deep", "AlsoUnknown", ["x"])], "deep:y:0")]))
  for culprit in ("NoSuchOp", "'attr'", "'arity'", "'type'", "'nowhere'", "'nothing'", "cycle",
                  "AlsoUnknown"):
    assert any(culprit in text for text in told.error.culprits), (culprit, told.error.culprits)
    assert culprit in told.error.message


def test_the_first_20_are_named_and_counted(live):
  nodes = [node("n%02d" % i, "NoSuchOp%d" % i) for i in range(57)]
  with refused("UNIMPLEMENTED", "n00", "n19", "and 37 more") as told:
    register(live, graph(*nodes), inputs=[], outputs=["n%02d:0" % i for i in range(57)])
  assert "n20" not in told.error.message and len(told.error.culprits) == 57


def test_all_are_in_the_details_however_many(live):
  nodes = [node("node_number_%04d" % i, "NoSuchOp%d" % i) for i in range(3000)]
  with refused("UNIMPLEMENTED", "and 2980 more") as told:
    register(live, graph(*nodes), inputs=[],
             outputs=["node_number_%04d:0" % i for i in range(3000)])
  assert len(told.error.culprits) == 3000
  assert len(told.error.message) <= 4096


@pytest.mark.parametrize("inputs, outputs, targets, words", [
    (["x:1:2:3"], ["y:0"], [], "'x:1:2:3'"), (["nothing:0"], ["y:0"], [], "'nothing:0'"),
    (["x:0"], ["nothing:0"], [], "'nothing'"), (["x:0"], ["y:1"], [], "'y'"),
    (["x:0"], [""], [], "''"), (["x:0"], ["y:-1"], [], "'y:-1'"), (["^x"], ["y:0"], [], "'^x'"),
    (["x:0"], ["y:99999999999999999999"], [], "99999"),
    (["x:0"], ["y:0"], ["nothing"], "'nothing'"), (["x:0"], ["y:0"], ["y:7:7:7"], "y:7:7:7"),
    (["x:0", "x:0"], ["y:0"], [], "x:0"), (["x:3"], ["y:0"], [], "x:3")])
def test_a_cut_that_is_not_in_the_graph(live, inputs, outputs, targets, words):
  with refused("INVALID_ARGUMENT", words):
    register(live, graph(placeholder(), node("y", "Identity", ["x"], T=FLOAT)),
             inputs=[formwork.TensorSpec(name, "float32", [None]) for name in inputs],
             outputs=outputs, targets=targets)


# -------------------------------------------------------------------------------------- requests
METHODS = sorted(m.name for m in channel_lib.SERVICE.methods if not m.client_streaming)
# What needs no more than a namespace, which is "default" where none is given.
ANSWERED = {"ListFunctions", "ListVariables", "ListTensors", "ReleaseTensors", "ReadVariables",
            "AssignVariables", "GetServerInfo", "ListOps", "ListNamespaces", "Clear"}


@pytest.fixture(scope="module")
def channel(live_target):
  with grpc.insecure_channel(live_target, [("grpc.max_receive_message_length", -1),
                                           ("grpc.max_send_message_length", -1),
                                           ("grpc.enable_http_proxy", 0)]) as made:
    yield made


def ask(channel, method, data, timeout=30):
  """(code, text) of a request."""
  if not isinstance(data, bytes):
    data = data.SerializeToString()
  path = "/formwork.v1.GraphService/" + method
  try:
    if channel_lib.SERVICE.methods_by_name[method].server_streaming:
      list(channel.unary_stream(path)(data, timeout=timeout))
    else:
      channel.unary_unary(path)(data, timeout=timeout)
    return "OK", ""
  except grpc.RpcError as error:
    assert len(error.details().encode()) <= 4096
    return error.code().name, error.details()


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_request(channel, method):
  code, text = ask(channel, method, b"")
  if method in ANSWERED:
    assert code == "OK"
  elif method == "TakeSnapshot":
    assert code == "FAILED_PRECONDITION" and "no data directory" in text
  elif method == "LoadSavedModel":
    assert code == "INVALID_ARGUMENT" and "name" in text
  elif method in ("SaveCheckpoint", "RestoreCheckpoint"):
    assert code == "FAILED_PRECONDITION" and "--files-dir" in text
  else:
    assert code in ("INVALID_ARGUMENT", "NOT_FOUND") and text


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [
    b"\xff", b"\x0a\x05abc", b"\x0a\x02\xff\xfe", b"\x0b" * 100000, b"\x7a" + b"\xff" * 9 + b"\x01",
    b"\x0a\xff\xff\xff\xff\x07"], ids=["tag", "short", "utf8", "groups", "length", "huge"])
def test_a_malformed_request(channel, method, data):
  if method in ("GetServerInfo", "TakeSnapshot", "ListNamespaces") and data == b"\x0a\x02\xff\xfe":
    return  # They have no such field: this is one that they do not know.
  code, text = ask(channel, method, data)
  assert code == "INVALID_ARGUMENT" and text


def call_request(live, good, dims, content, dtype=FLOAT):
  request = calls_pb2.CallRequest(namespace=live.namespace, function_id=good.id)
  request.inputs.add().tensor.MergeFrom(
      type(request.inputs[0].tensor)(dtype=dtype, dims=dims, content=content))
  return request


@pytest.mark.parametrize("dims, content, words", [
    ([3], b"\0" * 11, "bytes=11"), ([3], b"\0" * 13, "bytes=13"), ([3], b"", "bytes=0"),
    ([], b"\0" * 12, "bytes=12"), ([-1], b"", "-1"), ([-3], b"\0" * 12, "-3"),
    ([-1, -3], b"\0" * 12, "-1"), ([2**40], b"\0" * 12, "1099511627776"),
    ([2**62, 4], b"", "4611686018427387904"), ([2**32, 2**32], b"", "4294967296"),
    ([2**63 - 1], b"", "9223372036854775807"),
    ([1] * 255, b"\0" * 4, "255"), ([1] * 100000, b"\0" * 4, "limit=254")],
    ids=lambda v: str(v)[:30])
def test_a_feed_whose_size_is_wrong(channel, live, stored, dims, content, words):
  code, text = ask(channel, "Call", call_request(live, stored, dims, content))
  assert code == "INVALID_ARGUMENT" and "input 0" in text and words in text
  tensor = call_request(live, stored, dims, content).inputs[0].tensor
  request = variables_pb2.CreateVariableRequest(namespace=live.namespace, name="new", dtype=FLOAT)
  request.initial_value.tensor.CopyFrom(tensor)
  request.shape.unknown_rank = True
  assert ask(channel, "CreateVariable", request)[0] == "INVALID_ARGUMENT"
  request = variables_pb2.AssignVariablesRequest(namespace=live.namespace)
  request.assignments.add().variable.name = "kept"
  request.assignments[0].value.tensor.CopyFrom(tensor)
  assert ask(channel, "AssignVariables", request)[0] == "INVALID_ARGUMENT"


def text_tensor(*lengths_and_bytes):
  return b"".join(length.to_bytes(4, "little") + data for length, data in lengths_and_bytes)


@pytest.mark.parametrize("dims, content", [
    ([2], text_tensor((1, b"a"), (2, b"b"))), ([2], text_tensor((1, b"a"))),
    ([1], text_tensor((2**32 - 1, b"a"))), ([1], text_tensor((0, b"rest"))),
    ([2**40], b""), ([2**40], text_tensor((0, b""))), ([1], b"\0\0\0"), ([], b""),
    ([2**61], b"\0" * 64)], ids=lambda v: str(v)[:30])
def test_a_string_tensor_whose_lengths_lie(channel, live, dims, content):
  f = register(live, graph(placeholder("x", STRING), node("y", "Identity", ["x"], T=STRING)),
               inputs=[formwork.TensorSpec("x:0", "string", None)], name="text")
  code, text = ask(channel, "Call", call_request(live, f, dims, content, STRING))
  assert code == "INVALID_ARGUMENT" and "input 0" in text


@pytest.mark.parametrize("dtype", [0, 20, 21, 34, 101, 127, 200, 257, 2**31 - 1, -1])
def test_a_feed_of_a_dtype_that_there_is_not(channel, live, stored, dtype):
  request = call_request(live, stored, [1], b"\0" * 8)
  request.inputs[0].tensor.dtype = dtype
  assert ask(channel, "Call", request)[0] == "INVALID_ARGUMENT"
  creation = variables_pb2.CreateVariableRequest(
      namespace=live.namespace, name="new", dtype=dtype, initial_value=request.inputs[0])
  assert ask(channel, "CreateVariable", creation)[0] == "INVALID_ARGUMENT"
  register_request = functions_pb2.RegisterRequest(
      namespace=live.namespace, name="bad", outputs=["y:0"],
      graph_def=graph(placeholder(), node("y", "Identity", ["x"], T=FLOAT)))
  register_request.inputs.add(name="x:0", dtype=dtype)
  assert ask(channel, "Register", register_request)[0] == "INVALID_ARGUMENT"


def test_a_wrong_number_of_inputs(channel, live, stored):
  request = calls_pb2.CallRequest(namespace=live.namespace, function_id=stored.id)
  code, text = ask(channel, "Call", request)
  assert code == "INVALID_ARGUMENT" and "expected=1" in text and "given=0" in text
  request.inputs.add()
  code, text = ask(channel, "Call", request)
  assert code == "INVALID_ARGUMENT" and "input 0" in text
  request.inputs[0].resource_id = 12345
  assert ask(channel, "Call", request)[0] == "INVALID_ARGUMENT"
  request.inputs[0].kept_tensor_id = 12345
  code, text = ask(channel, "Call", request)
  assert code == "NOT_FOUND" and "12345" in text


@pytest.mark.parametrize("dims", [[-2], [2**62, 4], [2**63 - 1, 2], [1] * 255])
def test_a_variable_of_an_impossible_shape(channel, live, dims):
  request = variables_pb2.CreateVariableRequest(namespace=live.namespace, name="huge", dtype=FLOAT)
  request.shape.dims.extend(dims)
  code, _ = ask(channel, "CreateVariable", request)
  if dims[0] > 0 and len(dims) < 255:  # Uninitialised, it costs nothing; it can never be assigned.
    assert code in ("OK", "INVALID_ARGUMENT")
  else:
    assert code == "INVALID_ARGUMENT"
  assert "huge" not in [v.name for v in live.variables() if v.shape == [-2]]


def test_types_nested_beyond_reason(channel, live):
  data = b""
  for _ in range(100000):  # Type.tuple.items, from the innermost; lengths as varints.
    inner = b"\x0a" + _varint(len(data)) + data
    data = b"\x22" + _varint(len(inner)) + inner
    if len(data) > 1 << 17:
      break
  parameter = b"\x22" + _varint(len(data)) + data
  signature = b"\x0a" + _varint(len(parameter)) + parameter
  request = b"\x32" + _varint(len(signature)) + signature
  assert ask(channel, "Resolve", request)[0] == "INVALID_ARGUMENT"


def _varint(n):
  out = bytearray()
  while n >= 0x80:
    out.append(n & 0x7f | 0x80)
    n >>= 7
  return bytes(out + bytes([n]))


# --------------------------------------------------------------------------------- hostile sizes
def shape_of(*dims):
  return tensor_shape_pb2.TensorShapeProto(
      dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=d) for d in dims])


@pytest.mark.parametrize("proto", [
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(2**40), float_val=[1]),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(2**40)),
    tensor_pb2.TensorProto(dtype=STRING, tensor_shape=shape_of(2**40), string_val=[b"a"]),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(2**40), tensor_content=b"\0" * 4),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(2**32, 2**32), float_val=[1]),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(-1), float_val=[1]),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(-2), float_val=[1]),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(2), float_val=[1, 2, 3]),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(2), tensor_content=b"\0" * 7),
    tensor_pb2.TensorProto(dtype=STRING, tensor_shape=shape_of(2), tensor_content=b"\x05\x01a"),
    tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(*[1] * 300), float_val=[1]),
    tensor_pb2.TensorProto(dtype=STRING, tensor_shape=shape_of(1), string_val=[b"a", b"b"]),
    tensor_pb2.TensorProto(dtype=graphs.RESOURCE),
    tensor_pb2.TensorProto(dtype=99), tensor_pb2.TensorProto(dtype=101, float_val=[1]),
    tensor_pb2.TensorProto()], ids=lambda p: str(p)[:40].replace("\n", " "))
def test_a_constant_that_is_not_what_it_claims(live, proto):
  with refused(("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED"), "'y'"):
    register(live, graph(constant("y", proto)), inputs=[])


def test_constants_that_stand_for_more_memory_than_there_is(live):
  proto = tensor_pb2.TensorProto(dtype=FLOAT, tensor_shape=shape_of(60 << 20), float_val=[1])
  nodes = [constant("c%d" % i, proto) for i in range(400)]
  with refused(("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"), "'c"):
    register(live, graph(*nodes), inputs=[], outputs=["c%d:0" % i for i in range(400)])


def test_an_attr_with_a_huge_list(live):
  numbers = attr_value_pb2.AttrValue()
  numbers.list.i.extend([1] * 5000000)
  with refused("INVALID_ARGUMENT", "'y'", "squeeze"):
    f = register(live, graph(placeholder(), node("y", "Squeeze", ["x"], T=FLOAT,
                                                 squeeze_dims=numbers)))
    f(np.float32([1]))
  with refused("INVALID_ARGUMENT", "'y'"):
    register(live, graph(placeholder(), node("y", "IdentityN", ["x"], T=[FLOAT] * 3000000)))
  shapes = attr_value_pb2.AttrValue()
  shapes.list.shape.extend([shape_of(*[1] * 200)] * 3000)
  with refused("INVALID_ARGUMENT", "'y'"):
    register(live, graph(placeholder(), node("y", "Identity", ["x"], T=shapes)))


@pytest.mark.parametrize("n", [2**62, -1, -2**63, 1 << 20])
def test_an_op_with_a_number_of_outputs_beyond_reason(live, n):
  nodes = [placeholder(), node("axis", "Const", dtype=INT32, value=tensor_pb2.TensorProto(
      dtype=INT32, int_val=[0]))]
  nodes += [node("y%d" % i, "Split", ["axis", "x"], T=FLOAT, num_split=graphs.number(n))
            for i in range(300)]
  with refused(("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"), "'y0'", "num_split"):
    register(live, graph(*nodes), outputs=["y%d:0" % i for i in range(300)])


def test_an_op_with_very_many_inputs(live):
  n = 300000
  start = time.monotonic()
  f = register(live, graph(placeholder(), node("y", "AddN", ["x"] * n, T=FLOAT,
                                               N=graphs.number(n))))
  assert f(np.float32([1]))[0].tolist() == [n]
  assert time.monotonic() - start < IN_TIME


def test_10000_functions(live):
  made = [function("f%d" % i, [node("n", "Neg", ["x"], T=FLOAT)], "n:y:0") for i in range(10000)]
  nodes = [call("c%d" % i, "f%d" % i, ["c%d" % (i - 1) if i else "x"]) for i in range(10000)]
  start = time.monotonic()
  f = register(live, graph(placeholder(), *nodes, functions=made), outputs=["c9999:0"])
  assert f(np.float32([5]))[0].tolist() == [5]
  assert time.monotonic() - start < IN_TIME


def test_functions_nested_5000_deep(live):
  made = [function("f%d" % i, [call("c", "f%d" % (i + 1)),
                               node("n", "Neg", ["c:output:0"], T=FLOAT)], "n:y:0")
          for i in range(5000)]
  made.append(function("f5000", [node("n", "Neg", ["x"], T=FLOAT)], "n:y:0"))
  start = time.monotonic()
  f = register(live, graph(placeholder(), call("y", "f0"), functions=made))
  assert f(np.float32([5]))[0].tolist() == [-5]
  assert time.monotonic() - start < IN_TIME


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_functions_that_call_the_next_one_twice(live, op):
  """60 functions, 2**60 calls: refused, or run without unfolding them."""
  made = [function("f%d" % i, [call("a", "f%d" % (i + 1), op=op),
                               call("b", "f%d" % (i + 1), ["a:output:0"], op=op)], "b:output:0")
          for i in range(60)]
  made.append(function("f60", [node("n", "Neg", ["x"], T=FLOAT)], "n:y:0"))
  start = time.monotonic()
  try:
    f = register(live, graph(placeholder(), call("y", "f0"), functions=made))
  except formwork.Error as error:
    assert error.code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
  else:
    with refused("DEADLINE_EXCEEDED"):
      f(np.float32([1]), timeout=1)
  assert time.monotonic() - start < IN_TIME


@pytest.mark.parametrize("depth", [90, 1000, 5000])
def test_attrs_nested_beyond_reason(live, depth):
  # AttrValue.func.attr["a"]: the entry's key, then its value; from the innermost.
  data = b""
  for _ in range(depth):
    entry = b"\x0a\x01a\x12" + _varint(len(data)) + data
    func = b"\x12" + _varint(len(entry)) + entry
    data = b"\x52" + _varint(len(func)) + func
  entry = b"\x0a\x01f\x12" + _varint(len(data)) + data
  bad = node("y", "PartitionedCall").SerializeToString() + b"\x2a" + _varint(len(entry)) + entry
  with refused("INVALID_ARGUMENT"):
    register(live, b"\x0a" + _varint(len(bad)) + bad, inputs=[])


def test_names_of_a_megabyte(live):
  name = "n" * LONG
  f = register(live, graph(placeholder(), node(name, "Identity", ["x"], T=FLOAT)),
               outputs=[name + ":0"])
  assert f(np.float32([2]))[0].tolist() == [2]
  f.delete()
  with refused("UNIMPLEMENTED", "NoSuchOp", "nnn"):
    register(live, graph(placeholder(), node(name, "NoSuchOp", ["x"])), outputs=[name])
  with refused("UNIMPLEMENTED", "OOO", "'y'"):
    register(live, graph(placeholder(), node("y", "O" * LONG, ["x"])))
  with refused("INVALID_ARGUMENT", "nnn", "'y'"):
    register(live, graph(placeholder(), node("y", "Identity", [name], T=FLOAT)))
  with refused("INVALID_ARGUMENT", "'y'"):
    register(live, graph(placeholder(), node("y", "Identity", ["x"], **{name: FLOAT})))
  with refused("INVALID_ARGUMENT", "fff"):
    register(live, graph(placeholder(), call("y", "f" * LONG)))
  with refused("INVALID_ARGUMENT", "nnn"):
    register(live, graph(placeholder(), node("y", "Identity", ["x"], T=FLOAT)), outputs=[name])
  with refused("NOT_FOUND", "nnn"):
    live.call(name, [np.float32(1)])


def test_a_long_name_with_very_many_problems(live):
  """Each problem names its node: the names must not add up."""
  name = "n" * LONG
  with refused("INVALID_ARGUMENT", "nnn", "more") as told:
    register(live, graph(node(name, "AddN", ["gone%d" % i for i in range(100000)], T=FLOAT,
                              N=graphs.number(100000))), inputs=[], outputs=[name])
  assert "gone0" in told.error.message


def test_a_long_name_around_very_many_nodes(live):
  """A function's nodes are named after its call: the names must not multiply."""
  body = [node("n%d" % i, "Neg", ["n%d:y:0" % (i - 1) if i else "x"], T=FLOAT)
          for i in range(20000)]
  f = register(live, graph(placeholder(), call("y" * LONG, "f"), functions=[
      function("f", body, "n19999:y:0")]), outputs=["y" * LONG])
  assert f(np.float32([3]))[0].tolist() == [3]
  f.delete()


def test_names_that_are_no_text(channel, live):
  for bad in ("a\0b", "\n\n", " ", "'; drop", "\u202e", "é" * 3000):
    with refused("UNIMPLEMENTED", "NoSuchOp"):
      register(live, graph(placeholder(), node(bad, "NoSuchOp", ["x"])), outputs=[bad])


@pytest.mark.parametrize("functions, words", [
    ([function("f", [], "x"), function("f", [], "x")], ["'f'", "twice"]),
    ([function("f", [], "nowhere")], ["'f'", "nowhere"]),
    ([function("f", [], "x", dtype=INT32)], ["'f'"]),
    ([function("f", [], "x", parameters=())], ["'f'"]),
    ([function("f", [], "x", parameters=("x", "y"))], ["'f'", "parameters"]),
    ([function("f", [], "x", dtype=0)], ["'f'", "dtype"]),
    ([function("f", [node("n", "Neg", ["x"], T=FLOAT)], "n:nothing:0")], ["'f'", "'nothing'"]),
    ([function("f", [node("n", "Neg", ["x"], T=FLOAT)], "n:y:1")], ["'f'", "'n'"]),
    ([function("f", [node("n", "Neg", ["n2:y:0"], T=FLOAT)], "n:y:0")], ["'f'", "'n2'"])],
    ids=["twice", "result", "dtype", "none", "two", "invalid", "output", "index", "input"])
def test_a_function_that_does_not_hold_together(live, functions, words):
  with refused("INVALID_ARGUMENT", *words):
    register(live, graph(placeholder(), call("y", "f"), functions=functions))


def _with_gradients(functions, *gradients):
  """A graph whose y is the gradient of function f at x."""
  made = graph_pb2.GraphDef.FromString(graph(
      placeholder(), node("y", "SymbolicGradient", ["x", "x"], f="f", Tin=[FLOAT, FLOAT],
                          Tout=[FLOAT]), functions=functions))
  for pair in gradients:
    made.library.gradient.add(function_name=pair[0], gradient_func=pair[1])
  return made.SerializeToString()


def test_gradients_of_functions(live):
  product = function("g", [node("m", "Mul", ["x", "dy"], T=FLOAT)], "m:z:0", parameters=("x", "dy"))
  f = register(live, _with_gradients([product], ("f", "g")))
  assert f(np.float32([3]))[0].tolist() == [9]
  with refused("UNIMPLEMENTED", "'y'", "SymbolicGradient", "gradient of 'f'"):
    register(live, _with_gradients([function("f", [], "x")]))
  with refused("INVALID_ARGUMENT", "'y'", "'g' is not in the library"):
    register(live, _with_gradients([], ("f", "g")))
  with refused("INVALID_ARGUMENT", "'f' has two gradients"):
    register(live, _with_gradients([product], ("f", "g"), ("f", "g")))
  with refused("INVALID_ARGUMENT", "'g'", "parameters"):
    register(live, _with_gradients([function("g", [], "x")], ("f", "g")))
  with refused("INVALID_ARGUMENT", "'g' is recursive"):
    register(live, _with_gradients([function("g", [
        node("m", "SymbolicGradient", ["x", "dy"], f="f", Tin=[FLOAT, FLOAT], Tout=[FLOAT])],
        "m:output:0", parameters=("x", "dy"))], ("f", "g")))


def test_many_bad_requests_at_once_leave_the_server_as_it_was(live, channel):
  """Nothing of a refused registration stays."""
  before = len(live.functions()), len(live.variables())
  for i in range(300):
    with refused("UNIMPLEMENTED"):
      register(live, graph(node("h", "VarHandleOp", dtype=FLOAT, shape=attr_value_pb2.AttrValue(
          shape=shape_of(1)), shared_name=b"v%d" % i), node("y", "NoSuchOp", ["h"])), inputs=[])
  assert (len(live.functions()), len(live.variables())) == before


@pytest.mark.parametrize("rate, dtype, words", [
    (np.nan, tf.float32, "rate must be finite"), (np.inf, tf.int64, "rate must be finite"),
    (1e30, tf.int32, "rate is too large"), (1e6, tf.float16, "rate is too large")])
def test_poisson_numbers_that_tensorflow_never_finds(live, rate, dtype, words):
  draw = live.function(lambda rate: tf.random.stateless_poisson([3], [1, 2], rate, dtype))
  with refused("INVALID_ARGUMENT", words):
    draw(tf.constant(rate, tf.float32))


def test_handles_are_not_staged(live):
  """A handle is its call's own: what it names may be gone when another call takes it."""
  raw = tf.raw_ops

  @live.function
  def stage():
    raw.Stage(values=[raw.StackV2(max_size=1, elem_type=tf.float32, stack_name="s")])
    return tf.constant(1)

  @live.function
  def stage_in_map():
    handle = raw.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v")
    raw.MapStage(key=tf.constant(1, tf.int64), indices=[0], values=[handle], dtypes=[tf.resource])
    return tf.constant(1)

  @live.function
  def take():
    raw.Unstage(dtypes=[tf.int32, tf.resource])
    return tf.constant(1)

  for function in (stage, stage_in_map, take):
    with refused("UNIMPLEMENTED", "tage", "values of dtype resource"):
      function()


def test_candidates_that_are_never_drawn(live):
  @live.function
  def draw():
    return tf.random.fixed_unigram_candidate_sampler(
        tf.constant([[0]], tf.int64), 1, 2, True, 3, unigrams=[1.0, 0.0, 0.0], seed=1)[0]

  with refused("DEADLINE_EXCEEDED"):
    draw.with_timeout(1)()


@pytest.mark.parametrize("count", [np.nan, np.inf])
def test_binomial_numbers_that_tensorflow_never_finds(live, count):
  draw = live.function(lambda count: tf.random.stateless_binomial([3], [1, 2], count, 0.5,
                                                                  tf.float32))
  np.testing.assert_array_equal(draw(tf.constant(count, tf.float32)), [count] * 3)
