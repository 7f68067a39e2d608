"""HTTP: metrics, their list in server/README.md, and a real Prometheus."""
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import formwork
import grpc
import numpy as np
import pytest

import server_graphs
import server_process

README = server_process.ROOT / "server/README.md"


@pytest.fixture(scope="module")
def server():
  with server_process.running() as made:
    with formwork.connect(made.grpc, namespace="metrics", timeout=60) as client:
      identity = server_graphs.register(client, "identity")
      for _ in range(3):
        identity(np.float32([1, 2, 3]))
      with pytest.raises(formwork.Error):
        client.call("nothing", [np.float32(1)])
      client.variable("v", initial_value=np.zeros([256], np.float32))
      yield made


def samples(server):
  """{series: value} of /metrics."""
  code, text = server.get("/metrics")
  assert code == 200
  return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
          for line in text.splitlines() if line and not line.startswith("#")}


def test_calls_and_variables_are_counted(server):
  found = samples(server)
  assert found['formwork_calls_total{code="OK",namespace="metrics"}'] == 3
  assert found['formwork_calls_total{code="NOT_FOUND",namespace="metrics"}'] == 1
  assert found['formwork_call_duration_seconds_count{function="identity"}'] == 3
  assert found['formwork_requests_total{code="OK",method="Register"}'] == 1
  assert found["formwork_variables"] == 1
  assert found["formwork_variable_bytes"] == 1024
  assert found["formwork_functions"] == 1
  assert found["formwork_compile_duration_seconds_count"] == 1
  assert found["formwork_connections"] >= 1
  assert found["formwork_received_bytes_total"] > 0 < found["formwork_sent_bytes_total"]


def test_the_readme_lists_the_metrics_of_the_binary(server):
  text = server.get("/metrics")[1]
  served = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
  documented = dict(
      re.findall(r"^\| `((?:formwork|process)_\w+)` \| (\w+) \|", README.read_text(), re.M))
  assert documented == served


def test_the_readme_lists_the_flags_of_the_binary():
  out = subprocess.run([server_process.binary(), "--help"], capture_output=True, text=True).stdout
  flags = set(re.findall(r"^ +(--[\w-]+) .*\(Env:(FORMWORK_\w+)\)$", out, re.M))
  assert len(flags) > 10
  documented = set(re.findall(r"^\| `(--[\w-]+)` \| `(FORMWORK_\w+)` \|", README.read_text(), re.M))
  assert documented == flags


def test_unknown_paths_and_methods_are_refused(server):
  assert server.get("/")[0] == 404
  assert server.get("/metrics/x")[0] == 404
  request = urllib.request.Request("http://%s/metrics" % server.http, data=b"x", method="POST")
  with pytest.raises(urllib.error.HTTPError) as refused:
    urllib.request.urlopen(request, timeout=10)
  assert refused.value.code == 405


def test_http_can_be_switched_off():
  with server_process.running("--http-port", "-1") as server:
    assert server.http is None


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus")
def test_a_prometheus_scrapes_it(server, tmp_path):
  port = server_process.free_port()
  (tmp_path / "prometheus.yml").write_text("""
global: {scrape_interval: 1s}
scrape_configs:
- job_name: formwork
  static_configs: [{targets: ["%s"]}]
""" % server.http)
  process = subprocess.Popen(
      ["prometheus", "--config.file=%s/prometheus.yml" % tmp_path,
       "--storage.tsdb.path=%s/data" % tmp_path, "--web.listen-address=127.0.0.1:%d" % port],
      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  try:
    query = 'sum(formwork_calls_total{code="OK"})'
    url = "http://127.0.0.1:%d/api/v1/query?query=%s" % (port, urllib.parse.quote(query))
    deadline = time.monotonic() + 40
    result = []
    while not result and time.monotonic() < deadline:
      time.sleep(0.3)
      try:
        with urllib.request.urlopen(url, timeout=5) as answer:
          result = json.load(answer)["data"]["result"]
      except OSError:
        continue
    assert result and float(result[0]["value"][1]) == 3
  finally:
    process.terminate()
    process.wait(20)


def median_and_worst(ask, times=40):
  took = []
  for _ in range(times):
    start = time.monotonic()
    ask()
    took.append(time.monotonic() - start)
    time.sleep(0.01)
  took.sort()
  return took[len(took) // 2], took[int(len(took) * 0.9)]


def test_long_calls_do_not_hold_up_short_ones():
  import os
  with server_process.running() as server, formwork.connect(server.grpc, timeout=60) as client:
    spin = server_graphs.register(client, "spin")
    identity = server_graphs.register(client, "identity")
    identity(np.float32([1]))
    turns = server_graphs.turns_of(spin, 2)
    stop = threading.Event()

    def keep_busy():
      while not stop.is_set():
        spin(turns, timeout=60)

    busy = [threading.Thread(target=keep_busy) for _ in range(os.cpu_count())]
    for thread in busy:
      thread.start()
    time.sleep(0.3)
    try:
      with server.channel() as channel:
        for ask in (lambda: identity(np.float32([1])), lambda: server_process.health(channel),
                    lambda: server.get("/healthz")):
          median, most = median_and_worst(ask)
          assert median < 0.05 and most < 0.2, (median, most)
    finally:
      stop.set()
      for thread in busy:
        thread.join()
