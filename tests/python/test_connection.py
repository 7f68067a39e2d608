"""How connections begin and end: what connect says, threads, children after a fork, copies of
errors."""
import concurrent.futures
import copy
import gc
import http.server
import os
import pickle
import socket
import ssl
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest

import formwork


def refused(target, *words, timeout=30, within=10):
  """Expects that connect says why, long before its timeout."""
  start = time.monotonic()
  with pytest.raises(formwork.Error) as e:
    formwork.connect(target, timeout=timeout)
  assert e.value.code == "UNAVAILABLE" and time.monotonic() - start < within
  for word in (target,) + words:
    assert word in e.value.message, e.value.message


@pytest.fixture
def listening():
  """Starts a server that answers each connection: listening(answer) -> "host:port"."""
  opened = []

  def start(answer):
    listener = socket.create_server(("127.0.0.1", 0))
    opened.append(listener)

    def run():
      while True:
        try:
          connection = listener.accept()[0]
        except OSError:
          return
        threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return "127.0.0.1:%d" % listener.getsockname()[1]

  yield start
  for listener in opened:
    listener.close()


@pytest.mark.parametrize("target", ["localhost", ":8500", "localhost:", "localhost:grpc", "h:0",
                                    "h:65536", "http://localhost:8500"])
def test_a_target_that_is_none(target):
  refused(target, '"host:port"')


@pytest.mark.parametrize("target, timeout, error, words", [
    (8500, 1, TypeError, "target: .* got 8500"),
    *[("127.0.0.1:1", t, ValueError, "timeout: .* got") for t in (0, -1, float("nan"), None, "5")]])
def test_arguments_that_mean_nothing(target, timeout, error, words):
  with pytest.raises(error, match=words):
    formwork.connect(target, timeout=timeout)


def test_a_host_name_that_there_is_not():
  with pytest.raises(formwork.Error) as e:
    formwork.connect("no-such-host.invalid:8500", timeout=1)
  assert "host name 'no-such-host.invalid' is not known" in e.value.message


def test_nothing_listens():
  with socket.create_server(("127.0.0.1", 0)) as free:
    target = "127.0.0.1:%d" % free.getsockname()[1]
  refused(target, "connection refused", timeout=0.5)
  refused("unix:/no/such/socket", "/no/such/socket", timeout=0.5)


def test_a_server_that_starts_late_is_waited_for(fake):
  with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
  late = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
  import fake_server
  late.add_generic_rpc_handlers((fake_server._Handler(fake),))

  def start():
    late.add_insecure_port("127.0.0.1:%d" % port)
    late.start()

  timer = threading.Timer(0.7, start)
  timer.start()
  with formwork.connect("127.0.0.1:%d" % port, timeout=20) as server:
    assert server.functions() == []
  late.stop(None)


def test_tls_on_the_other_side(listening, tmp_path):
  subprocess.run(
      ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key",
       "-out", tmp_path / "cert", "-subj", "/CN=x", "-days", "2"], check=True,
      stderr=subprocess.DEVNULL)
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
  context.load_cert_chain(tmp_path / "cert", tmp_path / "key")

  def answer(connection):
    try:
      context.wrap_socket(connection, server_side=True)
    except OSError:
      connection.close()

  refused(listening(answer), "TLS")


def test_http_on_the_other_side():
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  refused("127.0.0.1:%d" % server.server_port, "HTTP")
  server.shutdown()


def test_something_else_on_the_other_side(listening):
  refused(listening(lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")), "SSH-2.0")


def test_another_grpc_server():
  server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
  port = server.add_insecure_port("127.0.0.1:0")
  server.start()
  refused("127.0.0.1:%d" % port, "no Formwork server", "formwork.v1.GraphService")
  server.stop(None)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "dropped"])
def test_no_thread_outlives_a_server(fake, closed):
  def running():
    """Without those of the other side."""
    return {t for t in threading.enumerate() if not t.name.startswith("ThreadPoolExecutor")}

  before = running()
  server = formwork.connect(fake.target, namespace="threads")
  variable = server.variable("v", initial_value=np.float32(1))

  def work(server):
    with pytest.raises(formwork.Error):
      server.call("nothing", [])

  threads = [threading.Thread(target=work, args=(server,)) for _ in range(3)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  work(server)
  assert running() - before
  kept = []
  if closed:
    server.close()
    kept.append(server)  # Who holds a closed one holds no threads.
  del server, variable, thread, threads
  gc.collect()
  deadline = time.monotonic() + 10
  while running() - before and time.monotonic() < deadline:
    time.sleep(0.05)
  assert not running() - before


_FORKS = """
import os, sys, threading, time
if %(grpc_first)r: import grpc
import formwork, numpy as np

server = formwork.connect(%(target)r, namespace="forks", timeout=20)
variable = server.variable("v", initial_value=np.float32(1))
try: server.call("nothing", [])
except formwork.Error: pass

def child(use):
  time.sleep(0.2)  # No thread is in a call any more: not one of gRPC's either.
  pid = os.fork()
  if pid == 0:
    try:
      use()
      os.write(1, b"works\\n")
    except formwork.Error as e:
      os.write(1, (e.code + ": " + e.message + "\\n").encode())
    sys.stdout.flush()
    %(leave)s
  start = time.time()
  while os.waitpid(pid, os.WNOHANG) == (0, 0):
    assert time.time() - start < 20, "the child hangs"
    time.sleep(0.02)

def use():
  variable.assign(variable.read() + 1)
  try: server.call("nothing", [], timeout=5)
  except formwork.Error as e: assert e.code == "NOT_FOUND", e

def grandchild():
  use()
  child(use)

child(use)
child(lambda: formwork.connect(%(target)r, timeout=5).functions())
child(grandchild)
use()
print(variable.read())
"""


def _forks(fake, **options):
  code = _FORKS % {"target": fake.target, "leave": "os._exit(0)", "grpc_first": False, **options}
  done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=90,
                        env={k: v for k, v in os.environ.items() if not k.startswith("GRPC_")})
  assert done.returncode == 0, done.stderr[-2000:]
  return done.stdout.splitlines()


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)"])
def test_a_forked_child_makes_a_connection_of_its_own(fake, leave):
  assert _forks(fake, leave=leave) == ["works"] * 4 + ["5.0"]


def test_where_grpc_was_imported_without_support_for_forks_a_child_says_what_to_do(fake):
  lines = _forks(fake, grpc_first=True)
  assert len(lines) == 4 and lines[-1] == "2.0"
  for line in lines[:3]:
    assert line.startswith("FAILED_PRECONDITION") and "spawn" in line


def test_errors_are_pickled_and_copied(either):
  with pytest.raises(formwork.Error) as e:
    either.call("nothing", [])
  none = formwork.FunctionType.from_json({"parameters": []})
  missing = formwork.NoMatchingSignature("NOT_FOUND", "no match")
  missing.candidates, missing.suggested, missing.reason = [none], none, "NO_MATCHING_SIGNATURE"
  for error in (e.value, missing):
    for same in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
      assert type(same) is type(error) and same.__dict__ == error.__dict__
      assert str(same) == str(error)


def test_errors_that_are_tensorflows_too_are_pickled_and_copied():
  import tensorflow as tf
  from formwork import errors
  plain = formwork.Error("INVALID_ARGUMENT", "bad")
  plain.culprits = ["x"]
  error = errors.for_tensorflow(plain)
  for same in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
    assert isinstance(same, tf.errors.InvalidArgumentError) and isinstance(same, formwork.Error)
    assert same.message == "bad" and same.culprits == ["x"]
