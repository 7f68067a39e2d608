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
    assert server.resident_bytes() <= 51 << 20  # Of it 37 MB are pages of files, libraries' mostly.
    assert server.ready_seconds <= 1  # 0.1 on a quiet machine.


def test_help_and_version():
  code, out, _ = run("--help")
  assert code == 0 and "--http-port" in out and "FORMWORK_HTTP_PORT" in out
  code, out, _ = run("--version")
  assert code == 0 and out.startswith("formwork-server 0.")


@pytest.mark.parametrize("flags, reason", [
    (["--port", "x"], "not a whole number: x"),
    (["--no-such"], "not expected"),
    (["--bind", "nowhere"], "not an IPv4 or IPv6 address: nowhere"),
    (["--memory-limit-bytes", "-1"], "not a number of bytes"),
    (["--device", "tpu"], "wanted: auto, cpu or cuda:N"),
])
def test_a_bad_flag_is_refused_in_a_line(flags, reason):
  code, out, err = run(*flags)
  assert code == 2 and out == ""
  assert flags[0] in err and reason in err and err.count("\n") == 1


def test_a_bad_variable_is_refused_by_its_name():
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("FORMWORK_MAX_QUEUED_CALLS", "0")
    code, _, err = run()
  assert code == 2 and "FORMWORK_MAX_QUEUED_CALLS" in err and "--max-queued-calls" in err


def test_lower_vector_instructions_are_named_and_unknown_ones_refused():
  with server_process.running(env={"FORMWORK_ISA": "baseline"}) as server:
    assert server.log_text().splitlines()[0].endswith("instructions=baseline")
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("FORMWORK_ISA", "avx3")
    code, out, err = run("--port", "0", "--http-port", "0")
  assert code == 2 and "ready" not in out
  assert "FORMWORK_ISA" in err and "baseline, avx2, avx512: avx3" in err


def test_a_socket_in_a_folder_that_is_not_there_is_refused(tmp_path):
  path = str(tmp_path / "nowhere/socket")
  code, out, err = run("--port", "0", "--http-port", "0", "--unix-socket", path)
  assert code == 1 and "ready" not in out
  assert "--unix-socket" in err and path in err and "No such file or directory" in err


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_listens_on_ipv6():
  with server_process.running("--bind", "::1") as server:
    assert server.grpc.startswith("[::1]:") and server.http.startswith("[::1]:")
    assert server.get("/readyz")[0] == 200
    with server.channel() as channel:
      assert server_process.health(channel) == "SERVING"


def test_the_first_line_of_the_log_says_what_it_is():
  with server_process.running("--threads", "1", "--max-connections", "50") as server:
    line = server.log_text().splitlines()[0]
  assert "formwork-server 0." in line
  assert "--threads=1" in line and "--max-connections=50" in line and "--bind" not in line
  assert "connections=50" in line and "descriptors=" in line and "instructions=" in line


def test_more_connections_than_descriptors_are_refused():
  code, _, err = run("--max-connections", str(1 << 20), "--port", "0", "--http-port", "0")
  assert code == 1 and "--max-connections" in err and "file descriptors" in err


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
  with server_process.running() as server, \
      formwork.connect(server.grpc, timeout=60, retry_for=0) as client:
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


def test_in_its_lame_duck_pause_it_takes_calls():
  with server_process.running("--lame-duck", "1.5") as server, \
      formwork.connect(server.grpc, timeout=60) as client:
    identity = server_graphs.register(client, "identity")
    started = time.monotonic()
    server.terminate()
    while server.get("/readyz")[0] != 503:
      assert time.monotonic() < started + 1.4
    with server.channel() as channel:
      assert server_process.health(channel) == "NOT_SERVING"
    identity(np.ones([1], np.float32))
    assert server.exit_code() == 0
    assert time.monotonic() - started > 1.4


def test_a_second_signal_ends_it_at_once():
  server = server_process.Server("--lame-duck", "60")
  server.terminate()
  time.sleep(0.2)
  server.terminate(signal.SIGINT)
  assert server.exit_code(10) == 3


def test_draining_has_a_bound():
  with server_process.running("--drain-timeout", "0.5", exit_code=3) as server:
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
    assert server.exit_code() == 3
    assert time.monotonic() - started < 6
    caller.join()
    assert errors == ["ABORTED"]
    client.close()
