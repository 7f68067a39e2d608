"""Encrypted connections: gRPC and HTTP, clients with and without certificates."""
import asyncio
import contextlib
import http.client
import json
import os
import pickle
import socket
import ssl
import subprocess
import threading
import time

import formwork
import formwork.aio
import numpy as np
import pytest

import server_graphs
import server_process
from tls_world import (SOON, ask, command, encrypted, fails_soon, flags_of, get, https, mutual,
                       secure_channel, world)


def test_clients_call(encrypted, world):
  x = np.float32([1, 2])
  with formwork.connect(encrypted.grpc, tls=world.tls) as client:
    server_graphs.register(client, "identity")
    assert client.call("identity", [x])[0].tolist() == [1, 2]
    large = np.random.default_rng(1).random(4 << 20, np.float32)
    assert np.array_equal(client.call("identity", [large])[0], large)
    copy = pickle.loads(pickle.dumps(client))
    assert copy.call("identity", [x])[0].tolist() == [1, 2]
    copy.close()

  async def call():
    async with await formwork.aio.connect(encrypted.grpc, tls=world.tls) as server:
      return await server.call("identity", [x])

  assert asyncio.run(call())[0].tolist() == [1, 2]
  called = "float32[2] [1.0,2.0]\n"
  assert command(encrypted, "--tls-ca", world.ca.path, "call", "identity", "--input=[1, 2]") == called
  assert command(encrypted, "call", "identity", "--input=[1, 2]",
                 env={"FORMWORK_TLS_CA": world.ca.path}) == called
  with formwork.connect(encrypted.unix) as client:  # Its file's permissions guard it.
    assert client.call("identity", [x])[0].tolist() == [1, 2]


def test_a_forked_child_connects_anew(encrypted, world):
  with formwork.connect(encrypted.grpc, tls=world.tls) as client:
    server_graphs.register(client, "identity")
    pid = os.fork()
    if pid == 0:
      code = 1
      try:
        code = int(client.call("identity", [np.float32([0])])[0][0])
      finally:
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_other_servers_clients_are_answered(encrypted, world):
  from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc
  import tritonclient.grpc as triton
  with formwork.connect(encrypted.grpc, tls=world.tls) as client:
    server_graphs.register(client, "identity")
  with secure_channel(encrypted, world) as channel:
    assert server_process.health(channel) == "SERVING"
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "identity"
    status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request)
    assert status.model_version_status[0].state == status.model_version_status[0].AVAILABLE
  with triton.InferenceServerClient(encrypted.grpc, ssl=True,
                                    root_certificates=world.ca.path) as client:
    assert client.is_server_ready()


def test_servers_whose_certificate_nobody_trusts_are_refused(encrypted, world):
  for tls, word in ((formwork.Tls(ca=world.other_ca.path), "not accepted"), (formwork.Tls(), "")):
    with fails_soon("certificate", word):
      formwork.connect(encrypted.grpc, tls=tls)
  assert "not accepted" in command(encrypted, "--tls-ca", world.other_ca.path, "functions", code=1)
  assert "not accepted" in command(encrypted, "--tls", "functions", code=1)
  elsewhere = world.ca.issue("elsewhere", hosts="DNS:elsewhere.example")
  with server_process.running(*flags_of(elsewhere)) as server:
    with fails_soon("certificate", "127.0.0.1"):
      formwork.connect(server.grpc, tls=world.tls)
    assert "for another name" in command(server, "--tls-ca", world.ca.path, "functions", code=1)


def test_who_does_not_encrypt_is_told(encrypted, world):
  with fails_soon("TLS"):
    formwork.connect(encrypted.grpc)

  async def connect():
    await formwork.aio.connect(encrypted.grpc)

  with fails_soon("TLS"):
    asyncio.run(connect())
  started = time.monotonic()
  assert "speaks TLS" in command(encrypted, "functions", code=1)
  assert time.monotonic() - started < SOON
  connection = http.client.HTTPConnection(encrypted.http, timeout=60)
  assert ask(connection, "/healthz") == (400, "this port speaks HTTPS\n")


def test_who_encrypts_where_the_server_does_not_is_told(world):
  with server_process.running() as server:
    with fails_soon("does not speak TLS"):
      formwork.connect(server.grpc, tls=world.tls)
    assert "does not speak TLS" in command(server, "--tls-ca", world.ca.path, "functions", code=1)
    with fails_soon("HTTP"):
      formwork.connect(server.http, tls=world.tls)
    with pytest.raises(OSError):
      get(server, world, "/healthz")
    assert server.get("/healthz")[0] == 200


def test_arguments_that_do_not_fit(encrypted, world, tmp_path):
  with pytest.raises(ValueError, match="cert and key"):
    formwork.connect(encrypted.grpc, tls=formwork.Tls(cert=world.client.cert))
  with pytest.raises(ValueError, match="UNIX"):
    formwork.connect(encrypted.unix, tls=world.tls)
  with pytest.raises(TypeError, match="formwork.Tls"):
    formwork.connect(encrypted.grpc, tls=True)
  with pytest.raises(FileNotFoundError):
    formwork.connect(encrypted.grpc, tls=formwork.Tls(ca=str(tmp_path / "none")))
  with pytest.raises(ValueError, match="not the certificate's"):
    formwork.connect(encrypted.grpc, tls=formwork.Tls(world.ca.path, world.client.cert,
                                                      world.stranger.key))
  encrypted_key = str(tmp_path / "encrypted.key")
  subprocess.run(["openssl", "pkey", "-in", world.client.key, "-aes128", "-passout", "pass:secret",
                  "-out", encrypted_key], check=True)
  with pytest.raises(ValueError, match="tls: "):
    formwork.connect(encrypted.grpc, tls=formwork.Tls(world.ca.path, world.client.cert, encrypted_key))
  assert "cannot read /: Is a directory" in command(encrypted, "--tls-ca", "/", "functions", code=1)
  assert "cannot read /none" in command(encrypted, "--tls-ca", "/none", "functions", code=1)
  assert "go together" in command(encrypted, "--tls-cert", world.client.cert, "functions", code=1)
  assert "TLS cannot be done" in command(encrypted, "--tls-ca", world.ca.path, "--tls-cert",
                                         world.client.cert, "--tls-key", world.stranger.key,
                                         "functions", code=1)


def test_clients_need_a_certificate(mutual, world):
  with formwork.connect(mutual.grpc, tls=world.mutual_tls) as client:
    server_graphs.register(client, "identity")
    assert client.call("identity", [np.float32([1])])[0].tolist() == [1]
  files = ("--tls-cert", world.client.cert, "--tls-key", world.client.key)
  assert "identity" in command(mutual, "--tls-ca", world.ca.path, *files, "functions")
  assert "identity" in command(mutual, "functions", env={
      "FORMWORK_TLS_CA": world.ca.path, "FORMWORK_TLS_CLIENT_CERT": world.client.cert,
      "FORMWORK_TLS_CLIENT_KEY": world.client.key})
  with fails_soon("client certificate"):
    formwork.connect(mutual.grpc, tls=world.tls)
  with fails_soon("client certificate"):
    formwork.connect(mutual.grpc, tls=formwork.Tls(world.ca.path, *world.stranger))
  with fails_soon("TLS"):
    formwork.connect(mutual.grpc)
  started = time.monotonic()
  assert "client certificate" in command(mutual, "--tls-ca", world.ca.path, "functions", code=1)
  assert time.monotonic() - started < SOON
  with secure_channel(mutual, world, client=world.client) as channel:
    assert server_process.health(channel) == "SERVING"


def test_https_answers_probes_without_a_certificate(mutual, world):
  with formwork.connect(mutual.grpc, tls=world.mutual_tls) as client:
    server_graphs.register(client, "identity")
  assert get(mutual, world, "/healthz") == (200, "ok\n")
  assert get(mutual, world, "/readyz") == (200, "ready\n")
  assert "formwork_connections " in get(mutual, world, "/metrics")[1]
  for path in ("/v1/models/identity", "/v2", "/v2/models/identity"):
    assert get(mutual, world, path, world.client)[0] == 200
    code, text = get(mutual, world, path)
    assert code == 403 and "client certificate" in text
    code, text = get(mutual, world, path, world.stranger)
    assert code == 403 and "client certificate" in text
  with contextlib.closing(https(mutual, world)) as connection:
    for _ in range(3):  # The connection goes on.
      assert ask(connection, "/v2/models/identity/infer", "{}")[0] == 403
      assert ask(connection, "/healthz")[0] == 200
    assert ask(connection, "/v2/models/identity/infer", "x" * (4 << 20))[0] == 403


def test_a_certificate_for_servers_is_none_of_a_client(mutual, world):
  for_servers = world.client_ca.issue("for-servers", purpose="serverAuth")
  assert get(mutual, world, "/v2", for_servers)[0] == 403
  with fails_soon("client certificate"):
    formwork.connect(mutual.grpc, tls=formwork.Tls(world.ca.path, *for_servers))


def test_https_answers_large_requests_and_many(encrypted, world):
  with formwork.connect(encrypted.grpc, tls=world.tls) as client:
    server_graphs.register(client, "identity")
  with contextlib.closing(https(encrypted, world)) as connection:
    code, text = ask(connection, "/v2/models/identity")
    assert code == 200
    name = json.loads(text)["inputs"][0]["name"]
    for size in (1, 2_000_000, 3, 100_000, 0):
      sent = {"name": name, "datatype": "FP32", "shape": [size],
              "data": [float(i % 7) for i in range(size)]}
      code, text = ask(connection, "/v2/models/identity/infer", json.dumps({"inputs": [sent]}))
      assert code == 200, text
      assert json.loads(text)["outputs"][0]["data"] == sent["data"]
    for _ in range(100):
      assert ask(connection, "/healthz") == (200, "ok\n")
    assert "formwork_calls_total" in ask(connection, "/metrics")[1]
    assert ask(connection, "/nothing")[0] == 404


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls(mutual, world, version):
  for address, path in ((mutual.http, "/v2"), (mutual.grpc, None)):
    context = ssl.create_default_context(cafile=world.ca.path)
    context.load_cert_chain(*world.client)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["http/1.1"] if path else ["h2"])
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as plain:
      with context.wrap_socket(plain, server_hostname=host) as encrypted:
        if path:
          encrypted.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
          assert encrypted.recv(64).startswith(b"HTTP/1.1 200 ")
        else:
          assert encrypted.recv(64)[3] == 4  # SETTINGS.


@pytest.mark.parametrize("weak", ["old version", "no forward secrecy"])
def test_what_is_weak_is_refused_over_https(encrypted, weak):
  context = ssl.create_default_context()
  context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
  context.maximum_version = ssl.TLSVersion.TLSv1_2
  if weak == "old version":
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
  else:
    context.set_ciphers("AES128-SHA:AES128-GCM-SHA256")
  host, port = encrypted.http.rsplit(":", 1)
  with socket.create_connection((host, int(port)), timeout=60) as plain:
    with pytest.raises(OSError) as error:
      context.wrap_socket(plain)
    assert "WRONG_VERSION_NUMBER" not in str(error.value)  # It was not answered in plain.


def test_what_closes_connections_is_not_taken_for_tls(world):
  """As a balancer that has no server yet: who waits may be served."""
  with socket.create_server(("127.0.0.1", 0)) as closing:
    def close_all():
      with contextlib.suppress(OSError):
        while True:
          closing.accept()[0].close()
    thread = threading.Thread(target=close_all)
    thread.start()
    address = "127.0.0.1:%d" % closing.getsockname()[1]
    for flags in ([], ["--tls-ca", world.ca.path]):
      done = subprocess.run([server_process.binary("formwork"), "--server", address, "--timeout", "3",
                             *flags, "functions"], capture_output=True, text=True, timeout=60)
      assert done.returncode == 1 and "within 3s: " in done.stderr, done.stderr
    for tls in (None, world.tls):
      with pytest.raises(formwork.Error, match="within 3"):
        formwork.connect(address, tls=tls, timeout=3)
    closing.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 3000])
def test_peers_that_do_not_end_their_handshake_hold_up_nobody(encrypted, world, first):
  with contextlib.ExitStack() as stack:
    peers = []
    for address in [encrypted.http] * 60 + [encrypted.grpc] * 60:
      host, port = address.rsplit(":", 1)
      peers.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=60)))
      with contextlib.suppress(OSError):
        peers[-1].sendall(first)
    took = []
    for _ in range(5):
      started = time.monotonic()
      assert get(encrypted, world, "/readyz") == (200, "ready\n")
      with secure_channel(encrypted, world) as channel:
        assert server_process.health(channel) == "SERVING"
      took.append(time.monotonic() - started)
    assert sorted(took)[2] < 5
    for peer in peers:  # They are closed, within five seconds and ten.
      with contextlib.suppress(ConnectionResetError):
        while peer.recv(4096):
          pass


def test_idle_connections_go_for_new_ones(world):
  with server_process.running(*world.flags, "--max-connections", "4") as server:
    with contextlib.ExitStack() as stack:
      host, port = server.grpc.rsplit(":", 1)
      for _ in range(4):
        stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
      time.sleep(1.1)  # So long a connection has for its first bytes.
      with secure_channel(server, world) as channel:
        assert server_process.health(channel) == "SERVING"
      assert get(server, world, "/readyz")[0] == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "::1"])
def test_it_finds_itself_ready_at_any_address(world, address):
  with server_process.running(*world.flags, "--tls-client-ca", world.client_ca.path,
                              "--bind", address) as server:
    port = server.http.rsplit(":", 1)[1]
    server.http = ("[::1]:" if address == "::1" else "127.0.0.1:") + port
    context = ssl.create_default_context(cafile=world.ca.path)
    context.check_hostname = False
    with contextlib.closing(http.client.HTTPSConnection(server.http, timeout=60,
                                                        context=context)) as connection:
      assert ask(connection, "/readyz") == (200, "ready\n")
