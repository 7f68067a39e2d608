"""Start, flags, ports, signals and draining."""
import signal
import socket
import subprocess
import threading
import time

import formwork
import grpc
import numpy as np
import pytest

import server_graphs
import server_process


def run(*flags):
  """(exit code, stdout, stderr) of a server that is to end at once."""
  done = subprocess.run([server_process.binary(), *flags], capture_output=True, text=True,
                        timeout=20)
  return done.returncode, done.stdout, done.stderr


def test_says_its_ports_once_it_is_ready_and_is_small():
  with server_process.running() as server:
    assert server.ready_line == "formwork-server ready grpc=%s http=%s\n" % (
        server.grpc, server.http)
    assert server.grpc.startswith("127.0.0.1:") and server.http.startswith("127.0.0.1:")
    assert server.get("/readyz")[0] == 200
    assert server.resident_bytes() <= 40 << 20
    assert server.ready_seconds <= 1  # 0.1 on a quiet machine.


def test_help_and_version():
  code, out, _ = run("--help")
  assert code == 0 and "--http-port" in out and "FORMWORK_HTTP_PORT" in out
  code, out, _ = run("--version")
  assert code == 0 and out.startswith("formwork-server 0.")


@pytest.mark.parametrize("flags", [["--port", "x"], ["--no-such"], ["--bind", "nowhere"]])
def test_a_bad_flag_is_refused(flags):
  code, _, err = run(*flags)
  assert code != 0 and flags[0] in err


def test_settings_come_from_the_environment_too():
  with server_process.running(env={"FORMWORK_LOG_FORMAT": "json"}) as server:
    server.terminate()
    assert server.exit_code() == 0
    assert '"level":"info"' in server.log_text()


@pytest.mark.parametrize("flag", ["--port", "--http-port"])
def test_a_port_in_use_is_a_clear_exit(flag):
  with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = str(taken.getsockname()[1])
    other = {"--port": "--http-port", "--http-port": "--port"}[flag]
    code, out, err = run(flag, port, other, "0")
  assert code != 0 and "ready" not in out
  assert "127.0.0.1:%s: Address already in use" % port in err


def test_two_servers_do_not_share_a_port():
  with server_process.running() as server:
    code, _, err = run("--port", server.grpc.rpartition(":")[2], "--http-port", "0")
    assert code != 0 and "in use" in err


def test_listens_on_a_unix_socket(tmp_path):
  path = str(tmp_path / "socket")
  with server_process.running("--unix-socket", path) as server:
    assert server.addresses["unix"] == path
    with server.channel("unix:" + path) as channel:
      assert server_process.health(channel) == "SERVING"
    code, _, err = run("--port", "0", "--http-port", "0", "--unix-socket", path)
    assert code != 0 and path in err
    with server.channel("unix:" + path) as channel:
      assert server_process.health(channel) == "SERVING"
  with server_process.running("--unix-socket", path):  # What is left of it does not matter.
    pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once(number):
  with server_process.running() as server:
    started = time.monotonic()
    server.terminate(number)
    assert server.exit_code() == 0
    assert time.monotonic() - started < 3


def test_sigterm_finishes_what_was_admitted():
  with server_process.running() as server, formwork.connect(server.grpc, timeout=60) as client:
    spin = server_graphs.register(client, "spin")
    identity = server_graphs.register(client, "identity")
    turns = server_graphs.turns_of(spin, 3)
    results = []
    caller = threading.Thread(target=lambda: results.append(spin(turns, timeout=60)))
    caller.start()
    time.sleep(0.5)
    with server.channel() as channel:
      watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
      assert next(watch) == b"\x08\x01"
      server.terminate()
      assert next(watch) == b"\x08\x02"
      assert server.get("/readyz")[0] == 503
      assert server.get("/healthz")[0] == 200
      with pytest.raises(formwork.Error) as refused:
        identity(np.ones([1], np.float32), timeout=5)
      assert refused.value.code == "UNAVAILABLE"
      assert server.process.poll() is None
      caller.join()
    assert np.isfinite(results[0][0])
    assert server.exit_code() == 0


def test_draining_has_a_bound():
  with server_process.running("--drain-timeout", "0.5") as server:
    client = formwork.connect(server.grpc, timeout=120)
    spin = server_graphs.register(client, "spin")
    errors = []

    def call():
      try:
        spin(np.int32(2**31 - 1), timeout=120)
      except formwork.Error as error:
        errors.append(error.code)

    caller = threading.Thread(target=call)
    caller.start()
    time.sleep(0.5)
    started = time.monotonic()
    server.terminate()
    assert server.exit_code() == 0
    assert time.monotonic() - started < 6
    caller.join()
    assert errors and errors[0] in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED")
    client.close()
