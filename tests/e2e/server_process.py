"""A formwork-server of a test's own, and what is asked of it without any client library."""
import contextlib
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVICE = "/formwork.v1.GraphService/"


_LIMITS = {resource.RLIMIT_AS: "as", resource.RLIMIT_NOFILE: "nofile"}  # As prlimit names them.


def binary(name="formwork-server"):
  for folder in (os.environ.get("FORMWORK_BIN"), ROOT / "build/release/bin",
                 ROOT / "build/dev/bin"):
    path = pathlib.Path(folder or "/nowhere") / name
    if path.exists():
      return str(path)
  raise RuntimeError("%s is not built" % name)


def free_port():
  """One for a server that starts again at it. None that the system gives to connections, of which
  one to the address of a server that is down may get that very port, and be connected to itself."""
  with open("/proc/sys/net/ipv4/ip_local_port_range") as given:
    first = int(given.read().split()[0])
  below = range(max(2000, first - 10000), first)
  for port in [*random.sample(below, min(len(below), 100)), 0]:
    with socket.socket() as s:
      with contextlib.suppress(OSError):
        s.bind(("127.0.0.1", port))
        return s.getsockname()[1]


class Server:
  """A process. Attributes: grpc, http: host:port; log: the file that stderr goes to.

  limits: {resource.RLIMIT_…: (soft, hard)}, set by a program of their own: Python's code in a child
  of a process that has gRPC's threads may end it.
  """

  def __init__(self, *flags, env=None, limits=None, program="formwork-server"):
    self.log = tempfile.NamedTemporaryFile(mode="w+", suffix=".log")
    command = [binary(program), *flags]
    for flag in ("--port", "--http-port"):
      if flag not in flags:
        command += [flag, "0"]
    if limits:
      command = ["prlimit", *("--%s=%d:%d" % (_LIMITS[which], *bounds)
                              for which, bounds in limits.items()), *command]
    started = time.monotonic()
    self.told_to_end = False
    self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                    env={**os.environ, **(env or {})})
    self.ready_line = self.process.stdout.readline()
    self.ready_seconds = time.monotonic() - started
    self.addresses = dict(re.findall(r"(\w+)=(\S+)", self.ready_line))
    self.grpc, self.http = self.addresses.get("grpc"), self.addresses.get("http")

  def get(self, path, timeout=10):
    """(status, body) of an HTTP GET."""
    try:
      with urllib.request.urlopen("http://%s%s" % (self.http, path), timeout=timeout) as answer:
        return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
      return error.code, error.read().decode()

  def metric(self, name):
    """The value of a metric, named with its labels: 'name{label="value"}'."""
    (value,) = re.findall(r"^%s (\S+)$" % re.escape(name), self.get("/metrics")[1], re.MULTILINE)
    return float(value)

  def channel(self, target=None):
    return grpc.insecure_channel(target or self.grpc, [("grpc.max_receive_message_length", -1),
                                                       ("grpc.max_send_message_length", -1),
                                                       ("grpc.enable_http_proxy", 0)])

  def terminate(self, number=signal.SIGTERM):
    self.process.send_signal(number)
    if number in (signal.SIGTERM, signal.SIGINT):
      self.told_to_end = True

  def exit_code(self, timeout=120):
    return self.process.wait(timeout)

  def log_text(self):
    return pathlib.Path(self.log.name).read_text(errors="replace")

  def resident_bytes(self):
    status = pathlib.Path("/proc/%d/status" % self.process.pid).read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


@contextlib.contextmanager
def running(*flags, exit_code=0, **settings):
  """A server that serves; afterwards it must end by itself, with that exit code."""
  server = Server(*flags, **settings)
  try:
    assert server.grpc, server.log_text()
    yield server
    if not server.told_to_end and server.process.poll() is None:  # A second signal cuts it off.
      server.terminate()
    assert server.exit_code() == exit_code, server.log_text()
  finally:
    server.process.kill()
    server.process.wait()


def unary(channel, method):
  """A method of bytes to bytes."""
  return channel.unary_unary(method if method.startswith("/") else SERVICE + method)


def health(channel, service=""):
  """What grpc.health.v1 says: SERVING (1) or NOT_SERVING (2)."""
  name = service.encode()
  request = bytes([10, len(name)]) + name if name else b""
  answer = unary(channel, "/grpc.health.v1.Health/Check")(request, timeout=10)
  return {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}[answer]
