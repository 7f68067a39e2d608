"""Triton's own clients: streams, calls that end early, models that come and go."""
import http.client
import json
import queue
import threading
import time

import formwork
import numpy as np
import pytest
import tensorflow as tf
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

import changing_models
import server_process
from infer_cases import (MISSING, X, client, connect, infer, inputs_of, library, process, refused, save,
                         spinning, stub)


class Stream:
  """A stream of a client's, and its answers in order."""

  def __init__(self, client, **options):
    self.client, self.answers = client, queue.Queue()
    client.start_stream(lambda result, error: self.answers.put((result, error)), **options)

  def send(self, values, name="m", **options):
    self.client.async_stream_infer(name, inputs_of(over_grpc, values), **options)

  def next(self):
    result, error = self.answers.get(timeout=20)
    if error is not None:
      raise error
    return result


def test_timeout(process, client, library):
  spinning(process)
  zero = np.array(0, np.float32)
  started = time.monotonic()
  refused([], ("StatusCode.DEADLINE_EXCEEDED", "504"), infer, client, library, {"x": zero}, "spin",
          timeout=200000)
  assert time.monotonic() - started < 20


def await_running(process, count):
  deadline = time.monotonic() + 20
  while process.metric("formwork_calls_running") != count and time.monotonic() < deadline:
    time.sleep(0.01)
  assert process.metric("formwork_calls_running") == count


def test_stream(process):
  with connect(process, over_grpc) as client:
    stream = Stream(client)
    for i in range(40):
      name = "m" if i % 4 else "no"
      stream.send({"x": X + i}, name, request_id=str(i), enable_empty_final_response=True)
    for i in range(40):
      if i % 4 == 0:
        with pytest.raises(InferenceServerException, match="'no'"):
          stream.next()
        continue
      answer = stream.next()
      response = answer.get_response()
      assert response.id == str(i)
      assert response.parameters["triton_final_response"].bool_param
      np.testing.assert_array_equal(answer.as_numpy("y"), X + i)
    x = np.random.default_rng(1).normal(size=[300000, 2]).astype(np.float32)
    stream.send({"x": x})
    np.testing.assert_array_equal(stream.next().as_numpy("y"), x)
    texts = np.array([b"text %d" % i for i in range(20000)], object)
    stream.send({"text": texts}, "raw")
    assert stream.next().as_numpy("raw").shape == texts.shape
    client.stop_stream()
  assert process.metric("formwork_call_streams") == 0


def test_bytes_that_are_no_request_of_a_stream(process):
  with process.channel() as channel:
    ask = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
    good = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
    good.inputs.add(name="x", datatype="FP32", shape=[3, 2])
    answers = [service_pb2.ModelStreamInferResponse.FromString(answer) for answer in ask(
        iter([b"\xff", good.SerializeToString(), b""]), timeout=20)]
  assert [bool(a.error_message) for a in answers] == [True, False, True]
  assert "malformed" in answers[0].error_message and "no model" in answers[2].error_message


def test_a_client_that_leaves_cancels_its_call(process, stub):
  spinning(process)
  request = service_pb2.ModelInferRequest(model_name="spin",
                                          raw_input_contents=[np.float32(0).tobytes()])
  request.inputs.add(name="x", datatype="FP32", shape=[])
  call = stub.ModelInfer.future(request)
  await_running(process, 1)
  call.cancel()
  await_running(process, 0)
  streamed = stub.ModelStreamInfer(iter([request]))
  await_running(process, 1)
  streamed.cancel()
  await_running(process, 0)
  assert process.metric("formwork_call_streams") == 0
  connection = http.client.HTTPConnection(process.http, timeout=60)
  connection.request("POST", "/v2/models/spin/infer", json.dumps(
      {"inputs": [{"name": "x", "datatype": "FP32", "shape": [], "data": [0]}]}))
  await_running(process, 1)
  connection.close()
  await_running(process, 0)


def test_any_function_and_namespace(process, client, library):
  """Of clients that register functions; its outputs have the names that SavedModels give them."""
  space = "team_" + library.__name__.rsplit(".", 1)[1]
  headers = {"formwork-namespace": space}
  with formwork.connect(process.grpc, namespace=space) as server:
    @server.function(name="add", input_signature=[tf.TensorSpec([], name="a"),
                                                  tf.TensorSpec([], name="b")])
    def add(a, b):
      return a + b, a - b
    add(tf.constant(1.0), tf.constant(0.0))
    given = {"b": np.array(5, np.float32), "a": np.array(2, np.float32)}
    refused(["'add'"], MISSING, infer, client, library, given, "add")
    answer = infer(client, library, given, "add", headers=headers)
    assert [answer.as_numpy("output_%d" % i) for i in range(2)] == [7, -3]
    assert client.is_model_ready("add", headers=headers) and not client.is_model_ready("add")
    index = client.get_model_repository_index(headers=headers)
    models = index.models if library is over_grpc else index
    assert [m.name if library is over_grpc else m["name"] for m in models] == ["add"]
  assert process.metric('formwork_calls_total{code="OK",namespace="%s"}' % space) == 2


def test_versions_that_come_and_go(process, library):
  name = "live_" + library.__name__.rsplit(".", 1)[1]

  def ask_as_a_client():
    client = connect(process, library)

    def ask():
      answer = infer(client, library, {"x": X}, name, outputs=["y"])
      response = answer.get_response()
      version = int(response.model_version if library is over_grpc else response["model_version"])
      np.testing.assert_array_equal(answer.as_numpy("y"), X * version)
      return version
    return ask
  changing_models.call_while_replaced(
      process.grpc, name, lambda version: save(process.files / name / str(version), version), 5,
      ask_as_a_client)


def test_calls_that_are_computed_as_one(tmp_path, library):
  save(tmp_path / "m")
  with server_process.running("--files-dir", str(tmp_path), "--saved-model", "m=m",
                              "--max-batch-rows=64") as process:
    with connect(process, library) as client:
      options = {"as_json": True} if library is over_grpc else {}
      config = client.get_model_config("m/rows", **options)
      config = config.get("config", config)
      assert config["max_batch_size"] == 64 and config["dynamic_batching"] == {}
      assert [[int(d) for d in i["dims"]] for i in config["input"] + config["output"]] == [[2], [2]]
    wrong = []

    def keep_asking(k):
      with connect(process, library) as client:
        for i in range(60):
          x = np.full([1 + i % 3, 2], 1000 * k + i, np.float32)
          if not np.array_equal(infer(client, library, {"x": x}, "m/rows").as_numpy("y"), x):
            wrong.append(x)
    threads = [threading.Thread(target=keep_asking, args=[k]) for k in range(6)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    assert not wrong


def test_switched_off():
  with server_process.running("--rest=false") as process:
    assert process.get("/v2/health/live")[0] == 404
    with connect(process, over_grpc) as client:
      assert client.is_server_live()


def test_a_drain(tmp_path):
  """Ready, then not, while calls are still taken; a stream ends, and no answer is cut off."""
  save(tmp_path / "m")
  with server_process.running("--files-dir", str(tmp_path), "--saved-model", "m=m",
                              "--lame-duck=1") as process:
    x = np.ones([400000, 2], np.float32)
    with connect(process, over_grpc) as client, connect(process, over_http) as web:
      stream = Stream(client)
      stream.send({"x": X})
      stream.next()
      process.terminate()
      deadline = time.monotonic() + 5
      while client.is_server_ready() and time.monotonic() < deadline:
        time.sleep(0.005)
      assert not client.is_server_ready() and client.is_server_live()
      assert not web.is_server_ready() and web.is_server_live()
      np.testing.assert_array_equal(infer(client, over_grpc, {"x": x}).as_numpy("y"), x)
      np.testing.assert_array_equal(infer(web, over_http, {"x": x}).as_numpy("y"), x)
      stream.send({"x": X})
      np.testing.assert_array_equal(stream.next().as_numpy("y"), X)
      with pytest.raises(InferenceServerException, match="shutting down"):
        stream.next()
