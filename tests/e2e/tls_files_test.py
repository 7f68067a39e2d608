"""Files of certificates: which are good, that change while the server runs; their flags."""
import contextlib
import os
import pathlib
import subprocess

import formwork
import numpy as np
import pytest

import certificates
import server_graphs
import server_process
from tls_world import (ask, command, fails_soon, flags_of, get, https, pem, presented,
                       secure_channel, wait_for, world)


def test_certificates_may_have_a_chain(world, tmp_path):
  def chained(authority, name):
    between = certificates.Authority(tmp_path, name + "-ca", parent=authority)
    issued = between.issue(name)
    chain = tmp_path / (name + "-chain.pem")
    chain.write_text(pathlib.Path(issued.cert).read_text() + pathlib.Path(between.path).read_text())
    return certificates.Issued(str(chain), issued.key)

  ours, theirs = chained(world.ca, "ours"), chained(world.client_ca, "theirs")
  with server_process.running(*flags_of(ours), "--tls-client-ca", world.client_ca.path) as server:
    assert get(server, world, "/v2", theirs)[0] == 200
    with formwork.connect(server.grpc, tls=formwork.Tls(world.ca.path, *theirs)) as client:
      assert client.info().version


@pytest.mark.parametrize("make", [
    ["genrsa"], ["ecparam", "-name", "secp384r1", "-genkey"], ["genpkey", "-algorithm", "ed25519"]],
                         ids=lambda make: make[-1])
def test_kinds_of_keys(tmp_path, make):
  cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
  subprocess.run(["openssl", *make, "-out", key], check=True, capture_output=True)
  subprocess.run(["openssl", "req", "-x509", "-key", key, "-subj", "/CN=x", "-days", "2",
                  "-addext", "subjectAltName=IP:127.0.0.1", "-out", cert], check=True)
  with server_process.running("--tls-cert", cert, "--tls-key", key) as server:
    assert presented(server.http) == presented(server.grpc) == pem(cert)
    assert "variables" in command(server, "--tls-ca", cert, "status")
    if "ed25519" in make:  # What gRPC's Python encrypts with knows none of these.
      return
    with formwork.connect(server.grpc, tls=formwork.Tls(ca=cert)) as client:
      assert client.info().version


def test_files_that_change_are_read_again(world, tmp_path):
  first, second = world.ca.issue("first"), world.ca.issue("second")
  live = certificates.Issued(str(tmp_path / "cert"), str(tmp_path / "key"))
  ca = str(tmp_path / "ca")

  def put(source, into):
    pathlib.Path(into + ".new").write_bytes(pathlib.Path(source).read_bytes())
    os.replace(into + ".new", into)

  for source, into in ((first.cert, live.cert), (first.key, live.key), (world.client_ca.path, ca)):
    put(source, into)
  with server_process.running(*flags_of(live), "--tls-client-ca", ca) as server:
    shows = lambda issued: all(presented(at) == pem(issued.cert)
                               for at in (server.http, server.grpc))
    with formwork.connect(server.grpc, tls=world.mutual_tls) as client, \
        contextlib.closing(https(server, world, world.client)) as connection:
      identity = server_graphs.register(client, "identity")
      assert ask(connection, "/v2")[0] == 200
      assert shows(first)
      # One file after the other: half of it changes nothing.
      put(second.cert, live.cert)
      wait_for(lambda: "is not the key of the certificate" in server.log_text())
      assert shows(first)
      put(second.key, live.key)
      wait_for(lambda: shows(second))
      for path, text in ((live.cert, b""), (live.key, b"-----BEGIN PRIVATE KEY-----\nhalf"),
                         (ca, b"no certificate")):
        kept = pathlib.Path(path).read_bytes()
        pathlib.Path(path).write_bytes(text)
        wait_for(lambda: "=%s: " % path in server.log_text())
        assert shows(second)
        assert server_process.health(secure_channel(server, world, client=world.client)) == "SERVING"
        pathlib.Path(path).write_bytes(kept)
      os.remove(live.cert)
      wait_for(lambda: "=%s: cannot be read: No such file" % live.cert in server.log_text())
      assert shows(second)
      put(second.cert, live.cert)
      # Another CA of clients: new connections need one of its certificates, those that are there go on.
      put(world.other_ca.path, ca)
      wait_for(lambda: get(server, world, "/v2", world.stranger)[0] == 200)
      assert get(server, world, "/v2", world.client)[0] == 403
      with formwork.connect(server.grpc, tls=formwork.Tls(world.ca.path, *world.stranger)) as new:
        assert new.info().version
      with fails_soon("client certificate"):
        formwork.connect(server.grpc, tls=world.mutual_tls)
      assert identity(np.float32([3]))[0].tolist() == [3]
      assert ask(connection, "/v2")[0] == 200
      assert get(server, world, "/readyz") == (200, "ready\n")
    assert server.log_text().count("what was read before goes on") <= 8


def ends(*flags, env=None):
  """(exit code, stderr) of a server that does not start."""
  done = subprocess.run([server_process.binary(), "--port", "0", "--http-port", "0", *flags],
                        capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
  return done.returncode, done.stderr


def test_flags_that_do_not_go_together(world):
  for flags, text in ((["--tls-cert", "x"], "--tls-cert: needs --tls-key, too"),
                      (["--tls-key", "x"], "--tls-key: needs --tls-cert, too"),
                      (["--tls-client-ca", "x"], "--tls-client-ca: needs --tls-cert and --tls-key")):
    code, said = ends(*flags)
    assert code == 2 and text in said
  code, said = ends(env={"FORMWORK_TLS_CERT": "x"})
  assert code == 2 and "FORMWORK_TLS_CERT: --tls-cert: needs --tls-key" in said


def test_files_that_are_no_good(world, tmp_path):
  empty, folder = tmp_path / "empty", tmp_path / "folder"
  empty.touch()
  folder.mkdir()
  pipe, large = tmp_path / "pipe", tmp_path / "large"
  os.mkfifo(pipe)
  large.write_bytes(b"x" * (1 << 20) + b"x")
  text = pathlib.Path(world.server.cert).read_text()
  half = tmp_path / "half"
  half.write_text(text + text[:200])
  encrypted = tmp_path / "encrypted.key"
  subprocess.run(["openssl", "pkey", "-in", world.server.key, "-aes128", "-passout", "pass:secret",
                  "-out", encrypted], check=True)
  good = dict(zip(("--tls-cert", "--tls-key", "--tls-client-ca"),
                  (*world.server, world.client_ca.path)))
  for flag, path, reason in (
      ("--tls-cert", "/no/such/file", "cannot be read: No such file or directory"),
      ("--tls-cert", empty, "no certificate in PEM"),
      ("--tls-cert", half, "certificate 2 in it is broken"),
      ("--tls-cert", folder, "is not a file"), ("--tls-cert", pipe, "is not a file"),
      ("--tls-cert", large, "larger than a megabyte"),
      ("--tls-key", "/no/such/file", "cannot be read"), ("--tls-key", empty, "no private key in PEM"),
      ("--tls-key", encrypted, "without a passphrase"),
      ("--tls-key", world.client.key, "is not the key of the certificate"),
      ("--tls-client-ca", "/no/such/file", "cannot be read"),
      ("--tls-client-ca", empty, "no certificate in PEM")):
    flags = {**good, flag: str(path)}
    code, said = ends(*(word for pair in flags.items() for word in pair))
    assert code == 1, said
    assert "cannot start: %s=%s: " % (flag, path) in said and reason in said, said
  # What OpenSSL reads, and TLS does not take.
  cert, key = str(tmp_path / "short.pem"), str(tmp_path / "short.key")
  subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=short",
                  "-keyout", key, "-out", cert], check=True, capture_output=True)
  code, said = ends("--tls-cert", cert, "--tls-key", key)
  assert code == 1 and "--tls-cert=%s: TLS cannot be done with the certificate: " % cert in said
