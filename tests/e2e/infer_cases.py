"""A model, and how Triton's clients ask for it: what their tests share."""
import contextlib
import http.client
import json

import formwork
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

import server_process
import serving_models

DTYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32,
    "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "BF16": ml_dtypes.bfloat16, "FP32": np.float32, "FP64": np.float64,
    "BYTES": np.object_}
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def values_of(datatype):
  return serving_models.values_of(DTYPES[datatype])


def tensorflow_dtype(datatype):
  return tf.string if datatype == "BYTES" else tf.as_dtype(DTYPES[datatype])


class Model(serving_models.Linear):

  @tf.function(input_signature=[tf.TensorSpec(None, tensorflow_dtype(name), name=name)
                                for name in DTYPES])
  def same(self, *values):
    return {"same_" + name: tf.identity(value) for name, value in zip(DTYPES, values)}

  @tf.function(input_signature=[tf.TensorSpec([None], name="x")])
  def complex(self, x):
    return {"z": tf.complex(x, x)}


def save(folder, scale=1.0):
  model = Model(scale)
  tf.saved_model.save(model, str(folder), {
      "serving_default": model.serve, "rows": model.rows, "same": model.same,
      "complex": model.complex})


@contextlib.contextmanager
def serving(files, *flags):
  """A server of the model m, version 7, and of raw, which gives bytes that are no text."""
  save(files / "m" / "7")
  with server_process.running("--files-dir", str(files), "--saved-model", "m=m", *flags) as process:
    process.files = files
    with formwork.connect(process.grpc) as server:
      @server.function(name="raw", input_signature=[tf.TensorSpec([None], tf.string, name="text")])
      def raw(text):
        return {"raw": tf.strings.join([text, tf.constant(b"\xff")])}
      raw(tf.constant(["a"]))
    yield process


def connect(process, library):
  address = process.grpc if library is over_grpc else process.http
  return library.InferenceServerClient(address)


@pytest.fixture(scope="module")
def process(tmp_path_factory):
  with serving(tmp_path_factory.mktemp("files")) as process:
    yield process


@pytest.fixture(scope="module", params=[over_grpc, over_http], ids=["grpc", "http"])
def library(request):
  return request.param


@pytest.fixture(scope="module")
def client(process, library):
  with connect(process, library) as client:
    yield client


@pytest.fixture(scope="module")
def stub(process):
  with process.channel() as channel:
    yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def inputs_of(library, values, **options):
  """options: of set_data_from_numpy."""
  made = []
  for name, value in values.items():
    datatype = next(d for d, dtype in DTYPES.items() if dtype == value.dtype.type)
    made.append(library.InferInput(name, list(value.shape), datatype))
    made[-1].set_data_from_numpy(value, **options)
  return made


def infer(client, library, values, name="m", outputs=(), **options):
  requested = [library.InferRequestedOutput(output) for output in outputs] or None
  return client.infer(name, inputs_of(library, values), outputs=requested, **options)


def refused(words, status, ask, *given, **options):
  """status: of gRPC and of HTTP; either will do."""
  with pytest.raises(InferenceServerException) as error:
    ask(*given, **options)
  assert error.value.status() in status, error.value
  for word in words:
    assert word in error.value.message(), error.value


BAD = ("StatusCode.INVALID_ARGUMENT", "400")
MISSING = ("StatusCode.NOT_FOUND", "404")
UNANSWERED = ("StatusCode.UNIMPLEMENTED", "501")


def post(process, path, body, headers={}, method="POST"):
  connection = http.client.HTTPConnection(process.http, timeout=60)
  if not isinstance(body, (bytes, str, type(None))):
    body = json.dumps(body)
  connection.request(method, "/v2" + path, body, headers)
  answer = connection.getresponse()
  text = answer.read()
  connection.close()
  return answer.status, json.loads(text) if text else None


def spinning(process):
  """A function that never ends."""
  with formwork.connect(process.grpc) as server:
    @server.function(name="spin", input_signature=[tf.TensorSpec([], name="x")])
    def spin(x):
      return tf.while_loop(lambda x: x >= 0, lambda x: x + 1, [x])[0]
    spin(tf.constant(-1.0))
