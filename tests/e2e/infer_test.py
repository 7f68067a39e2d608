"""Triton's own clients, over gRPC and over HTTP: inferences by the Open Inference Protocol."""
import json
import shutil
import subprocess

import formwork
import grpc
import numpy as np
import pytest
import tensorflow as tf
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

import infer_cases
import server_process
from infer_cases import (BAD, DTYPES, MISSING, UNANSWERED, X, client, connect, infer, inputs_of, library,
                         post, process, refused, stub, values_of)

FIELDS = {
    "BOOL": "bool", "INT8": "int", "INT16": "int", "INT32": "int", "INT64": "int64",
    "UINT8": "uint", "UINT16": "uint", "UINT32": "uint", "UINT64": "uint64", "FP32": "fp32",
    "FP64": "fp64", "BYTES": "bytes"}


def fields_of(messages):
  """{message: {field: (number, type, ...)}} of a descriptor's messages, nested ones too."""
  found = {}
  for message in messages:
    found[message.name] = {f.name: (f.number, f.type, f.label, f.type_name) for f in message.field}
    for name, fields in fields_of(message.nested_type).items():
      found[message.name + "." + name] = fields
  return found


def test_messages_are_those_of_tritons_clients(tmp_path):
  """Every message and field that there is has the number and type that it has there."""
  protoc = shutil.which("protoc")
  if protoc is None:
    pytest.skip("no protoc")
  subprocess.run([protoc, "-I", str(server_process.ROOT / "proto"), "-o", str(tmp_path / "set"),
                  "formwork/serving/inference_service.proto"], check=True)
  ours = descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "set").read_bytes()).file[0]
  theirs = [descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
            for module in (service_pb2, model_config_pb2)]
  their_fields = {}
  for file in theirs:
    their_fields.update(fields_of(file.message_type))
  for message, fields in fields_of(ours.message_type).items():
    if message != "Unanswered":
      for field, described in fields.items():
        assert their_fields[message][field] == described, (message, field)
  their_methods = {m.name: m for m in theirs[0].service[0].method}
  our_methods = {m.name: m for m in ours.service[0].method}
  assert set(our_methods) == set(their_methods)
  for name, method in our_methods.items():
    if method.input_type != ".inference.Unanswered":
      method.ClearField("options")
      their_methods[name].ClearField("options")
      assert method == their_methods[name]
  enums = {v.name: v.number for v in theirs[1].enum_type[0].value}
  assert {v.name: v.number for v in ours.enum_type[0].value} == enums


def test_infer(client, library):
  answer = infer(client, library, {"x": X}, request_id="one")
  np.testing.assert_array_equal(answer.as_numpy("y"), X, strict=True)
  np.testing.assert_array_equal(answer.as_numpy("sum"), np.float32([1, 5, 9]), strict=True)
  np.testing.assert_array_equal(answer.as_numpy("count"), np.int32(3))
  assert answer.as_numpy("count").shape == ()
  response = answer.get_response()
  if library is over_grpc:
    assert (response.model_name, response.model_version, response.id) == ("m", "7", "one")
  else:
    assert (response["model_name"], response["model_version"], response["id"]) == ("m", "7", "one")


def test_every_dtype(client, library):
  given = {name: values_of(name) for name in DTYPES}
  answer = infer(client, library, given, "m/same")
  for name, value in given.items():
    np.testing.assert_array_equal(answer.as_numpy("same_" + name), value, strict=True)
  empty = {name: value[:0] for name, value in given.items()}
  answer = infer(client, library, empty, "m/same")
  for name, value in empty.items():
    np.testing.assert_array_equal(answer.as_numpy("same_" + name), value, strict=True)


def test_typed_contents(process, stub):
  with formwork.connect(process.grpc) as server:
    for name, field in FIELDS.items():
      value = values_of(name)
      same = server.function(lambda x: tf.identity(x), name="one_" + name, input_signature=[
          tf.TensorSpec(None, infer_cases.tensorflow_dtype(name), name="x")])
      same(tf.constant(value))
      request = service_pb2.ModelInferRequest(model_name="one_" + name)
      made = request.inputs.add(name="x", datatype=name, shape=[2, 2])
      getattr(made.contents, field + "_contents").extend(value.reshape(-1).tolist())
      answer = over_grpc.InferResult(stub.ModelInfer(request))
      np.testing.assert_array_equal(answer.as_numpy("output_0"), value, strict=True)


def test_json_of_every_dtype(process):
  """In and out; what is no text is sent and asked for as binary, and so is BF16 in this client."""
  with connect(process, over_http) as client:
    given = {name: values_of(name) for name in DTYPES}
    given["BYTES"] = np.array([[b"a", b""], ["ä€".encode(), b"z\0"]], object)
    inputs, outputs = [], []
    for name, value in given.items():
      binary = name == "BF16"
      inputs += inputs_of(over_http, {name: value}, binary_data=binary)
      outputs.append(over_http.InferRequestedOutput("same_" + name, binary_data=binary))
    answer = client.infer("m/same", inputs, outputs=outputs)
    for name, value in given.items():
      if name == "BYTES":
        value = np.array([[v.decode() for v in row] for row in value], object)
      np.testing.assert_array_equal(answer.as_numpy("same_" + name), value, strict=True)


def body(**fields):
  return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 2],
                      "data": X.reshape(-1).tolist(), **fields}]}


def test_plain_json(process):
  for data in (X.reshape(-1).tolist(), X.tolist()):
    status, answer = post(process, "/models/m/versions/7/infer",
                          {"id": "a", "outputs": [{"name": "sum"}], **body(data=data)})
    assert status == 200 and answer == {
        "model_name": "m", "model_version": "7", "id": "a",
        "outputs": [{"name": "sum", "datatype": "FP32", "shape": [3], "data": [1.0, 5.0, 9.0]}]}


def test_what_is_wrong_in_http(process):
  def wrong(code, words, given, path="/models/m/infer", **options):
    status, answer = post(process, path, given, **options)
    assert status == code and list(answer) == ["error"], answer
    for word in words:
      assert word in answer["error"], answer
    assert answer["error"].count("input 'x'") <= 1, answer
  wrong(400, ["model 'm'", "JSON"], "")
  wrong(400, ["JSON"], "[1]")
  wrong(400, ["JSON"], '{"inputs": [{"name": "x"')
  wrong(400, ["'x'", "shape"], {"inputs": [{"name": "x", "datatype": "FP32", "data": []}]})
  wrong(400, ["'x'", "data"], {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]})
  wrong(400, ["'x'", "FLOAT"], body(datatype="FLOAT"))
  wrong(400, ["'x'", "shape"], body(shape=[4, 2]))
  wrong(400, ["'x'", "shape"], body(shape=[-1, 2]))
  wrong(400, ["'x'", "shape"], body(shape="3"))
  wrong(400, ["'x'"], body(shape=[2**62, 2**62]))
  wrong(400, ["'x'", "[1]"], body(data=[1, "a", 3, 4, 5, 6]))
  wrong(400, ["'x'", "shape"], body(data=[[0, 1, 2], [3, 4, 5]]))
  wrong(400, ["'x'"], body(data={"b64": "AA=="}))
  wrong(400, ["'x'", "binary_data_size"], body(parameters={"binary_data_size": 24}))
  wrong(400, ["twice"], '{"inputs": [], "inputs": []}')
  wrong(400, ["UTF-8"], b'{"id": "\xff"}')
  wrong(400, ["deep"], '{"others": ' + "[" * 100000)
  wrong(400, ["deep"], '{"inputs": [{"data": ' + "[" * 100000)
  wrong(400, ["missing", "'x'"], {"inputs": []})
  wrong(400, ["'z'"], {"outputs": [{"name": "z"}], **body()})
  binary = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3, 2],
                        "parameters": {"binary_data_size": 24}}]}
  text = json.dumps(binary)
  length = {"Inference-Header-Content-Length": str(len(text))}
  assert post(process, "/models/m/infer", text.encode() + X.tobytes(), length)[0] == 200
  wrong(400, ["'x'", "left=23"], text.encode() + X.tobytes()[:-1], headers=length)
  wrong(400, ["no input"], text.encode() + X.tobytes() + b"1", headers=length)
  wrong(400, ["'x'", "left=0"], text)
  for size in ("-1", "x", str(len(text) + 25), str(2**64)):
    wrong(400, ["Inference-Header-Content-Length"], text.encode() + X.tobytes(),
          headers={"Inference-Header-Content-Length": size})
  wrong(501, ["Content-Encoding"], body(), headers={"Content-Encoding": "gzip"})
  wrong(403, ["Origin"], body(), headers={"Origin": "http://example.com"})
  wrong(404, ["'m'"], body(), headers={"Formwork-Namespace": "elsewhere"})
  wrong(404, ["version=7"], body(), "/models/m/versions/8/infer")
  wrong(404, ["version"], body(), "/models/m/versions/x/infer")
  wrong(404, ["'no'"], body(), "/models/no/infer")
  wrong(404, ["/v2/other"], None, "/other", method="GET")
  wrong(405, ["GET"], body(), "/models/m")
  wrong(405, ["POST"], None, "/models/m/infer", method="GET")
  wrong(400, ["UTF-8", "binary_data"], {
      "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]},
        "/models/raw/infer")


def test_outputs(client, library):
  answer = infer(client, library, {"x": X}, outputs=["sum", "y"])
  np.testing.assert_array_equal(answer.as_numpy("y"), X)
  assert answer.as_numpy("count") is None
  response = answer.get_response()
  outputs = response.outputs if library is over_grpc else response["outputs"]
  assert [o.name if library is over_grpc else o["name"] for o in outputs] == ["sum", "y"]
  refused(["model 'm'", "'z'"], BAD, infer, client, library, {"x": X}, outputs=["z"])
  refused(["twice"], BAD, infer, client, library, {"x": X}, outputs=["y", "y"])
  np.testing.assert_array_equal(
      infer(client, library, {"text": np.array([b"a"], object)}, "raw").as_numpy("raw"),
      np.array([b"a\xff"], object))


def test_what_is_wrong(client, library):
  refused(["'no'"], MISSING, infer, client, library, {"x": X}, "no")
  refused(["version=7"], MISSING, infer, client, library, {"x": X}, model_version="8")
  refused(["'x8'"], MISSING, infer, client, library, {"x": X}, model_version="x8")
  assert infer(client, library, {"x": X}, model_version="7").as_numpy("y") is not None
  refused(["model 'm'", "missing", "'x'", "unknown", "'z'"], BAD, infer, client, library, {"z": X})
  refused(["dtype", "float"], BAD, infer, client, library, {"x": X.astype(np.int32)})
  refused(["shape", "[?,2]"], BAD, infer, client, library, {"x": X[:, :1]})
  refused(["'z'", "complex64"], BAD, infer, client, library, {"x": X[0]}, "m/complex")
  refused(["sequence_id"], UNANSWERED, infer, client, library, {"x": X}, sequence_id=3)
  assert infer(client, library, {"x": X}, priority=2, timeout=20000000,
               parameters={"own": "text"}).as_numpy("y") is not None
  classes = library.InferRequestedOutput("y", class_count=2)
  refused(["'y'", "classification"], UNANSWERED, client.infer, "m", inputs_of(library, {"x": X}),
          outputs=[classes])
  shared = library.InferInput("x", [3, 2], "FP32")
  shared.set_shared_memory("region", 24)
  refused(["'x'", "shared_memory"], UNANSWERED, client.infer, "m", [shared])


def test_bytes_that_are_no_request(process):
  whole = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
  whole.inputs.add(name="x", datatype="FP32", shape=[3, 2])
  whole = whole.SerializeToString()
  with process.channel() as channel:
    ask = server_process.unary(channel, "/inference.GRPCInferenceService/ModelInfer")
    for cut in range(len(whole)):
      with pytest.raises(grpc.RpcError) as error:
        ask(whole[:cut])
      assert error.value.code() in (grpc.StatusCode.INVALID_ARGUMENT,
                                    grpc.StatusCode.NOT_FOUND), error.value
    ask(whole)


def test_large_values(client, library):
  x = np.random.default_rng(1).normal(size=[300000, 2]).astype(np.float32)
  np.testing.assert_array_equal(infer(client, library, {"x": x}).as_numpy("y"), x)
  texts = np.array([b"text %d" % i for i in range(20000)], object)
  found = infer(client, library, {"text": texts}, "raw").as_numpy("raw")
  np.testing.assert_array_equal(found, np.array([t + b"\xff" for t in texts], object))


def test_server(client, library):
  assert client.is_server_live() and client.is_server_ready()
  metadata = client.get_server_metadata()
  if library is over_grpc:
    assert metadata.name == "formwork" and "binary_tensor_data" in metadata.extensions
  else:
    assert metadata["name"] == "formwork" and "binary_tensor_data" in metadata["extensions"]
    assert metadata["version"].count(".") == 2


def test_models(client, library):
  assert client.is_model_ready("m") and client.is_model_ready("m", "7")
  assert client.is_model_ready("m/rows")
  assert not client.is_model_ready("no") and not client.is_model_ready("m", "8")
  options = {"as_json": True} if library is over_grpc else {}
  metadata = client.get_model_metadata("m", **options)
  number = str if library is over_grpc else int  # As protobuf's JSON has 64 bits.
  assert metadata["name"] == "m" and metadata["versions"] == ["7"]
  assert metadata["inputs"] == [
      {"name": "x", "datatype": "FP32", "shape": [number(-1), number(2)]}]
  assert {o["name"]: o["datatype"] for o in metadata["outputs"]} == {
      "y": "FP32", "sum": "FP32", "count": "INT32"}
  refused(["'no'"], MISSING, client.get_model_metadata, "no")
  config = client.get_model_config("m", "7", **options)
  config = config.get("config", config)
  assert config["name"] == "m" and config.get("max_batch_size", 0) == 0
  assert config["input"] == [
      {"name": "x", "data_type": "TYPE_FP32", "dims": [number(-1), number(2)]}]
  same = client.get_model_config("m/same", **options)
  same = same.get("config", same)
  assert {i["data_type"] for i in same["input"]} == {
      "TYPE_" + name.replace("BYTES", "STRING") for name in DTYPES}
  index = client.get_model_repository_index(**options)
  index = index["models"] if library is over_grpc else index
  assert {m["name"]: (m.get("version", ""), m["state"]) for m in index
          if m["name"].startswith("m")} == {
              name: ("7", "READY") for name in ("m", "m/rows", "m/same", "m/complex")}


def test_what_is_not_answered(client, library):
  refused(["/metrics"], UNANSWERED, client.get_inference_statistics)
  refused(["formwork load"], UNANSWERED, client.load_model, "m")
  refused(["formwork rm"], UNANSWERED, client.unload_model, "m")
  refused(["raw contents"], UNANSWERED, client.get_system_shared_memory_status)
  refused(["raw contents"], UNANSWERED, client.register_system_shared_memory, "r", "/r", 8)
  refused(["raw contents"], UNANSWERED, client.unregister_system_shared_memory)
  refused(["raw contents"], UNANSWERED, client.get_cuda_shared_memory_status)
  refused(["raw contents"], UNANSWERED, client.unregister_cuda_shared_memory)
  refused(["timeline"], UNANSWERED, client.get_trace_settings)
  refused(["--log-level"], UNANSWERED, client.get_log_settings)
