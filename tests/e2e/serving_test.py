"""TensorFlow Serving's own clients: its gRPC stubs."""
import threading
import time

import formwork
import grpc
import numpy as np
import pytest
import tensorflow as tf
from formwork.v1 import functions_pb2
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import classification_pb2
from tensorflow_serving.apis import get_model_metadata_pb2
from tensorflow_serving.apis import get_model_status_pb2
from tensorflow_serving.apis import inference_pb2
from tensorflow_serving.apis import model_management_pb2
from tensorflow_serving.apis import model_service_pb2_grpc
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tensorflow_serving.apis import regression_pb2

import changing_models
import server_process
import serving_models

DTYPES = [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64,
          tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string]
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def values_of(dtype):
  return serving_models.values_of(dtype.as_numpy_dtype)


class Model(serving_models.Linear):

  @tf.function(input_signature=[tf.TensorSpec(None, dtype, name=dtype.name) for dtype in DTYPES])
  def same(self, *values):
    return {"same_" + dtype.name: tf.identity(value) for dtype, value in zip(DTYPES, values)}


def save(folder, scale=1.0):
  model = Model(scale)
  tf.saved_model.save(model, str(folder), {
      "serving_default": model.serve, "rows": model.rows, "same": model.same})


@pytest.fixture(scope="module")
def process(tmp_path_factory):
  files = tmp_path_factory.mktemp("files")
  save(files / "m" / "7")
  with server_process.running("--files-dir", str(files), "--saved-model", "m=m") as process:
    process.files = files
    yield process


@pytest.fixture(scope="module")
def stub(process):
  with process.channel() as channel:
    yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def models(process):
  with process.channel() as channel:
    yield model_service_pb2_grpc.ModelServiceStub(channel)


def request(inputs, name="m", signature="", version=None, outputs=()):
  made = predict_pb2.PredictRequest()
  made.model_spec.name, made.model_spec.signature_name = name, signature
  if version is not None:
    made.model_spec.version.value = version
  for key, value in inputs.items():
    made.inputs[key].CopyFrom(
        value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value))
  made.output_filter.extend(outputs)
  return made


def refused(code, words, ask, *given, **options):
  with pytest.raises(grpc.RpcError) as error:
    ask(*given, **options)
  assert error.value.code() == code, error.value
  for word in words:
    assert word in error.value.details()


def test_predict(stub):
  answer = stub.Predict(request({"x": X}))
  assert sorted(answer.outputs) == ["count", "sum", "y"]
  np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), X)
  # As clients read them that have no numpy.
  assert list(answer.outputs["sum"].float_val) == [1, 5, 9]
  assert list(answer.outputs["count"].int_val) == [3]
  assert (answer.model_spec.name, answer.model_spec.version.value) == ("m", 7)


def test_every_dtype_and_form(stub):
  given = {dtype.name: values_of(dtype) for dtype in DTYPES}
  packed = {name: tf.make_tensor_proto(value) for name, value in given.items()}
  # The same in the fields of the dtypes, as clients write them that have no numpy.
  fields = {}
  for dtype in DTYPES:
    flat = given[dtype.name].reshape(-1)
    made = fields[dtype.name] = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape([2, 2]).as_proto())
    if dtype == tf.string:
      made.string_val.extend(flat)
    elif dtype in (tf.float16, tf.bfloat16):
      made.half_val.extend(int(v) for v in flat.view(np.uint16))
    elif dtype == tf.complex64:
      made.scomplex_val.extend(flat.view(np.float32).tolist())
    elif dtype == tf.complex128:
      made.dcomplex_val.extend(flat.view(np.float64).tolist())
    else:
      field = {tf.float32: "float", tf.float64: "double", tf.int64: "int64", tf.uint32: "uint32",
               tf.uint64: "uint64", tf.bool: "bool"}.get(dtype, "int")
      getattr(made, field + "_val").extend(flat.tolist())
  for form in (packed, fields):
    answer = stub.Predict(request(form, signature="same"))
    assert len(answer.outputs) == len(DTYPES)
    for dtype in DTYPES:
      output = answer.outputs["same_" + dtype.name]
      assert output.dtype == dtype.as_datatype_enum
      np.testing.assert_array_equal(tf.make_ndarray(output), given[dtype.name], strict=True)


def test_shapes(stub):
  for shape in ([0, 2], [1, 2], [70000, 2]):
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    answer = stub.Predict(request({"x": x}))
    np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), x)
    assert tf.make_ndarray(answer.outputs["count"]) == shape[0]
  splat = tensor_pb2.TensorProto(dtype=1, float_val=[2.5])
  splat.tensor_shape.dim.add().size = 3
  splat.tensor_shape.dim.add().size = 2
  np.testing.assert_array_equal(
      tf.make_ndarray(stub.Predict(request({"x": splat})).outputs["y"]), np.full([3, 2], 2.5))


def test_output_filter(stub):
  assert sorted(stub.Predict(request({"x": X}, outputs=["y"])).outputs) == ["y"]
  refused(grpc.StatusCode.INVALID_ARGUMENT, ["'z'"], stub.Predict, request({"x": X}, outputs=["z"]))
  refused(grpc.StatusCode.INVALID_ARGUMENT, ["twice"], stub.Predict,
          request({"x": X}, outputs=["y", "y"]))


def test_what_is_wrong(stub):
  bad, missing = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
  refused(missing, ["'no'"], stub.Predict, request({"x": X}, name="no"))
  refused(bad, ["no model"], stub.Predict, request({"x": X}, name=""))
  refused(missing, ["'other'"], stub.Predict, request({"x": X}, signature="other"))
  refused(missing, ["version 8", "version=7"], stub.Predict, request({"x": X}, version=8))
  refused(missing, ["version=7"], stub.Predict, request({"x": X}, version=-1))
  assert stub.Predict(request({"x": X}, version=7)).outputs
  refused(bad, ["missing", "'x'", "unknown", "'z'"], stub.Predict, request({"z": X}))
  refused(bad, ["unknown", "'z'"], stub.Predict, request({"x": X, "z": X}))
  refused(bad, ["dtype", "float"], stub.Predict, request({"x": X.astype(np.int32)}))
  refused(bad, ["shape", "[?,2]"], stub.Predict, request({"x": X[:, :1]}))
  short = tf.make_tensor_proto(X)
  short.tensor_content = short.tensor_content[:-1]
  refused(bad, ["input 'x'"], stub.Predict, request({"x": short}))
  labelled = request({"x": X})
  labelled.model_spec.version_label = "stable"
  refused(grpc.StatusCode.UNIMPLEMENTED, ["label"], stub.Predict, labelled)
  huge = tensor_pb2.TensorProto(dtype=1, float_val=[2.5])
  huge.tensor_shape.dim.add().size = 1 << 40
  huge.tensor_shape.dim.add().size = 2
  refused(grpc.StatusCode.RESOURCE_EXHAUSTED, ["input 'x'"], stub.Predict, request({"x": huge}))


def test_as_many_names_as_a_request_may_have(process, stub):
  """Of a function that has none of them, and of one that has all: none is compared with each."""
  names = ["x%d" % i for i in range(65536)]
  many = request({name: np.float32(1) for name in names})
  refused(grpc.StatusCode.INVALID_ARGUMENT, ["missing", "'x'", "more", "the signature takes"],
          stub.Predict, many)
  refused(grpc.StatusCode.INVALID_ARGUMENT, ["output_filter"], stub.Predict,
          request({"x": X}, outputs=names))
  specs = [formwork.TensorSpec(name + ":0", np.float32, []) for name in names]
  graph = tf.compat.v1.GraphDef()
  for name in names:
    node = graph.node.add(name=name, op="Placeholder")
    node.attr["dtype"].type = 1
  with formwork.connect(process.grpc) as server:
    server.register("many", graph.SerializeToString(), specs, [names[7] + ":0"])
  many.model_spec.name = "many"
  many.inputs[names[7]].float_val[:] = [5]
  assert list(stub.Predict(many).outputs["output_0"].float_val) == [5]


def test_what_is_not_answered(stub, models):
  unanswered = grpc.StatusCode.UNIMPLEMENTED
  refused(unanswered, ["Classify", "Predict"], stub.Classify,
          classification_pb2.ClassificationRequest())
  refused(unanswered, ["Regress", "Predict"], stub.Regress, regression_pb2.RegressionRequest())
  refused(unanswered, ["MultiInference"], stub.MultiInference,
          inference_pb2.MultiInferenceRequest())
  refused(unanswered, ["HandleReloadConfigRequest", "formwork load"],
          models.HandleReloadConfigRequest, model_management_pb2.ReloadConfigRequest())


def test_bytes_that_are_no_request(process):
  with process.channel() as channel:
    predict = server_process.unary(channel, "/tensorflow.serving.PredictionService/Predict")
    whole = request({"x": X}).SerializeToString()
    for cut in range(1, len(whole)):
      try:
        predict(whole[:cut])
      except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND), error


def test_metadata(stub):
  asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
  asked.model_spec.name = "m"
  answer = stub.GetModelMetadata(asked)
  assert (answer.model_spec.name, answer.model_spec.version.value) == ("m", 7)
  signatures = get_model_metadata_pb2.SignatureDefMap()
  assert answer.metadata["signature_def"].Unpack(signatures)
  assert sorted(signatures.signature_def) == ["rows", "same", "serving_default"]
  serve = signatures.signature_def["serving_default"]
  assert serve.method_name == "tensorflow/serving/predict"
  x = serve.inputs["x"]
  assert x.dtype == tf.float32.as_datatype_enum and tf.TensorShape(x.tensor_shape).as_list() == [
      None, 2]
  assert sorted(serve.outputs) == ["count", "sum", "y"]
  same = signatures.signature_def["same"]
  assert {name: info.dtype for name, info in same.inputs.items()} == {
      dtype.name: dtype.as_datatype_enum for dtype in DTYPES}
  assert same.inputs["string"].tensor_shape.unknown_rank
  asked.metadata_field[0] = "other"
  refused(grpc.StatusCode.INVALID_ARGUMENT, ["'other'"], stub.GetModelMetadata, asked)


def test_status(models):
  asked = get_model_status_pb2.GetModelStatusRequest()
  asked.model_spec.name = "m"
  (version,) = models.GetModelStatus(asked).model_version_status
  assert version.version == 7 and version.state == version.AVAILABLE
  asked.model_spec.version.value = 8
  refused(grpc.StatusCode.NOT_FOUND, ["version 8"], models.GetModelStatus, asked)
  asked.model_spec.name = "no"
  refused(grpc.StatusCode.NOT_FOUND, ["'no'"], models.GetModelStatus, asked)


def test_any_function_and_namespace(process, stub):
  """Of clients that register functions; its outputs have the names that SavedModels give them."""
  with formwork.connect(process.grpc, namespace="team") as server:
    w = tf.Variable(1.0)

    @server.function(name="add", input_signature=[tf.TensorSpec([], name="a"),
                                                  tf.TensorSpec([], name="b")])
    def add(a, b):
      w.assign_add(a)
      return w + b, a - b
    add(tf.constant(1.0), tf.constant(0.0))
    ask = request({"b": np.float32(5), "a": np.float32(2)}, name="add")
    refused(grpc.StatusCode.NOT_FOUND, ["'add'"], stub.Predict, ask)
    answer = stub.Predict(ask, metadata=[("formwork-namespace", "team")])
    assert [list(answer.outputs["output_%d" % i].float_val) for i in range(2)] == [[9], [-3]]
    assert not answer.model_spec.HasField("version")
  assert process.metric('formwork_calls_total{code="OK",namespace="team"}') == 2


def test_versions_that_come_and_go(process, stub):
  def ask():
    answer = stub.Predict(request({"x": X}, name="live", outputs=["y"]))
    version = answer.model_spec.version.value
    np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), X * version)
    return version
  changing_models.call_while_replaced(
      process.grpc, "live", lambda version: save(process.files / "live" / str(version), version), 7,
      lambda: ask)


def test_versions_and_batches_outlive_the_server(tmp_path):
  save(tmp_path / "files" / "m" / "12")
  flags = ("--files-dir", str(tmp_path / "files"), "--data-dir", str(tmp_path / "data"))
  for load in (("--saved-model", "m=m", "--max-batch-rows=8"), ()):
    with server_process.running(*flags, *load) as process, process.channel() as channel:
      listed = functions_pb2.ListFunctionsResponse.FromString(
          server_process.unary(channel, "ListFunctions")(b""))
      # Only the one whose inputs and outputs have rows.
      assert {f.name: (f.model_version, f.max_batch_rows) for f in listed.functions} == {
          "m": (12, 0), "m/rows": (12, 8), "m/same": (12, 0)}
      stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
      answer = stub.Predict(request({"x": X}))
      assert answer.model_spec.version.value == 12
      np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), X)


def test_calls_that_are_computed_as_one(process, stub):
  """Each is answered with its own rows, and sees what was written before it was asked for."""
  class Loop(tf.Module):

    def __init__(self):
      self.added = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
    def serve(self, x):  # Not quick: those who come meanwhile wait.
      turned = tf.while_loop(lambda i, x: i < 2000, lambda i, x: (i + 1, -x), [0, x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])])[1]
      return {"y": turned + self.added}
  model = Loop()
  tf.saved_model.save(model, str(process.files / "loop"), {"serving_default": model.serve})
  with formwork.connect(process.grpc) as server:
    (function,) = server.load_saved_model("loop", "loop", max_batch_rows=16)
    (added,) = [v for v in server.variables() if v.name.startswith("loop@")]
    written, failed = [0.0], []

    def keep_asking(k):
      for i in range(60):
        x = np.full([1 + (i + k) % 3, 2], 100 * k + i, np.float32)
        before = written[0]
        y = tf.make_ndarray(stub.Predict(request({"x": x}, name="loop")).outputs["y"])
        extra = y - x
        if y.shape != x.shape or len(set(extra.flat)) != 1 or extra.flat[0] < before:
          failed.append((x, y, before))
    threads = [threading.Thread(target=keep_asking, args=[k]) for k in range(8)]
    for thread in threads:
      thread.start()
    while any(thread.is_alive() for thread in threads):
      value = written[0] + 1
      server.assign({added: np.float32(value)})
      written[0] = value
      time.sleep(0.005)
    for thread in threads:
      thread.join()
    assert not failed, failed[:3]
  assert process.metric("formwork_batches_total") > 0
