"""Peers that connect and say nothing, little, or half of it: who is cut off, and who is not."""
import contextlib
import resource
import socket
import time

import formwork
import numpy as np
import pytest

import server_graphs
import server_process

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@contextlib.contextmanager
def connections(address, count, first=b""):
  host, port = address.rsplit(":", 1)
  with contextlib.ExitStack() as stack:
    made = []
    for _ in range(count):
      made.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=20)))
      with contextlib.suppress(OSError):
        made[-1].sendall(first)
    yield made


def serves_new_clients(server):
  with server.channel() as channel:
    return server_process.health(channel) == "SERVING"


def wait_for(condition, seconds=20):
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.05)


def test_silent_connections_go_for_new_ones():
  with server_process.running("--max-connections", "8") as server:
    with connections(server.grpc, 8):
      wait_for(lambda: server.metric("formwork_connections") == 8)
      time.sleep(1.1)  # So long a connection has for its first bytes.
      for _ in range(3):
        assert serves_new_clients(server)
      assert server.get("/readyz")[0] == 200
      assert server.metric("formwork_connections_cut_off_total") >= 1


def test_readyz_says_when_no_new_client_finds_a_place():
  with server_process.running("--max-connections", "4") as server, \
      formwork.connect(server.grpc, timeout=60) as client:
    identity = server_graphs.register(client, "identity")
    with connections(server.grpc, 3, GREETING):
      time.sleep(1.1)
      wait_for(lambda: server.get("/readyz")[0] == 503)
      assert server.get("/healthz")[0] == 200
      assert server.metric('formwork_refusals_total{cause="connections"}') >= 1
      identity(np.float32([1]))  # Those who are there notice nothing.
    wait_for(lambda: server.get("/readyz")[0] == 200)


def test_goes_on_when_descriptors_run_out():
  server = server_process.Server(
      limits={resource.RLIMIT_NOFILE: (300, 300)})
  try:
    with connections(server.grpc, 500):
      pass
    wait_for(lambda: server.get("/readyz")[0] == 200)
    assert serves_new_clients(server)
    server.terminate()
    assert server.exit_code() == 0
  finally:
    server.process.kill()


def test_an_idle_connection_is_closed_and_its_client_does_not_notice():
  with (server_process.running("--max-connection-idle", "0.5") as server,
        server.channel() as channel):
    assert server_process.health(channel) == "SERVING"
    wait_for(lambda: server.metric("formwork_connections") == 0)
    assert server_process.health(channel) == "SERVING"
    assert server.metric("formwork_connections_accepted_total") == 2


def test_a_connections_age_does_not_break_calls():
  with server_process.running("--max-connection-age", "0.5") as server, server.channel() as channel:
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60)
    assert next(watch) == b"\x08\x01"
    wait_for(lambda: server_process.health(channel) == "SERVING" and
             server.metric("formwork_connections_accepted_total") >= 2)
    server.terminate()
    assert next(watch) == b"\x08\x02"  # It goes on over its old connection.
    watch.cancel()
    assert server.exit_code() == 0


@pytest.mark.parametrize("first", [b"", b"GET /healthz HT", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_http_answers_beside_peers_that_do_not_end(first):
  with server_process.running() as server, connections(server.http, 200, first):
    took = []
    for _ in range(10):
      started = time.monotonic()
      assert server.get("/healthz") == (200, "ok\n")
      took.append(time.monotonic() - started)
    assert sorted(took)[5] < 1  # A millisecond on a quiet machine.


def test_http_refuses_what_is_no_request():
  with server_process.running() as server:
    for request, code in ((b"hello\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nx: " + b"y" * 40000, 431),
                          (b"DELETE /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 405),
                          (b"HEAD /healthz HTTP/1.0\r\n\r\n", 200)):
      with connections(server.http, 1, request) as (peer,):
        answer = b""
        while part := peer.recv(4096):
          answer += part
        assert answer.startswith(b"HTTP/1.1 %d " % code)
        assert answer.endswith(b"\r\n\r\n") == (code == 200)
