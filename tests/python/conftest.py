"""Servers for the client's tests: a stand-in in this process, and a real one where it is built."""
import itertools
import os
import pathlib
import re
import subprocess
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

import formwork

_NUMBERS = itertools.count()
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_server():
  """The path of a formwork-server that is built, or None."""
  folders = [os.environ.get("FORMWORK_BIN"), _ROOT / "build/release/bin", _ROOT / "build/dev/bin"]
  for folder in folders:
    path = pathlib.Path(folder or "/nowhere") / "formwork-server"
    if path.exists():
      return path
  return None


def start_server(binary, log, port=0):
  """(process, "host:port") of a formwork-server; port 0: a free one."""
  with open(log, "wb") as out:
    process = subprocess.Popen([str(binary), "--port", str(port), "--http-port", "0"],
                               stdout=out, stderr=subprocess.STDOUT)
  deadline = time.monotonic() + 20
  while time.monotonic() < deadline:
    found = re.search(r"formwork-server ready.* grpc=(\S+)", pathlib.Path(log).read_text())
    if found:
      return process, found.group(1)
    if process.poll() is not None:
      break
    time.sleep(0.02)
  process.kill()
  raise RuntimeError("formwork-server did not start: " + pathlib.Path(log).read_text()[-2000:])


@pytest.fixture(scope="session")
def live_target(tmp_path_factory):
  """The address of a real server; the test is skipped where there is none."""
  if os.environ.get("FORMWORK_TEST_SERVER"):
    yield os.environ["FORMWORK_TEST_SERVER"]
    return
  binary = find_server()
  if binary is None:
    pytest.skip("no formwork-server is built and FORMWORK_TEST_SERVER is not set")
  process, target = start_server(binary, tmp_path_factory.mktemp("server") / "log")
  yield target
  process.terminate()
  assert process.wait(30) == 0


@pytest.fixture(scope="session")
def _one_fake():
  from fake_server import FakeServer  # Imports TensorFlow.
  made = FakeServer()
  yield made
  made.stop()


@pytest.fixture
def fake(_one_fake):
  """The stand-in, empty."""
  _one_fake.restart()
  _one_fake.log.clear()
  return _one_fake


@pytest.fixture
def server(fake):
  """A Server on the stand-in."""
  with formwork.connect(fake.target, namespace="t%d" % next(_NUMBERS), timeout=20) as made:
    yield made


@pytest.fixture
def live(live_target):
  """A Server on the real one, in a namespace of its own."""
  name = "t%d-%d" % (os.getpid(), next(_NUMBERS))
  with formwork.connect(live_target, namespace=name, timeout=30) as made:
    yield made
    made.clear()


@pytest.fixture(params=["stand-in", "server"])
def either(request):
  """A Server on the stand-in, and then on the real one."""
  return request.getfixturevalue("server" if request.param == "stand-in" else "live")
