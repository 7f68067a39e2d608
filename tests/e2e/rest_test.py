"""Predictions over HTTP, as TensorFlow Serving's REST API has them."""
import base64
import http.client
import json
import math
import threading
import time

import formwork
import numpy as np
import pytest
import tensorflow as tf

import changing_models
import server_process

X = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


class Model(tf.Module):

  def __init__(self, scale=1.0):
    self.kernel = tf.Variable(np.eye(2, dtype=np.float32) * scale)

  @tf.function(input_signature=[tf.TensorSpec([None, 2], name="x")])
  def serve(self, x):
    return {"y": x @ self.kernel}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text"),
                                tf.TensorSpec([None], tf.int64, name="n"),
                                tf.TensorSpec([None], tf.bool, name="flag")])
  def texts(self, text, n, flag):
    return {"text": tf.strings.join([text, text]), "raw_bytes": text, "n": n * 2, "flag": ~flag}

  @tf.function(input_signature=[tf.TensorSpec([], name="x")])
  def scalar(self, x):
    return {"half": x / 2, "log": tf.math.log(x)}


def save(folder, scale=1.0):
  model = Model(scale)
  tf.saved_model.save(model, str(folder), {
      "serving_default": model.serve, "texts": model.texts, "scalar": model.scalar})


@pytest.fixture(scope="module")
def process(tmp_path_factory):
  files = tmp_path_factory.mktemp("files")
  save(files / "m" / "7")
  with server_process.running("--files-dir", str(files), "--saved-model", "m=m") as process:
    process.files = files
    yield process


def ask(process, path, body=None, headers={}, connection=None):
  """(status, what was answered) of a POST of `body`, as JSON where it is no text; else of a GET."""
  made = connection or http.client.HTTPConnection(process.http, timeout=60)
  if body is not None and not isinstance(body, (str, bytes)):
    body = json.dumps(body)
  made.request("GET" if body is None else "POST", "/v1/models/" + path, body, headers)
  answer = made.getresponse()
  text = answer.read()
  assert answer.getheader("Content-Type") == "application/json"
  if connection is None:
    made.close()
  return answer.status, json.loads(text)


def predicted(process, body, path="m:predict", **options):
  status, answer = ask(process, path, body, **options)
  assert status == 200, answer
  return answer


def test_rows_and_columns(process):
  for path in ("m:predict", "m/versions/7:predict"):
    assert predicted(process, {"instances": X}, path) == {"predictions": X}
    assert predicted(process, {"instances": [{"x": row} for row in X]}, path) == {"predictions": X}
    assert predicted(process, {"inputs": X}, path) == {"outputs": X}
    assert predicted(process, {"inputs": {"x": X}}, path) == {"outputs": X}
    assert predicted(process, {"inputs": X, "signature_name": "serving_default"}, path) == {
        "outputs": X}


def test_several_inputs_of_other_dtypes(process):
  rows = [{"text": "ä\n", "n": 2**62, "flag": True}, {"text": {"b64": "/wA="}, "n": -1, "flag": False}]
  found = predicted(process, {"signature_name": "texts", "instances": rows})["predictions"]
  assert found[0] == {"text": "ä\nä\n", "n": -2**63, "flag": False,
                      "raw_bytes": {"b64": base64.b64encode("ä\n".encode()).decode()}}
  assert found[1] == {"text": {"b64": base64.b64encode(b"\xff\0\xff\0").decode()}, "n": -2,
                      "flag": True, "raw_bytes": {"b64": "/wA="}}
  columns = {name: [row[name] for row in rows] for name in rows[0]}
  found = predicted(process, {"signature_name": "texts", "inputs": columns})["outputs"]
  assert found["n"] == [-2**63, -2] and found["flag"] == [False, True]


def test_what_json_has_no_number_for(process):
  body = '{"signature_name": "scalar", "inputs": %s}'
  assert predicted(process, body % "0") == {"outputs": {"half": 0.0, "log": -math.inf}}
  found = predicted(process, body % "NaN")["outputs"]
  assert math.isnan(found["half"]) and math.isnan(found["log"])
  status, answer = ask(process, "m:predict", '{"signature_name": "scalar", "instances": [1, 2]}')
  assert status == 400 and "shape" in answer["error"]


def test_large_bodies(process):
  x = np.random.default_rng(0).normal(size=[50000, 2]).astype(np.float32)
  found = predicted(process, {"instances": x.tolist()})["predictions"]
  np.testing.assert_array_equal(np.array(found, np.float32), x)


def test_what_is_wrong(process):
  def refused(code, words, body, path="m:predict", headers={}):
    status, answer = ask(process, path, body, headers)
    assert status == code, answer
    assert list(answer) == ["error"]
    for word in words:
      assert word in answer["error"], answer
  good = {"instances": X}
  refused(404, ["'no'"], good, "no:predict")
  refused(404, ["'other'"], {"signature_name": "other", **good})
  refused(404, ["version=7"], good, "m/versions/8:predict")
  refused(404, ["version"], good, "m/versions/x:predict")
  refused(404, ["explain"], good, "m:explain")
  refused(501, ["classify"], good, "m:classify")
  refused(501, ["label"], good, "m/labels/stable:predict")
  refused(404, ["'no'"], None, "no")
  refused(405, ["GET"], good, "m")
  refused(405, ["POST"], None, "m:predict")
  refused(403, ["Origin"], good, headers={"Origin": "http://example.com"})
  refused(400, ["instances"], {})
  refused(400, [], "")
  refused(400, [], "[1]")
  refused(400, [], '{"instances": [[1, 2]')
  refused(400, ["x"], {"instances": [[1, 2], [3]]})
  refused(400, ["x"], {"instances": [["a", "b"]]})
  refused(400, ["'z'"], {"inputs": {"z": X}})
  refused(400, ["shape", "[?,2]"], {"instances": [[1, 2, 3]]})
  refused(404, ["'m'"], good, headers={"Formwork-Namespace": "elsewhere"})
  deep = "[" * 100000
  refused(400, [], '{"instances": ' + deep)


def test_what_there_is(process):
  assert ask(process, "m") == (200, {"model_version_status": [
      {"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]})
  status, answer = ask(process, "m/versions/7/metadata")
  assert status == 200 and answer["model_spec"] == {
      "name": "m", "signature_name": "", "version": "7"}
  signatures = answer["metadata"]["signature_def"]["signature_def"]
  assert sorted(signatures) == ["scalar", "serving_default", "texts"]
  assert signatures["serving_default"]["inputs"]["x"] == {
      "dtype": "DT_FLOAT", "name": "x", "tensor_shape": {
          "dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False}}
  assert signatures["texts"]["method_name"] == "tensorflow/serving/predict"


def test_a_connection_is_kept(process):
  connection = http.client.HTTPConnection(process.http, timeout=60)
  for i in range(20):
    assert predicted(process, {"instances": [[i, 1]]}, connection=connection) == {
        "predictions": [[i, 1]]}
  connection.close()


def test_counted_as_calls(process):
  with formwork.connect(process.grpc, namespace="counted") as server:
    server.function(lambda x: x + 1, name="f", input_signature=[tf.TensorSpec([None], name="x")])(
        tf.constant([1.0]))
  headers = {"Formwork-Namespace": "counted"}
  assert predicted(process, {"instances": [1, 2]}, "f:predict", headers=headers) == {
      "predictions": [2, 3]}
  ask(process, "f:predict", {"instances": ["a"]}, headers)
  assert process.metric('formwork_calls_total{code="OK",namespace="counted"}') == 2
  assert process.metric('formwork_calls_total{code="INVALID_ARGUMENT",namespace="counted"}') == 1


def test_versions_that_come_and_go(process):
  def ask_over_a_connection():
    connection = http.client.HTTPConnection(process.http, timeout=60)
    return lambda: predicted(process, {"instances": [[1, 1]]}, "live:predict",
                             connection=connection)["predictions"][0][0]
  changing_models.call_while_replaced(
      process.grpc, "live", lambda version: save(process.files / "live" / str(version), version), 6,
      ask_over_a_connection)


def test_a_client_that_leaves_cancels_its_call(process):
  with formwork.connect(process.grpc) as server:
    @server.function(name="spin", input_signature=[tf.TensorSpec([], name="x")])
    def spin(x):
      return tf.while_loop(lambda x: x >= 0, lambda x: x + 1, [x])[0]
    spin(tf.constant(-1.0))
  connection = http.client.HTTPConnection(process.http, timeout=60)
  connection.request("POST", "/v1/models/spin:predict", '{"inputs": 0}')
  deadline = time.monotonic() + 20
  while process.metric("formwork_calls_running") != 1 and time.monotonic() < deadline:
    time.sleep(0.01)
  assert process.metric("formwork_calls_running") == 1
  connection.close()
  while process.metric("formwork_calls_running") and time.monotonic() < deadline:
    time.sleep(0.01)
  assert process.metric("formwork_calls_running") == 0


def test_switched_off():
  with server_process.running("--rest=false") as process:
    assert process.get("/v1/models/m")[0] == 404
    assert process.get("/healthz")[0] == 200


def test_the_end_cuts_no_answer_off(tmp_path):
  save(tmp_path / "m")
  with server_process.running("--files-dir", str(tmp_path), "--saved-model", "m=m") as process:
    rows = np.ones([200000, 2]).tolist()
    answers = []
    threads = [threading.Thread(
        target=lambda: answers.append(ask(process, "m:predict", {"instances": rows})))
               for _ in range(4)]
    for thread in threads:
      thread.start()
    deadline = time.monotonic() + 20
    while not answers and time.monotonic() < deadline:
      time.sleep(0.001)
    process.terminate()
    for thread in threads:
      thread.join()
    assert len(answers) == 4
    for status, answer in answers:  # Those that were not calls yet are refused.
      assert (status, answer.get("predictions")) == (200, rows) or status == 503, answer


def test_calls_that_are_computed_as_one(tmp_path):
  save(tmp_path / "m")
  with server_process.running("--files-dir", str(tmp_path), "--saved-model", "m=m",
                              "--max-batch-rows=64") as process:
    wrong = []

    def keep_asking(k):
      connection = http.client.HTTPConnection(process.http, timeout=60)
      for i in range(200):
        rows = [[k, i + j] for j in range(1 + i % 3)]
        if predicted(process, {"instances": rows}, connection=connection) != {"predictions": rows}:
          wrong.append(rows)
    threads = [threading.Thread(target=keep_asking, args=[k]) for k in range(8)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    assert not wrong
    assert process.metric("formwork_batched_calls_total") >= 2 * process.metric(
        "formwork_batches_total")
    with formwork.connect(process.grpc) as server:
      functions = {f.name: f for f in server.functions()}
      assert sorted(functions) == ["m", "m/scalar", "m/texts"]
      for rows, words in ((-1, "negative"), (8, None)):
        if words:
          with pytest.raises(formwork.Error, match=words):
            server.load_saved_model("m", "n", max_batch_rows=rows)
        else:
          server.load_saved_model("m", "n", max_batch_rows=rows)
