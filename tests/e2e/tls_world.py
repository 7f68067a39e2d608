"""Certificates, servers that have them, and who asks these, for the tests of encrypted connections."""
import contextlib
import http.client
import os
import pathlib
import ssl
import subprocess
import time

import formwork
import grpc
import pytest

import certificates
import server_process

SOON = 8  # Seconds: an error comes long before a client's timeout of a minute.


class World:
  """Files of certificates.

  Attributes:
    ca, client_ca, other_ca: an Authority: of the server, of its clients, of neither.
    server, client, stranger: what they have Issued.
    flags: the server's.
    tls, mutual_tls: a formwork.Tls: that trusts it, and that has the client's certificate, too.
  """

  def __init__(self, folder):
    self.ca = certificates.Authority(folder, "ca")
    self.client_ca = certificates.Authority(folder, "client-ca")
    self.other_ca = certificates.Authority(folder, "other-ca")
    self.server = self.ca.issue("server")
    self.client = self.client_ca.issue("client", purpose="clientAuth")
    self.stranger = self.other_ca.issue("stranger")
    self.flags = flags_of(self.server)
    self.tls = formwork.Tls(ca=self.ca.path)
    self.mutual_tls = formwork.Tls(self.ca.path, *self.client)


def flags_of(issued):
  return ["--tls-cert", issued.cert, "--tls-key", issued.key]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
  return World(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(world, tmp_path_factory):
  """A server with TLS. unix: its socket, without."""
  path = str(tmp_path_factory.mktemp("socket") / "s")
  with server_process.running(*world.flags, "--unix-socket", path) as server:
    server.unix = "unix:" + path
    yield server


@pytest.fixture(scope="module")
def mutual(world):
  """A server whose clients need a certificate."""
  with server_process.running(*world.flags, "--tls-client-ca", world.client_ca.path) as server:
    yield server


def command(server, *arguments, env=None, code=0):
  done = subprocess.run([server_process.binary("formwork"), "--server", server.grpc, *arguments],
                        capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
  assert done.returncode == code, (done.stdout, done.stderr)
  return done.stdout + done.stderr


def secure_channel(server, world, target=None, client=None):
  read = lambda path: path and pathlib.Path(path).read_bytes()
  credentials = grpc.ssl_channel_credentials(
      read(world.ca.path), read(client and client.key), read(client and client.cert))
  return grpc.secure_channel(target or server.grpc, credentials,
                             [("grpc.use_local_subchannel_pool", 1)])


def https(server, world, client=None):
  context = ssl.create_default_context(cafile=world.ca.path)
  if client:
    context.load_cert_chain(*client)
  return http.client.HTTPSConnection(server.http, timeout=60, context=context)


def ask(connection, path, body=None):
  """(status, text)"""
  connection.request("GET" if body is None else "POST", path, body)
  answer = connection.getresponse()
  return answer.status, answer.read().decode()


def get(server, world, path, client=None):
  with contextlib.closing(https(server, world, client)) as connection:
    return ask(connection, path)


def presented(address):
  """The certificate that a server shows, as PEM."""
  host, port = address.rsplit(":", 1)
  return ssl.get_server_certificate((host, int(port)))


def pem(path):
  return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(pathlib.Path(path).read_text()))


def wait_for(condition, seconds=30):
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.1)


@contextlib.contextmanager
def fails_soon(*words):
  started = time.monotonic()
  with pytest.raises(formwork.Error) as error:
    yield
  assert error.value.code == "UNAVAILABLE" and time.monotonic() - started < SOON
  for word in words:
    assert word in error.value.message, error.value.message
